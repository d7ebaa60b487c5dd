"""Scheduling of pods: scheduler, gang, nodes and affinity, as a pod template patch.

Each gang scheduler finds the pods of a group by a label, an annotation or a field:

- Volcano: `scheduling.k8s.io/group-name` (volcano.sh/apis, scheduling/v1beta1/labels.go),
- coscheduling: `scheduling.x-k8s.io/pod-group` (scheduler-plugins, apis/scheduling/v1alpha1),
- Kubernetes' own: the field `schedulingGroup` (k8s.io/api v0.37.0, core/v1),
- Kueue: `kueue.x-k8s.io/pod-group-name` and `kueue.x-k8s.io/pod-group-total-count`
  (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#running-a-group-of-pods-to-be-admitted-together).
"""

from collections.abc import Mapping
from typing import Any

from mlgen.jobfile.model import Placement, TrainingJob
from mlgen.kubernetes.labels import KUEUE, KUEUE_QUEUE
from mlgen.objects.labels import selector
from mlgen.topology import Role, Topology

SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
"""The schedulers' names in the Helm charts of the projects."""


def is_single_job(topology: Topology) -> bool:
    """True if the only workload is a Kubernetes Job, which Kueue admits without a pod group."""
    return len(topology.roles) == 1 and not topology.roles[0].serves


def pod_count(topology: Topology) -> int:
    """Return the number of pods of the gang.

    Roles in order are not in it: the others would wait for pods that do not exist yet.
    """
    return sum(role.replicas for role in topology.roles if not role.orders)


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template patch that places a role's pods."""
    job, spec = topology.job, role.spec
    scheduling = job.scheduling
    labels, annotations = ({}, {}) if role.orders else _group(topology, role)
    is_native = scheduling.gang == "kubernetes" and not role.orders
    fields = {
        "schedulerName": scheduling.scheduler_name or SCHEDULERS.get(scheduling.gang),
        "priorityClassName": scheduling.priority_class_name,
        "schedulingGroup": {"podGroupName": job.name} if is_native else None,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": list(spec.tolerations),
        "affinity": _affinity(job, spec.affinity),
        "topologySpreadConstraints": [_spread(job, scheduling.spread)] if scheduling.spread else [],
    }
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {name: value for name, value in fields.items() if value},
    }


def _group(topology: Topology, role: Role) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that make a pod a member of the job's gang."""
    job = topology.job
    gang = job.scheduling.gang
    if gang == "volcano":
        return {}, {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": role.name}
    if gang == "coscheduling":
        return {"scheduling.x-k8s.io/pod-group": job.name}, {}
    return _kueue_group(topology) if gang == "kueue" else ({}, {})


def _kueue_group(topology: Topology) -> tuple[dict[str, str], dict[str, str]]:
    """Return Kueue's labels and annotations; a single Job has its queue label on the Job."""
    job, placement = topology.job, topology.job.scheduling.topology
    annotations = {}
    if placement:
        annotations[f"kueue.x-k8s.io/podset-{placement.mode}-topology"] = placement.key
    if is_single_job(topology):
        return {}, annotations
    # Kueue reads the priority class, for example, from the pods of a group.
    labels = {name: value for name, value in job.labels.items() if name.startswith(KUEUE)} | {
        KUEUE_QUEUE: job.scheduling.queue or "",
        "kueue.x-k8s.io/pod-group-name": job.name,
    }
    count = {"kueue.x-k8s.io/pod-group-total-count": str(pod_count(topology))}
    return labels, count | annotations


def _affinity(job: TrainingJob, user_affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's affinity, plus a term that keeps the job's pods in one topology domain.

    Kueue has annotations instead of the term.
    """
    affinity = dict(user_affinity)
    placement = job.scheduling.topology
    if placement is None or job.scheduling.gang == "kueue":
        return affinity
    term: dict[str, Any] = {
        "labelSelector": {"matchLabels": selector(job)},
        "topologyKey": placement.key,
    }
    field = f"{placement.mode}DuringSchedulingIgnoredDuringExecution"
    if placement.mode == "preferred":
        term = {"weight": 100, "podAffinityTerm": term}
    pod_affinity = dict(affinity.get("podAffinity") or {})
    pod_affinity[field] = [*(pod_affinity.get(field) or []), term]
    return affinity | {"podAffinity": pod_affinity}


def _spread(job: TrainingJob, spread: Placement) -> dict[str, Any]:
    """Return the constraint that spreads the job's pods over topology domains.

    Nodes with a taint that pods do not tolerate, such as a control plane's, are left out. Otherwise
    each would count as a domain without pods, and the other domains could have one pod at most.
    https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
    """
    required = spread.mode == "required"
    return {
        "maxSkew": 1,
        "topologyKey": spread.key,
        "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(job)},
    } | ({"nodeTaintsPolicy": "Honor"} if required else {})
