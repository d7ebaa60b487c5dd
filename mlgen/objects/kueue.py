"""What Kueue needs of pods and Jobs, besides the labels of a group (`placement`).

The rules were read in kubernetes-sigs/kueue v0.19.2, and are tried in tests/parts/kueue.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlgen.objects.placement import is_single_job
from mlgen.topology import Topology

TERMINATED = "TerminationTarget"
"""The condition of a pod of a group that Kueue stops, such as to preempt the group
(pkg/controller/jobs/pod/pod_controller.go, Stop)."""

NOT_RETRIED = {"kueue.x-k8s.io/retriable-in-group": "false"}
"""The annotation of a pod whose group has ended when none of its pods runs, even if some have not
succeeded. Without it, such a group waits for replacements: it keeps its quota, and the finalizers
of its pods, until somebody deletes its Workload
(https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#termination)."""

PLACED_TOGETHER = "kueue.x-k8s.io/podset-group-name"
"""The annotation of pods that are placed in the same domain as those of another role. Kueue does so
for two roles, one of which has a single pod
(pkg/controller/jobframework/tas_validation.go, ValidatePodSetGroupingTopology)."""

TOGETHER = 2


def is_queued(topology: Topology) -> bool:
    """True if Kueue admits the job."""
    return topology.job.scheduling.gang == "kueue"


def is_group(topology: Topology) -> bool:
    """True if Kueue admits the job as a group of pods, and not as a Kubernetes Job."""
    return is_queued(topology) and not is_single_job(topology)


def with_modest_helpers(
    topology: Topology, spec: dict[str, Any], own: Collection[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a pod spec whose helpers request only what its containers request too.

    Kueue admits a job only if its ClusterQueue covers every resource that a pod requests
    (https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources). A queue for GPUs may not
    cover memory, so a helper must not be the only one in its pod to request it. A limit is a
    request, too, where there is no other.

    Args:
        topology: the job.
        spec: of a pod.
        own: the resources that mlgen gives to helpers; others are the user's, and stay.
    """
    if not is_queued(topology) or "initContainers" not in spec:
        return spec
    pod = [spec, *spec["containers"]]
    requested = {name for each in pod for of in _amounts(each) for name in of}
    helpers = [
        _within(each, requested) if each.get("resources") in own else each
        for each in spec["initContainers"]
    ]
    return spec | {"initContainers": helpers}


def _amounts(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the requests and the limits of a container, or of a pod as a whole."""
    resources = container.get("resources") or {}
    return [resources.get("requests") or {}, resources.get("limits") or {}]


def _within(container: dict[str, Any], requested: Collection[str]) -> dict[str, Any]:
    """Return a container that requests no other resources than these."""
    resources = {
        kind: kept
        for kind, amounts in container["resources"].items()
        if (kept := {name: amount for name, amount in amounts.items() if name in requested})
    }
    rest = {name: value for name, value in container.items() if name != "resources"}
    return {**rest, "resources": resources} if resources else rest


def annotate(topology: Topology, workloads: Sequence[dict[str, Any]]) -> None:
    """Add the annotations that depend on all workloads of a group to their pod templates.

    Those of the user stay. Templates may share what is equal in all of them.
    """
    if not is_group(topology):
        return
    annotations = {} if _may_start_again(workloads) else NOT_RETRIED
    sizes = [role.replicas for role in topology.roles]
    if topology.job.scheduling.topology and len(sizes) == TOGETHER and min(sizes) == 1:
        annotations = {**annotations, PLACED_TOGETHER: topology.job.name}
    for manifest in workloads:
        own = manifest["spec"]["template"]["metadata"].setdefault("annotations", {})
        for name, value in annotations.items():
            own.setdefault(name, value)


def _may_start_again(workloads: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether pods may be replaced after all have failed.

    Such a group has not ended. One with a StatefulSet runs on meanwhile, because its containers are
    restarted in place.
    """
    specs = [manifest["spec"] for manifest in workloads]
    if any(manifest["kind"] == "StatefulSet" for manifest in workloads):
        return False
    return any(spec.get("backoffLimit") or spec.get("backoffLimitPerIndex") for spec in specs)
