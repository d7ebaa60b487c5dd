"""mlgen doctor: check this machine and the cluster for everything that jobs need."""

import json
import platform
import subprocess
from collections.abc import Iterator, Sequence
from shlex import quote

from mlgen.kubernetes.versions import SUPPORTED, KubeVersion, parse
from mlgen.live.doctor.job import devices, dry_run, needs, queue, quotas, rights
from mlgen.live.doctor.report import DATA, Patient, Row, Section, has_missing, row
from mlgen.live.kubectl import CAUSES, NO_SERVER, Kubectl, KubectlError, failure
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
        kubectl: reads the cluster.
        jobs: the jobs to check; () to check only the machine and the cluster.
        version: the version of mlgen.
        target: the version of Kubernetes that manifests are rendered for.

    Raises:
        KubectlError: kubectl fails unexpectedly.
    """
    rows = [] if jobs else list(programs(version))
    try:
        rows += versions(kubectl, target)
    except KubectlError as error:
        if error.cause == "missing":
            return [("this machine", [*rows, row("no kubectl", message=error.message)])]
        if error.cause not in NO_SERVER:
            raise
        rows.append(row("no server", message=error.message, hint=CAUSES[error.cause]["hint"]))
    title = "the cluster" if jobs else "this machine and the cluster"
    sections = [(title, rows)]
    if has_missing(sections):
        return [("this machine and the cluster", rows)]
    # Every user may read this list. It includes all custom resources.
    outcome = kubectl.outcome("api-resources", "-o", "name")
    if not outcome.stdout.strip():  # it also fails if one aggregated API does not respond
        raise failure(outcome)
    served = frozenset(outcome.stdout.split())
    rows += _dns(kubectl)
    rows += [] if jobs else apis(served)
    words = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
    context = kubectl.outcome(*words).stdout.strip() or "default"
    for job in jobs:
        namespace = job.job.namespace or context
        title = f"{job.job.name} in namespace {namespace}"
        sections.append((title, list(_of_job(kubectl, job, namespace, served))))
    return sections


def _dns(kubectl: Kubectl) -> Iterator[Row]:
    """Yield a note if kube-system has no Service with the DNS port."""
    found = kubectl.readable("get", "services", namespace=DNS)
    ports = [port["port"] for each in found or () for port in each["spec"].get("ports") or ()]
    if found is not None and DNS_PORT not in ports:
        yield row("no DNS", namespace=DNS, port=DNS_PORT)


def _of_job(
    kubectl: Kubectl, rendered: Rendered, name: str, served: frozenset[str]
) -> Iterator[Row]:
    """Yield the rows about a job in a namespace."""
    found = kubectl.readable("get", "namespace", name, "--ignore-not-found")
    patient = Patient(rendered, kubectl, name, found != [], served)
    if not patient.exists:
        yield row("no namespace", name=name, quoted=quote(name))
    yield from rights(patient)
    if found is None:
        yield row("unreadable namespace", name=name)
    for each in found or ():
        level = (each["metadata"].get("labels") or {}).get(ENFORCE)
        yield row("secured namespace" if level else "namespace", name=name, level=level)
    yield from needs(patient)
    yield from queue(patient)
    yield from devices(patient)
    if patient.exists:
        yield from quotas(patient)
        yield from dry_run(patient)


def programs(version: str) -> Iterator[Row]:
    """Yield a row for mlgen and for each tool other than kubectl."""
    yield row("mlgen", version=version, python=platform.python_version())
    for tool in DATA["tools"]:
        found = _version(tool["command"])
        yield row("tool" if found else "no tool", version=found, **tool)


def _version(command: Sequence[str]) -> str:
    """Return the first line of a command's output; "" if it fails."""
    try:
        process = subprocess.run(  # noqa: S603 - one of the table
            command, capture_output=True, text=True, check=False, timeout=TOOL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = process.stdout.strip().splitlines()
    return lines[0].strip() if lines and not process.returncode else ""


def versions(kubectl: Kubectl, target: KubeVersion) -> list[Row]:
    """Return the versions of kubectl and the API server, compared with `--kube-version`.

    Raises:
        KubectlError: kubectl is not installed, or prints no JSON.
    """
    outcome = kubectl.outcome("version", "-o", "json")
    try:
        document = json.loads(outcome.stdout)
    except ValueError:
        raise failure(outcome) from None
    client, present = (document.get(f"{side}Version", {}) for side in ("client", "server"))
    of_client = row("kubectl", version=client.get("gitVersion", "?"))
    if present:
        return [of_client, server(str(present["gitVersion"]), target)]
    hint = CAUSES["unreachable"]["hint"]
    return [of_client, row("no server", message=outcome.message, hint=hint)]


def server(text: str, target: KubeVersion) -> Row:
    """Return the row that compares the API server's version with the target version.

    Args:
        text: the version that the API server reports.
        target: the version that manifests are rendered for.
    """
    try:
        version = parse(text)
    except ValueError:
        return row("unknown server", version=text, first=SUPPORTED[0], last=SUPPORTED[-1])
    name = "older server" if version < target else "server"
    return row(name, version=text, target=target, minor=version)


def apis(served: frozenset[str]) -> Iterator[Row]:
    """Yield a row for each optional API: whether the cluster serves it.

    Args:
        served: the cluster's resources with their groups.
    """
    for api in DATA["apis"]:
        yield row("api" if api["resource"] in served else "no api", **api)
