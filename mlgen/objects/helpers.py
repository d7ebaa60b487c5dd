"""Settings of the pods and containers that mlgen adds: those in `helpers`, else the job's own.

A cluster may require labels, pull secrets, tolerations or a priority of every pod. So the added
pods have those of the job. Their images do not need the nodes on which the job trains.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse
from mlgen.objects.labels import JOB, users_labels, workload_name
from mlgen.objects.security import NOBODY, RESTRICTED
from mlgen.topology import Topology

OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
"""The labels of nodes with the platform of an image. All helper images are for Linux, and the
default ones for every architecture."""

KEEP: dict[bool | None, dict[str, str]] = {
    None: {},
    True: {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
    False: {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    },
}
"""The pod annotations for each value of `scheduling.safeToEvict`.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md and
https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
"""


def context(job: TrainingJob) -> dict[str, Any]:
    """Return the security context of a helper container."""
    user, group = job.helpers.run_as_user, job.helpers.run_as_group
    own = {"runAsUser": None if user == "Cluster" else user, "runAsGroup": group}
    if group is None and user != "Cluster":
        own["runAsGroup"] = NOBODY
    merged = RESTRICTED | own
    return {name: value for name, value in merged.items() if value is not None}


def resources(job: TrainingJob, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of a helper container.

    A resource in the job file replaces both its request and its limit, because a limit below
    mlgen's request would be rejected. The memory is at least mlgen's request, which one value for
    all containers could not know.

    Args:
        job: the job.
        own: mlgen's requests and limits.
    """
    users = job.helpers.resources
    if not users:
        return dict(own)
    replaced = resource_names(job)
    merged = {
        kind: {name: amount for name, amount in own.get(kind, {}).items() if name not in replaced}
        | dict(users.get(kind, {}))
        for kind in ("requests", "limits")
    }
    least = own.get("requests", {}).get("memory")
    for amounts in merged.values() if least else ():
        if parse(amounts.get("memory", least)) < parse(least):
            amounts["memory"] = least
    return {kind: amounts for kind, amounts in merged.items() if amounts}


def resource_names(job: TrainingJob) -> set[str]:
    """Return the names of the resources that the job file sets for helpers."""
    return {name for amounts in job.helpers.resources.values() for name in amounts}


def pod_fields(
    topology: Topology, objects: Sequence[Object], image: str | None = None
) -> dict[str, Any]:
    """Return metadata and placement of a pod that mlgen adds. A field is None if it is not set.

    Args:
        topology: the job's topology.
        objects: the job's objects, with its workloads.
        image: the training image that the pod runs; None for an image of its own.
    """
    job, settings = topology.job, topology.job.helpers
    workloads = {item["metadata"]["name"]: item for item in objects if _pod_of(item)}
    roles = [role for role in topology.roles if workload_name(job, role) in workloads]
    alike = [role for role in roles if role.spec.image == image] if image else []
    chosen = next(iter(alike or [role for role in roles if role.decides]), None)
    like = _pod_of(workloads[workload_name(job, chosen)]) if chosen else {}
    pods = [_pod_of(workloads[workload_name(job, role)]) for role in roles]
    platform = {OS, ARCH} if image else {OS}
    nodes = {k: v for k, v in (like.get("nodeSelector") or {}).items() if k in platform}
    secrets = {each["name"]: each for pod in pods for each in pod.get("imagePullSecrets") or ()}
    tolerations = settings.tolerations
    if tolerations is None:
        tolerations = like.get("tolerations") or ()
    return {
        "labels": _labels(job, pods) | dict(settings.labels),
        "annotations": dict(settings.annotations),
        "node_selector": nodes | dict(settings.node_selector) or None,
        "tolerations": list(tolerations) or None,
        "priority": settings.priority_class_name or like.get("priorityClassName"),
        "pull_secrets": list(secrets.values()) or None,
    }


def _pod_of(workload: Object) -> Object:
    """Return the pod spec of a workload; {} for other objects."""
    template = (workload.get("spec") or {}).get("template") or {}
    spec: Object = template.get("spec") or {}
    return spec


def _labels(job: TrainingJob, pods: Sequence[Object]) -> dict[str, str]:
    """Return the user's labels, without those by which the job's pods select each other.

    A training pod that must be near or far from pods with a label would otherwise depend on the
    node of a helper.
    """
    parts = {id(part): part for pod in pods for part in _placements(pod)}
    keys = {key for part in parts.values() for key in _selecting(part)}
    return {name: value for name, value in users_labels(job).items() if name not in keys}


def _placements(pod: Object) -> Iterator[Any]:
    for name in ("affinity", "topologySpreadConstraints"):
        if pod.get(name):
            yield pod[name]


def _selecting(node: Any) -> Iterator[str]:
    """Yield the label keys in the selectors of a placement, unless they select only replicas."""
    if isinstance(node, list):
        for item in node:
            yield from _selecting(item)
    elif isinstance(node, dict):
        selector = node.get("labelSelector") or {}
        keys = [*(selector.get("matchLabels") or ())]
        keys += [each.get("key") for each in selector.get("matchExpressions") or ()]
        keys += [*(node.get("matchLabelKeys") or ())]
        if JOB not in keys:
            yield from keys
        for name, value in node.items():
            if name != "labelSelector":
                yield from _selecting(value)
