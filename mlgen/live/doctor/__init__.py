"""mlgen doctor: whether this machine and the cluster have what jobs need, and what to do if not."""

import json
import platform
import subprocess
from collections.abc import Iterator, Sequence
from shlex import quote

from mlgen.kubernetes.versions import SUPPORTED, KubeVersion, parse
from mlgen.live.doctor.limits import dry_run, queue, quotas, rights
from mlgen.live.doctor.needs import devices, needs
from mlgen.live.doctor.report import UNREADABLE, Patient, Row, Section, has_missing
from mlgen.live.kubectl import CAUSES, DATA, Kubectl, KubectlError, failure
from mlgen.result import Rendered

TOOL_SECONDS = 10.0

DNS = "kube-system"
"""The namespace of the cluster's DNS, except in OpenShift:
https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/."""

DNS_PORT = 53

ENFORCE = "pod-security.kubernetes.io/enforce"
"""https://kubernetes.io/docs/concepts/security/pod-security-admission/"""


def examine(
    kubectl: Kubectl, jobs: Sequence[Rendered], version: str, target: KubeVersion
) -> list[Section]:
    """Return the rows about this machine and the cluster, and about each job.

    Args:
        kubectl: asks the cluster.
        jobs: () to look at the cluster alone.
        version: of mlgen.
        target: the version of Kubernetes that manifests are rendered for.

    Raises:
        KubectlError: kubectl fails unexpectedly.
    """
    rows = [] if jobs else list(programs(version))
    try:
        rows += versions(kubectl, target)
    except KubectlError as error:
        if error.cause != "missing":
            raise
        hint = "install it: https://kubernetes.io/docs/tasks/tools/"
        return [("this machine", [*rows, Row("missing", "kubectl", error.message, hint)])]
    title = "the cluster" if jobs else "this machine and the cluster"
    sections = [(title, rows)]
    if has_missing(sections):
        return [("this machine and the cluster", rows)]
    served = _served(kubectl)
    rows += _dns(kubectl)
    rows += [] if jobs else apis(served)
    words = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
    context = kubectl.outcome(*words).stdout.strip() or "default"
    for job in jobs:
        namespace = job.job.namespace or context
        title = f"{job.job.name} in namespace {namespace}"
        sections.append((title, list(_of_job(kubectl, job, namespace, served))))
    return sections


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


def _dns(kubectl: Kubectl) -> Iterator[Row]:
    """Yield a note if the Service of the cluster's DNS is not where it usually is."""
    found = kubectl.readable("get", "services", namespace=DNS)
    ports = [port["port"] for each in found or () for port in each["spec"].get("ports") or ()]
    if found is not None and DNS_PORT not in ports:
        text = f"no Service of {DNS} has port {DNS_PORT}; replicas find each other by DNS"
        yield Row("note", "cluster DNS", text)


def _of_job(
    kubectl: Kubectl, rendered: Rendered, name: str, served: frozenset[str]
) -> Iterator[Row]:
    """Yield the rows about a job in a namespace."""
    found = kubectl.readable("get", "namespace", name, "--ignore-not-found")
    patient = Patient(rendered, kubectl, name, found != [], served)
    if not patient.exists:
        hint = f"kubectl create namespace {quote(name)}"
        yield Row("missing", f"namespace {name}", "not found", hint)
    yield from rights(patient)
    if found is None:
        yield Row("note", f"namespace {name}", UNREADABLE)
    for each in found or ():
        level = (each["metadata"].get("labels") or {}).get(ENFORCE)
        yield Row("ok", f"namespace {name}", f"enforces PodSecurity {level}" if level else "")
    yield from needs(patient)
    yield from queue(patient)
    yield from devices(patient)
    if patient.exists:
        yield from quotas(patient)
        yield from dry_run(patient)


def programs(version: str) -> Iterator[Row]:
    """Yield what is installed on this machine, besides kubectl."""
    yield Row("ok", f"mlgen {version}", f"Python {platform.python_version()}")
    for row in DATA["tools"]:
        found = _version(row["command"])
        if found:
            yield Row("ok", f"{row['name']} {found}")
        else:
            yield Row("note", row["name"], f"not installed; {row['use']}")


def _version(command: Sequence[str]) -> str:
    """Return the first line that a program prints, or ""."""
    try:
        process = subprocess.run(  # noqa: S603 - one of the table
            command, capture_output=True, text=True, check=False, timeout=TOOL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = process.stdout.strip().splitlines()
    return lines[0].strip() if lines and not process.returncode else ""


def versions(kubectl: Kubectl, target: KubeVersion) -> list[Row]:
    """Return the versions of kubectl and of the API server, held against `--kube-version`.

    Raises:
        KubectlError: kubectl is not installed, or the cluster does not answer.
    """
    outcome = kubectl.outcome("version", "-o", "json")
    try:
        document = json.loads(outcome.stdout)
    except ValueError:
        raise failure(outcome) from None
    client, present = (document.get(f"{side}Version", {}) for side in ("client", "server"))
    of_server = Row("missing", "API server", outcome.message, CAUSES["unreachable"]["hint"])
    if present:
        of_server = server(str(present["gitVersion"]), target)
    return [Row("ok", f"kubectl {client.get('gitVersion', '?')}"), of_server]


def server(text: str, target: KubeVersion) -> Row:
    """Return whether manifests for a version suit a cluster of another.

    Args:
        text: the version that the API server reports.
        target: the version that manifests are rendered for.
    """
    subject = f"API server {text}"
    try:
        version = parse(text)
    except ValueError:
        first, last = SUPPORTED[0], SUPPORTED[-1]
        return Row("warning", subject, f"mlgen is tested with {first} to {last}")
    if version < target:
        hint = f"render with --kube-version {version}"
        return Row("warning", subject, f"older than --kube-version {target}", hint)
    return Row("ok", subject, f"suits --kube-version {target}")


def apis(served: frozenset[str]) -> Iterator[Row]:
    """Yield which optional APIs the cluster serves.

    Args:
        served: its resources, with their groups.
    """
    for row in DATA["apis"]:
        if row["resource"] in served:
            yield Row("ok", row["name"], f"{row['resource']}, for {row['use']}")
        else:
            yield Row("note", row["name"], f"not in the cluster; only needed for {row['use']}")
