"""mlgen doctor: whether this machine and the cluster have what jobs need, and what to do if not."""

from collections.abc import Iterator, Sequence
from shlex import quote

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import KubeVersion
from mlgen.live.doctor.capacity import capacity
from mlgen.live.doctor.dry_run import dry_run
from mlgen.live.doctor.findings import Finding, Patient, Section, allowed
from mlgen.live.doctor.images import registries
from mlgen.live.doctor.limits import limit_ranges, pod_security, quotas
from mlgen.live.doctor.needs import needs
from mlgen.live.doctor.queue import queue
from mlgen.live.doctor.rights import rights
from mlgen.live.doctor.site import apis, programs, versions
from mlgen.live.kubectl import Kubectl, KubectlError, failure
from mlgen.result import Rendered

DNS = "kube-system"
"""The namespace of the cluster's DNS, except in OpenShift:
https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/."""

DNS_PORT = 53


def examine(
    kubectl: Kubectl, jobs: Sequence[Rendered], version: str, target: KubeVersion
) -> list[Section]:
    """Return the findings about this machine and the cluster, and about each job.

    Args:
        kubectl: asks the cluster.
        jobs: () to look at the cluster alone.
        version: of mlgen.
        target: the version of Kubernetes that manifests are rendered for.

    Raises:
        KubectlError: kubectl fails unexpectedly.
    """
    machine = [] if jobs else list(programs(version))
    try:
        found = versions(kubectl, target)
    except KubectlError as error:
        if error.cause != "missing":
            raise
        cure = "https://kubernetes.io/docs/tasks/tools/"
        row = Finding("missing", "kubectl", error.message, f"install it: {cure}")
        return [Section("this machine", (*machine, row))]
    if any(each.level == "missing" for each in found):
        return [Section("this machine and the cluster", (*machine, *found))]
    served = _served(kubectl)
    cluster = [*machine, *found, *_dns(kubectl)]
    cluster += [] if jobs else list(apis(served))
    title = "the cluster" if jobs else "this machine and the cluster"
    sections = [Section(title, tuple(cluster))]
    context = _namespace_of_context(kubectl)
    return sections + [_job(kubectl, job, context, served) for job in jobs]


def _served(kubectl: Kubectl) -> frozenset[str]:
    """Return the resources that the API server serves, with their groups: `jobs.batch`.

    Everybody may read this list, and it has the kinds of all CustomResourceDefinitions.

    Raises:
        KubectlError: kubectl fails.
    """
    outcome = kubectl.outcome("api-resources", "-o", "name")
    if not outcome.stdout.strip():  # it also fails if one aggregated API does not answer
        raise failure(outcome)
    return frozenset(outcome.stdout.split())


def _dns(kubectl: Kubectl) -> Iterator[Finding]:
    """Yield a note if the Service of the cluster's DNS is not where it usually is."""
    found = allowed(kubectl, "get", "services", namespace=DNS)
    ports = [port["port"] for each in found or () for port in each["spec"].get("ports") or ()]
    if found is not None and DNS_PORT not in ports:
        text = f"no Service of {DNS} has port {DNS_PORT}; replicas find each other by DNS"
        yield Finding("note", "cluster DNS", text)


def _namespace_of_context(kubectl: Kubectl) -> str:
    """Return the default namespace of kubectl's context."""
    words = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
    outcome = kubectl.outcome(*words)
    return outcome.stdout.strip() or "default"


def _job(kubectl: Kubectl, rendered: Rendered, context: str, served: frozenset[str]) -> Section:
    """Return the findings about a job."""
    namespace = rendered.job.namespace or context
    found = allowed(kubectl, "get", "namespace", namespace, "--ignore-not-found")
    patient = Patient(rendered, kubectl, namespace, found != [], served)
    title = f"{rendered.job.name} in namespace {namespace}"
    return Section(title, tuple(_findings(patient, found)))


def _findings(patient: Patient, found: list[Object] | None) -> Iterator[Finding]:
    name = patient.namespace
    if not patient.exists:
        cure = f"kubectl create namespace {quote(name)}"
        yield Finding("missing", f"namespace {name}", "not found", cure)
    yield from rights(patient)
    if found is None:
        yield Finding("note", f"namespace {name}", "cannot be read with your rights")
    elif found:
        yield pod_security(patient, found[0])
    yield from needs(patient)
    yield from queue(patient)
    yield from capacity(patient)
    if patient.exists:
        yield from quotas(patient)
        yield from limit_ranges(patient)
        yield from dry_run(patient)
    yield from registries(patient)
