"""Facts that the supervisor reads from API objects in the shapes of `answers`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlgen.runtime.answers import COMPLETIONS, PREFERRED, RECORD, REQUIRED, Object
from mlgen.runtime.times import seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.progress import Progress

STUCK_SECONDS = 60.0
"""Seconds after the grace period of a terminating pod until its node counts as lost."""

JOB = "mlgen.dev/job"

ENDS = {"Complete": True, "SuccessCriteriaMet": True, "Failed": False, "FailureTarget": False}
"""Final conditions of a Job, and whether it succeeded. The second and the last are set first, while
pods are still being deleted (k/k 1.31, KEP-3998 and KEP-3329)."""

JOB_LIMIT = 2**31 - 1
"""The backoffLimit of a Job if the supervisor counts its failures."""

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that its Job has not counted yet."""

HELD = "kueue.x-k8s.io/managed"
"""The finalizer of a pod that is in a group in Kueue, and may have to be replaced."""

NAME_FIELD = "metadata.name"
"""The only field of a node that `matchFields` can match."""


@dataclass(frozen=True)
class Seen:
    """The observed objects."""

    workloads: dict[str, Object | None]
    """By name; None if the workload does not exist."""
    pods: list[Object]
    status: dict[str, str]
    """The data of the ConfigMap `<job>.status`."""
    taken: dict[str, str] = field(default_factory=dict)
    """By name of a workload that belongs to another job or application: the owner."""
    refused: dict[str, str] = field(default_factory=dict)
    """By name of a workload: why it cannot be changed, after several attempts."""
    waiting: dict[str, int] = field(default_factory=dict)
    """By UID of a pod that waits for the next attempt: the attempt that it has run last."""
    ahead: float | None = None
    """What this supervisor has newly learned of `Clock.ahead`; None if it has nothing to tell."""
    progress: Progress | None = None
    """The reports that this supervisor has received."""


def stranger(observed: Object, job: str) -> str:
    """Return the other owner of an object with one of the job's names; "" if the job owns it."""
    owner = observed["metadata"]["labels"].get(JOB)
    if owner == job:
        return ""
    return f"the job {' '.join(owner.split())}" if owner else "another application"


def condition(observed: Object, name: str, status: str = "True") -> Object | None:
    """Return the condition of an object with a name and status; None if there is none."""
    conditions: list[Object] = observed["status"]["conditions"]
    found = (each for each in conditions if (each["type"], each["status"]) == (name, status))
    return next(found, None)


def ending(observed: Object | None) -> Object | None:
    """Return the final condition of a Job; None if it has none, and for a StatefulSet."""
    conditions = (condition(observed, name) for name in ENDS) if observed else ()
    return next(filter(None, conditions), None)


def is_suspended(observed: Object) -> bool:
    """Return whether a Job is suspended, or a StatefulSet scaled to 0."""
    spec: Object = observed["spec"]
    return bool(spec["suspend"] if observed["kind"] == "Job" else spec["replicas"] == 0)


def is_stopped(observed: Object) -> bool:
    """Return whether the controller has suspended a workload as requested."""
    status = observed["status"]
    if observed["kind"] == "StatefulSet":  # its counts include a pod on a lost node
        is_current = bool(status["observedGeneration"] == observed["metadata"]["generation"])
        return is_suspended(observed) and is_current
    uncounted = any(status["uncountedTerminatedPods"].values())
    suspended = is_suspended(observed) and condition(observed, "Suspended")
    return bool(suspended and not status["active"] and not uncounted)


def counts(observed: Object) -> tuple[int, int, int]:
    """Return the numbers of desired, present and ready replicas.

    Succeeded replicas of a Job count in all three.
    """
    spec, status = observed["spec"], observed["status"]
    if observed["kind"] == "StatefulSet":
        return spec["replicas"], status["replicas"], status["readyReplicas"]
    succeeded = status["succeeded"]
    left = min(spec["parallelism"], spec["completions"] - succeeded)
    present = (left, status["active"], status["ready"])
    wanted, active, ready = (number + succeeded for number in present)
    return wanted, active, ready


def record(observed: Object) -> str:
    """Return the supervisor's state when it last suspended or resumed a Job, as JSON, or "".

    In the manifest of a Job that waits for another role, the annotation is a word.
    """
    text: str = observed["metadata"]["annotations"][RECORD]
    return text if text.startswith("{") else ""


def lowest_succeeded(observed: Object) -> int | None:
    """Return the lowest succeeded index of a Job; None if there is none."""
    return next((low for low, _ in _succeeded(observed)), None)


def any_succeeded(observed: Object | None, first: int, count: int) -> int | None:
    """Return the lowest succeeded index of a Job in a range; None if there is none."""
    end = ending(observed)
    # A plain Job, which has one replica, has no indexes.
    alone = [(0, 0)] if end and ENDS[end["type"]] else []
    for low, high in (_succeeded(observed) if observed else []) or alone:
        found = max(low, first)
        if found <= min(high, first + count - 1):
            return found
    return None


def _succeeded(observed: Object) -> list[tuple[int, int]]:
    """Return the ranges of succeeded indexes of a Job: (2, 2) and (4, 6) for "2,4-6"."""
    text = observed["status"]["completedIndexes"]
    found = re.findall("([0-9]{1,9})(?:-([0-9]{1,9}))?", text)
    return [(int(low), int(high or low)) for low, high in found]


def rewound(observed: Object) -> Object | None:
    """Return the patch that resets the succeeded indexes of a suspended Job.

    The Job controller drops the indexes beyond `completions`, which may change together with
    `parallelism` (calculateSucceededIndexes in pkg/controller/job/indexed_job_utils.go, KEP-3715).
    None if no index has succeeded, if index 0 has, or if the reset is in progress.
    """
    lowest, completions = lowest_succeeded(observed), observed["spec"]["completions"]
    if not lowest or completions <= lowest:
        return None
    spec = {"completions": lowest, "parallelism": lowest}
    return {"metadata": {"annotations": {COMPLETIONS: str(completions)}}, "spec": spec}


def whole(observed: Object) -> Object:
    """Return the patch that restores the completions after `rewound`; {} if not needed."""
    text = observed["metadata"]["annotations"][COMPLETIONS]
    if not re.fullmatch("[0-9]{1,9}", text):
        return {}
    spec = {"completions": int(text), "parallelism": int(text)}
    return {"metadata": {"annotations": {COMPLETIONS: None}}, "spec": spec}


def has_come(until: str, observed: Object | None) -> bool:
    """Return whether a workload is `Complete`, or at least `Ready`."""
    end = ending(observed)
    if until == "Complete" or end or not observed:
        return bool(end and ENDS[end["type"]])
    wanted, _, ready = counts(observed)
    return not is_suspended(observed) and ready >= wanted


def elsewhere(observed: Object, nodes: list[str], *, required: bool = False) -> Object | None:
    """Return the fields of a Job's spec that keep its pods away from nodes.

    A preference lets the job also start in a cluster without other nodes. None if the template
    already has other preferences: `kubectl apply` would restore the user's list, which is rejected
    while the Job runs. A requirement is added to each of the user's terms, of which one must hold.

    The names are matched as fields, because the label kubernetes.io/hostname may differ. Each
    requirement has one name, and all must hold (ValidateNodeFieldSelectorRequirement in
    pkg/apis/core/validation/validation.go). The requirements of an earlier restart are replaced.
    """
    if not nodes:
        return None
    affinity = observed["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    fields = [{"key": NAME_FIELD, "operator": "NotIn", "values": [name]} for name in nodes]
    if required:
        terms = [each for each in affinity[REQUIRED]["nodeSelectorTerms"] if each]
        terms = terms or [{}]  # an empty term matches no node
        new: Object = {REQUIRED: {"nodeSelectorTerms": [_without(each, fields) for each in terms]}}
    else:
        if any(each["preference"].keys() != {"matchFields"} for each in affinity[PREFERRED]):
            return None
        new = {PREFERRED: [{"weight": 100, "preference": {"matchFields": fields}}]}
    return {"template": {"spec": {"affinity": {"nodeAffinity": new}}}}


def _without(term: Object, fields: list[Object]) -> Object:
    """Return a node selector term without the nodes of these fields, and of no earlier restart."""
    others = [each for each in term.get("matchFields", ()) if each["operator"] != "NotIn"]
    return {**term, "matchFields": [*others, *fields]}


def unfinished(workloads: Iterable[Workload], seen: Seen) -> list[tuple[Workload, Object]]:
    """Return the workloads with replicas that have not ended, each with its observed object."""
    pairs = [(item, seen.workloads[item.name]) for item in workloads if item.replicas]
    return [(item, each) for item, each in pairs if each and not ending(each)]


def pods_of(
    workloads: tuple[Workload, ...], seen: Seen, old: Collection[str] = ()
) -> Iterator[tuple[Workload, Object]]:
    """Yield the pods of workloads, without those whose `member` is in `old`.

    The owner's UID excludes pods of an earlier object of the same name.
    """
    pairs = [(seen.workloads[item.name], item) for item in workloads]
    owners = {observed["metadata"]["uid"]: item for observed, item in pairs if observed}
    for pod in seen.pods:
        for owner in pod["metadata"]["ownerReferences"]:
            if owner["uid"] in owners and (not old or member(pod) not in old):
                yield owners[owner["uid"]], pod


def member(pod: Object) -> str:
    """Return the start of a pod's UID, which is random.

    It is short because a ConfigMap is limited to 1 MiB, and a job may have 100,000 pods. If two
    pods share these 32 bits, the loss of one is not noticed.
    """
    return str(pod["metadata"]["uid"][:8])


def containers(pod: Object) -> list[Object]:
    """Return the statuses of the init containers, then of the containers."""
    status = pod["status"]
    return [*status["initContainerStatuses"], *status["containerStatuses"]]


def last_end(container: Object) -> Object:
    """Return the end of a container's current or previous run; {} if there is none."""
    found = (container[key].get("terminated") for key in ("state", "lastState"))
    return next(filter(None, found), {})


def replica(job: str, item: Workload, pod: Object) -> str:
    """Return the role and index of a pod, such as `worker-3`."""
    own = item.name[len(f"{job}-{item.role}-") :]  # a Job for each replica
    return f"{item.role}-{own if own.isdecimal() else index_of(pod) or 0}"


def index_of(pod: Object) -> int | None:
    """Return the index of a pod in its workload; None if it has none."""
    texts = pod["metadata"]["labels"].values()
    return next((int(text) for text in texts if re.fullmatch("[0-9]{1,9}", text)), None)


def senders(pod: Object) -> list[str]:
    """Return the UID and the addresses of a pod, each once."""
    addresses = [each["ip"] for each in pod["status"]["podIPs"] if each["ip"]]
    return list(dict.fromkeys([pod["metadata"]["uid"], *addresses]))


def is_on_host(pod: Object) -> bool:
    """Return whether a pod uses the network of its node, and shares its address with others."""
    return pod["status"]["hostIP"] in senders(pod)


SIDECAR = "supervised"
"""The name of the sidecar that connects a pod with the supervisor."""

RESTARTING = "RestartingAllContainers"
"""The reason of a container that the kubelet has removed to restart all containers of a pod
(pkg/kubelet/kubelet_pods.go). Its exit code, 137, is not the code of the container."""


def has_returned(seen: Seen, item: Workload, pod: Object) -> bool:
    """Return whether a pod waits for the next attempt.

    A sidecar that has restarted alone also waits, but the training container runs.
    """
    main = next((each for each in containers(pod) if each["name"] == item.container), None)
    is_running = bool(main and "running" in main["state"])
    return pod["metadata"]["uid"] in seen.waiting and not is_running


def is_alone(pod: Object) -> bool:
    """Return whether the sidecar of a pod has restarted while the training container runs."""
    starts = {}
    for each in containers(pod):
        starts[each["name"]] = each["state"].get("running", {}).get("startedAt", "")
    own = starts.pop(SIDECAR, "")
    return bool(own) and any("" < start < own for start in starts.values())


def remember(pod: Object, before: Object | None, now: float) -> None:
    """Add what only the earlier version of a pod shows: what it was `before`, or None.

    `since` is the time at which the pod was first seen in its present condition, and `deleted` the
    time at which its deletion was. The clocks that wrote the pod's own timestamps may be wrong.
    """
    times = [each["lastTransitionTime"] for each in pod["status"]["conditions"]]
    times += [last_end(each).get("finishedAt", "") for each in containers(pod)]
    pod["changed"] = max(times, default="")
    is_same = before and before["changed"] == pod["changed"]
    pod["since"] = before["since"] if before and is_same else now
    if is_deleted(pod):
        pod["deleted"] = before.get("deleted", now) if before else now
    if before:
        _restore_ends(pod, before)


def _restore_ends(pod: Object, before: Object) -> None:
    """Set the ends of containers that were removed since the pod was observed before.

    When the kubelet restarts all containers of a pod, it reports the exit code of the container
    that failed only for a moment.
    """
    known = {each["name"]: each for each in containers(before)}
    for each in containers(pod):
        last, old = each["lastState"].get("terminated", {}), known.get(each["name"])
        if old and last.get("reason") == RESTARTING:
            is_new = each["restartCount"] != old["restartCount"]
            run = old["state" if is_new else "lastState"]
            each["lastState"] = {"terminated": run.get("terminated") or last}


def is_deleted(observed: Object) -> bool:
    """Return whether a pod or a workload is being deleted."""
    return bool(observed["metadata"]["deletionTimestamp"])


def is_held_by_kueue(pod: Object) -> bool:
    """Return whether a pod is in a group in Kueue that has not finished."""
    return HELD in pod["metadata"]["finalizers"]


def is_behind(pod: Object) -> bool:
    """Return whether the clock of a pod's node is behind by more than a second.

    Then the kubelet's startTime of a pod precedes the scheduler's time of assignment.
    """
    scheduled, start = condition(pod, "PodScheduled") or {}, pod["status"]["startTime"]
    at = scheduled.get("lastTransitionTime")
    return bool(start and at and seconds(start) < seconds(at) - 1)


def deleted_at(pod: Object) -> float:
    """Return when the deletion of a pod began, by its timestamps; infinity if it has not.

    deletionTimestamp is the end of the grace period.
    """
    metadata = pod["metadata"]
    end, grace = metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]
    return float(seconds(end) - grace) if end else float("inf")


def told_at(pod: Object) -> float:
    """Return when the deletion of a pod began, or a disruption was announced, by its timestamps."""
    announced = (condition(pod, "DisruptionTarget") or {}).get("lastTransitionTime")
    return min(deleted_at(pod), seconds(announced) if announced else float("inf"))


def stuck_at(pod: Object, patience: float = STUCK_SECONDS) -> float:
    """Return when the node of a terminating pod counts as lost; infinity for other pods."""
    grace: int = pod["metadata"]["deletionGracePeriodSeconds"]
    return float(pod["deleted"] + grace + patience) if is_deleted(pod) else float("inf")


def is_stuck(pod: Object, now: float) -> bool:
    """Return whether a terminating pod remains because its node is lost."""
    return now > stuck_at(pod)


def is_live(pod: Object, now: float) -> bool:
    """Return whether a pod may still run, or has succeeded but its Job has not counted it yet."""
    phase = pod["status"]["phase"]
    if phase == "Succeeded":
        return TRACKING in pod["metadata"]["finalizers"]
    return phase != "Failed" and not is_stuck(pod, now)


def short_of_pods(plan: Plan, seen: Seen, now: float) -> list[str]:
    """Return the workloads that run with fewer pods than replicas.

    Possible causes are quotas, admission webhooks and, for StatefulSets, a pod on a lost node.
    """
    stuck = [item for item, pod in pods_of(plan.workloads, seen) if is_stuck(pod, now)]
    short = [item.name for item in stuck if item.kind == "StatefulSet"]
    for item, observed in unfinished(plan.workloads, seen):
        wanted, found, _ = counts(observed)
        if found < wanted and not is_suspended(observed):
            short.append(item.name)
    return short
