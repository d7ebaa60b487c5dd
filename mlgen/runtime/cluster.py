"""What the objects of the API server say, as far as the supervisor asks.

Field names are those of https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlgen.runtime.plan import ANY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mlgen.runtime.plan import Plan, Workload

Object = dict[str, Any]

STUCK_SECONDS = 60.0
"""A pod that terminates for so long after its grace period is on a node that is lost."""

JOB = "mlgen.dev/job"

NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
"""Reasons of the kubelet (pkg/kubelet/images/types.go)."""

ENDS = {"Complete": True, "SuccessCriteriaMet": True, "Failed": False, "FailureTarget": False}
"""Conditions of a Job that never go away. The second and the last precede the others while pods
are still being deleted (k/k 1.31, KEP-3998 and KEP-3329)."""

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pod that its Job has not counted yet."""

METADATA = ("name", "uid", "creationTimestamp", "ownerReferences", "finalizers",
            "deletionTimestamp", "deletionGracePeriodSeconds")  # fmt: skip

CONDITION = ("type", "status", "message", "lastTransitionTime")
CONTAINER = ("name", "image", "restartCount", "state", "lastState")
LISTS = {
    "conditions": CONDITION,
    "initContainerStatuses": CONTAINER,
    "containerStatuses": CONTAINER,
}
"""The fields of a pod that are used here."""

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Seen:
    """What is observed."""

    workloads: dict[str, Object | None]
    """By the name of the workload; None if it does not exist."""
    pods: list[Object]
    status: dict[str, str]
    """The data of the ConfigMap `<job>-status`."""
    taken: dict[str, str] = field(default_factory=dict)
    """Whose a workload is that has a name of this job's, but belongs to somebody else."""


@dataclass(frozen=True)
class Failure:
    """A container that failed, and when its node's clock says it did."""

    time: str
    code: int
    reason: str
    pod: str
    retryable: bool
    node: str = ""


def trimmed(pod: Object) -> Object:
    """Return the fields of a pod that are used here; a large job has thousands of pods."""
    status = _picked(pod["status"], ("phase",))
    for key, names in LISTS.items():
        status[key] = [_picked(each, names) for each in pod["status"].get(key) or ()]
    spec = _picked(pod["spec"], ("nodeName",))
    return {"metadata": _picked(pod["metadata"], METADATA), "spec": spec, "status": status}


def _picked(values: Object, keys: tuple[str, ...]) -> Object:
    return {key: values[key] for key in keys if key in values}


def seconds(timestamp: str) -> float:
    """Return an RFC 3339 time of the API server, `2026-11-22T15:34:33Z`, in s since the epoch.

    One that a person has written into the status may be no time: 0.
    """
    fields = (timestamp[:4], *(timestamp[at : at + 2] for at in (5, 8, 11, 14, 17)))
    try:
        return float(calendar.timegm(tuple(map(int, fields))))
    except ValueError:
        return 0.0


def volume_of(observed: Object) -> str:
    """Return the job whose volume the ConfigMap of a status is; that of a status is no job's."""
    return str((observed["metadata"].get("labels") or {}).get(JOB, ""))


def stranger(observed: Object, job: str) -> str:
    """Return whose an object is that has a name of the job's; "" if it is the job's own."""
    owner = (observed["metadata"].get("labels") or {}).get(JOB)
    if owner == job:
        return ""
    return f"the job {owner}" if owner else "no job of mlgen"


def condition(observed: Object, name: str, status: str = "True") -> Object | None:
    """Return a condition of an object that has this status."""
    conditions: list[Object] = observed["status"].get("conditions") or []
    found = (each for each in conditions if (each["type"], each["status"]) == (name, status))
    return next(found, None)


def ending(observed: Object | None) -> Object | None:
    """Return the condition with which a Job has ended, or is about to; None for a StatefulSet."""
    conditions = (condition(observed, name) for name in ENDS) if observed else ()
    return next(filter(None, conditions), None)


def is_suspended(observed: Object) -> bool:
    """Return whether a Job is suspended, or a StatefulSet scaled to 0."""
    spec: Object = observed["spec"]
    return bool(spec.get("suspend")) if observed["kind"] == "Job" else spec.get("replicas") == 0


def is_stopped(observed: Object) -> bool:
    """Return whether the controller has stopped what is suspended."""
    status = observed["status"]
    if observed["kind"] == "StatefulSet":  # whose counts include a pod on a lost node
        current = status.get("observedGeneration") == observed["metadata"].get("generation")
        return is_suspended(observed) and current
    uncounted = any(status.get("uncountedTerminatedPods", {}).values())
    suspended = is_suspended(observed) and condition(observed, "Suspended")
    return bool(suspended and not status.get("active") and not uncounted)


def counts(observed: Object) -> tuple[int, int, int]:
    """Return how many replicas there are to be, how many there are, and how many are ready.

    A Job's replicas that have succeeded count as all three.
    """
    spec, status = observed["spec"], observed["status"]
    if observed["kind"] == "StatefulSet":
        return spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)
    succeeded = status.get("succeeded", 0)
    left = min(spec.get("parallelism", 1), spec.get("completions", 1) - succeeded)
    present = (left, status.get("active", 0), status.get("ready", 0))
    wanted, active, ready = (number + succeeded for number in present)
    return wanted, active, ready


def has_come(until: str, observed: Object | None) -> bool:
    """Return whether a workload is `Complete`, or `Ready` or more."""
    end = ending(observed)
    if until == "Complete" or end or not observed:
        return bool(end and ENDS[end["type"]])
    wanted, _, ready = counts(observed)
    return not is_suspended(observed) and ready >= wanted


def elsewhere(observed: Object, nodes: list[str]) -> Object | None:
    """Return the fields of a Job's spec with which its pods prefer other nodes than these.

    They are preferred, so that a job starts in a cluster that has no others. None if the template
    prefers nodes already, by other terms than these: `kubectl apply` would restore the user's list,
    which is refused while the Job runs. A node is given by its name, from which the label
    kubernetes.io/hostname may differ. Each requirement has one name, and all must hold
    (ValidateNodeFieldSelectorRequirement in pkg/apis/core/validation/validation.go).
    """
    if not nodes:
        return None
    affinity = observed["spec"]["template"]["spec"].get("affinity") or {}
    terms = (affinity.get("nodeAffinity") or {}).get(PREFERRED) or []
    if any(each["preference"].keys() != {"matchFields"} for each in terms):
        return None
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    term = {"weight": 100, "preference": {"matchFields": fields}}
    return {"template": {"spec": {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}}}


def unfinished(workloads: Iterable[Workload], seen: Seen) -> list[tuple[Workload, Object]]:
    """Return the workloads with replicas that have not ended, and what is observed of them."""
    pairs = [(item, seen.workloads[item.name]) for item in workloads if item.replicas]
    return [(item, each) for item, each in pairs if each and not ending(each)]


def pods_of(
    workloads: tuple[Workload, ...], seen: Seen, mark: str = ""
) -> Iterator[tuple[Workload, Object]]:
    """Yield the pods of workloads that were created after a mark.

    The owner's UID excludes pods of an earlier object of the same name. The API server's own clock
    writes creationTimestamp, so marks and pods can be compared whatever the nodes' clocks say.
    """
    pairs = [(seen.workloads[item.name], item) for item in workloads]
    owners = {observed["metadata"]["uid"]: item for observed, item in pairs if observed}
    for pod in seen.pods:
        for owner in pod["metadata"].get("ownerReferences", ()):
            if owner["uid"] in owners and pod["metadata"]["creationTimestamp"] > mark:
                yield owners[owner["uid"]], pod


def containers(pod: Object) -> list[Object]:
    """Return the statuses of the init containers, and then of the others."""
    status = pod["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def last_end(container: Object) -> Object:
    """Return how a container has ended, or the one before it; {} if none has."""
    last = container.get("lastState", {}).get("terminated")
    return container["state"].get("terminated") or last or {}


def is_disrupted(pod: Object) -> bool:
    """Return whether a pod was drained, preempted or evicted, or has failed without a code.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    lost = pod["status"].get("phase") == "Failed" and not containers(pod)
    return lost or condition(pod, "DisruptionTarget") is not None


def is_deleted(pod: Object) -> bool:
    """Return whether a pod was told to end."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def deleted_at(pod: Object) -> float:
    """Return when a pod was told to end; deletionTimestamp is the end of its grace period."""
    end, grace = (pod["metadata"].get(key) for key in METADATA[-2:])
    return seconds(end) - float(grace or 0) if end else float("inf")


def stuck_at(pod: Object) -> float:
    """Return from when on a pod that was told to end, and has not, is on a node that is lost."""
    end = pod["metadata"].get("deletionTimestamp")
    return seconds(end) + STUCK_SECONDS if end else float("inf")


def is_stuck(pod: Object, now: float) -> bool:
    """Return whether a pod does not go away, because its node is lost."""
    return now > stuck_at(pod)


def is_live(pod: Object, now: float) -> bool:
    """Return whether a pod may still run, or has succeeded and its Job has yet to count it."""
    phase = pod["status"].get("phase")
    if phase == "Succeeded":
        return TRACKING in pod["metadata"].get("finalizers", ())
    return phase != "Failed" and not is_stuck(pod, now)


def short_of_pods(plan: Plan, seen: Seen, now: float) -> list[str]:
    """Return the workloads that run with fewer pods than replicas.

    So a quota shows, or an admission webhook. A StatefulSet also waits for a pod on a lost node.
    """
    stuck = [item for item, pod in pods_of(plan.workloads, seen) if is_stuck(pod, now)]
    short = [item.name for item in stuck if item.kind == "StatefulSet"]
    for item, observed in unfinished(plan.workloads, seen):
        wanted, found, _ = counts(observed)
        if found < wanted and not is_suspended(observed):
            short.append(item.name)
    return short


def first(found: Iterable[Failure | None]) -> Failure | None:
    """Return which container failed first.

    On a tie, the higher code is first, because the peers of a killed pod often exit with 1.
    """
    return min(filter(None, found), key=lambda each: (each.time, -each.code), default=None)


def failures(plan: Plan, workloads: tuple[Workload, ...], seen: Seen, mark: str) -> list[Failure]:
    """Return the training and init containers that failed, also those that restarted in place."""
    pods = pods_of(workloads, seen, mark)
    return [failure for item, pod in pods for failure in _failures(plan, item, pod)]


def _failures(plan: Plan, item: Workload, pod: Object) -> Iterator[Failure]:
    ends = [(each["name"], last_end(each)) for each in containers(pod)]
    failed = [(name, end) for name, end in ends if end.get("exitCode")]
    if not failed or is_disrupted(pod):
        return
    init = [each["name"] for each in pod["status"].get("initContainerStatuses", ())]
    for name, end in failed:
        at = end.get("finishedAt") or pod["metadata"]["creationTimestamp"]
        # Helpers beside the training container do not count, nor does a pod that was told to end.
        if name in (*init, item.container) and deleted_at(pod) > seconds(at):
            code, reason = end["exitCode"], end.get("reason") or "Error"
            oom = reason == "OOMKilled" and not plan.retry_oom and item.retryable != ANY
            # Init containers fetch code or wait for peers, and may succeed on the next attempt.
            retryable = item.retryable is not None if name in init else item.is_retryable(code)
            where = f"init container {name} of " if name in init else ""
            pod_name = where + pod["metadata"]["name"]
            node = pod["spec"].get("nodeName", "")
            yield Failure(at, code, reason, pod_name, retryable and not oom, node)


def obstacle(plan: Plan, seen: Seen, now: float) -> tuple[int, str, str] | None:
    """Return how the job ends if a pod cannot start or run within the bounds of the plan."""
    for item, pod in pods_of(plan.workloads, seen):
        if pod["status"].get("phase") in ("Pending", "Running") and not is_deleted(pod):
            for code, reason, text, field in _obstacles(plan, item, pod, now):
                name = pod["metadata"]["name"]
                return code, reason, f"{name} {text}; the bound is runPolicy.giveUpAfter.{field}"
    return None


def _obstacles(
    plan: Plan, item: Workload, pod: Object, now: float
) -> Iterator[tuple[int, str, str, str]]:
    """Yield an exit code, a reason, what the pod does, and the field of the bound."""
    gate = condition(pod, "PodScheduled", "False") if plan.pending_seconds else None
    if not gate and not any("waiting" in each["state"] for each in containers(pod)):
        return
    times = [each.get("lastTransitionTime") for each in pod["status"].get("conditions") or ()]
    times += [last_end(each).get("finishedAt") for each in containers(pod)]
    since = max(filter(None, times), default=pod["metadata"]["creationTimestamp"])
    waited = now - seconds(since)  # since the last thing that has happened to the pod
    if gate and waited >= plan.pending_seconds:
        text = f"is not scheduled for {waited:.0f} s: {gate.get('message', '')}"
        yield 1, "Unschedulable", text, "pendingSeconds"
    for each in containers(pod):
        reason, restarts = each["state"].get("waiting", {}).get("reason"), each["restartCount"]
        crashes = reason == "CrashLoopBackOff" and item.kind == "StatefulSet"  # Jobs have a limit
        if plan.crashes and crashes and restarts >= plan.crashes:
            code = last_end(each).get("exitCode", 0)
            yield code or 1, reason, f"crashed {restarts} times, last with code {code}", "crashes"
        if plan.image_seconds and reason in NO_IMAGE and waited >= plan.image_seconds:
            text = f"cannot pull {each['image']} for {waited:.0f} s"
            yield 1, reason, text, "imagePullSeconds"
