"""Where pods go: what a role and the job say of nodes, as a patch of the pod template.

The gang schedulers know a pod's group by a label or an annotation:

- Volcano: `scheduling.k8s.io/group-name` (volcano.sh/apis, scheduling/v1beta1/labels.go),
- coscheduling: `scheduling.x-k8s.io/pod-group` (scheduler-plugins, apis/scheduling/v1alpha1),
- Kueue: `kueue.x-k8s.io/pod-group-name` and its kin
  (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#running-a-group-of-pods-to-be-admitted-together).
"""

from collections.abc import Mapping
from typing import Any

from mlgen.jobfile.model import Placement, TrainingJob
from mlgen.objects.labels import selector
from mlgen.topology import Role, Topology

SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
"""The names under which the projects' own charts install them."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def lone(topology: Topology) -> bool:
    """Return whether the job is one Kubernetes Job, which Kueue admits by itself."""
    return len(topology.roles) == 1 and not topology.roles[0].serves


def pods(topology: Topology) -> int:
    """Return how many pods there are, of all roles."""
    return sum(role.replicas for role in topology.roles)


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return what a pod template says of the scheduler, of nodes and of the job's other pods."""
    job, spec = topology.job, role.spec
    asked = job.scheduling
    labels, annotations = _group(topology, role)
    fields = {
        "schedulerName": asked.scheduler_name or SCHEDULERS.get(asked.gang),
        "priorityClassName": asked.priority_class_name,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": list(spec.tolerations),
        "affinity": _affinity(topology, spec.affinity),
        "topologySpreadConstraints": [_spread(job, asked.spread)] if asked.spread else [],
    }
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {name: value for name, value in fields.items() if value},
    }


def _group(topology: Topology, role: Role) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations by which a scheduler knows that pods belong together."""
    job = topology.job
    asked, placement = job.scheduling, job.scheduling.topology
    if asked.gang == "volcano":
        names = {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": role.name}
        return {}, names
    if asked.gang == "coscheduling":
        return {"scheduling.x-k8s.io/pod-group": job.name}, {}
    if asked.gang != "kueue":
        return {}, {}
    annotations = {}
    if placement:
        annotations[f"kueue.x-k8s.io/podset-{placement.mode}-topology"] = placement.key
    if lone(topology):
        return {}, annotations
    labels = {KUEUE_QUEUE: asked.queue or "", "kueue.x-k8s.io/pod-group-name": job.name}
    return labels, {"kueue.x-k8s.io/pod-group-total-count": str(pods(topology))} | annotations


def _affinity(topology: Topology, given: Mapping[str, Any]) -> dict[str, Any]:
    """The user's affinity, and that of the job's pods to each other. Kueue has its own way."""
    job, found = topology.job, dict(given)
    placement = job.scheduling.topology
    if placement is None or job.scheduling.gang == "kueue":
        return found
    term: dict[str, Any] = {
        "labelSelector": {"matchLabels": selector(job)},
        "topologyKey": placement.key,
    }
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    if placement.mode == "preferred":
        field, term = (
            "preferredDuringSchedulingIgnoredDuringExecution",
            {"weight": 100, "podAffinityTerm": term},
        )
    theirs = dict(found.get("podAffinity") or {})
    found["podAffinity"] = theirs | {field: [*(theirs.get(field) or []), term]}
    return found


def _spread(job: TrainingJob, spread: Placement) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": spread.key,
        "whenUnsatisfiable": "DoNotSchedule" if spread.mode == "required" else "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(job)},
    }
