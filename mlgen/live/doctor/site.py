"""The programs on this machine, and the cluster: versions, and what it serves."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlgen.kubernetes.versions import SUPPORTED, KubeVersion, parse
from mlgen.live.doctor.findings import Finding
from mlgen.live.kubectl import HINTS, Kubectl, Outcome, failure

if TYPE_CHECKING:
    from mlgen.kubernetes.objects import Object

TOOLS = {
    "helm": (("helm", "version", "--short"), "for charts with jobs: mlgen helm-post-render"),
    "kustomize": (("kustomize", "version"), "for overlays with jobs: mlgen krm"),
    "argocd": (("argocd", "version", "--client", "--short"), "only to look at Argo CD from here"),
}
"""Programs that mlgen works with, the command that prints their version, and what they are for."""

APIS = {
    "workflows.argoproj.io": "Argo Workflows: mlgen argo",
    "podgroups.scheduling.volcano.sh": "Volcano: scheduling.gang: volcano",
    "podgroups.scheduling.x-k8s.io": "scheduler-plugins: scheduling.gang: coscheduling",
    "podgroups.scheduling.k8s.io": "pod groups: scheduling.gang: kubernetes",
    "workloads.kueue.x-k8s.io": "Kueue: scheduling.gang: kueue",
    "network-attachment-definitions.k8s.cni.cncf.io": "Multus: network.rdma",
}
"""Resources that optional features need."""

TOOL_SECONDS = 10.0


def programs(version: str) -> Iterator[Finding]:
    """Yield what is installed on this machine, besides kubectl."""
    yield Finding("ok", f"mlgen {version}", f"Python {platform.python_version()}")
    for name, (command, purpose) in TOOLS.items():
        found = _version(command) if shutil.which(name) else ""
        if found:
            yield Finding("ok", f"{name} {found}")
        else:
            yield Finding("note", name, f"not installed; {purpose}")


def _version(command: tuple[str, ...]) -> str:
    """Return the first line that a program prints, or ""."""
    try:
        process = subprocess.run(  # noqa: S603 - one of TOOLS
            command, capture_output=True, text=True, check=False, timeout=TOOL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = process.stdout.strip().splitlines()
    return lines[0].strip() if lines and not process.returncode else ""


def versions(kubectl: Kubectl, target: KubeVersion) -> list[Finding]:
    """Return the versions of kubectl and of the API server, held against `--kube-version`.

    Raises:
        KubectlError: kubectl is not installed, or the cluster does not answer.
    """
    outcome = kubectl.outcome("version", "-o", "json")
    try:
        document: Object = json.loads(outcome.stdout)
    except ValueError:
        raise failure(outcome) from None
    client = document.get("clientVersion", {}).get("gitVersion", "?")
    found = [Finding("ok", f"kubectl {client}")]
    if "serverVersion" not in document:
        return [*found, _no_server(outcome)]
    return [*found, server(str(document["serverVersion"]["gitVersion"]), target)]


def _no_server(outcome: Outcome) -> Finding:
    return Finding("missing", "API server", outcome.message, HINTS["unreachable"])


def server(text: str, target: KubeVersion) -> Finding:
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
        return Finding("warning", subject, f"mlgen is tested with {first} to {last}")
    if version < target:
        cure = f"render with --kube-version {version}"
        return Finding("warning", subject, f"older than --kube-version {target}", cure)
    return Finding("ok", subject, f"suits --kube-version {target}")


def apis(served: frozenset[str]) -> Iterator[Finding]:
    """Yield which optional APIs the cluster serves.

    Args:
        served: its resources, with their groups.
    """
    for name, purpose in APIS.items():
        what, _, use = purpose.partition(": ")
        if name in served:
            yield Finding("ok", what, f"{name}, for {use}")
        else:
            yield Finding("note", what, f"not in the cluster; only needed for {use}")
