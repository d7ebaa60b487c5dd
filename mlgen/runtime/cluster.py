"""What the objects of the API server say, as far as the supervisor asks.

Field names are those of https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlgen.runtime.plan import Plan, Workload

Object = dict[str, Any]

STUCK_SECONDS = 60.0
"""A pod that terminates for so long after its grace period is on a node that is lost."""

NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
"""Reasons of the kubelet (pkg/kubelet/images/types.go)."""

ENDS = {"Complete": True, "SuccessCriteriaMet": True, "Failed": False, "FailureTarget": False}
"""Conditions of a Job that never go away. The second and the last precede the others while pods
are still being deleted (k/k 1.31, KEP-3998 and KEP-3329)."""


@dataclass(frozen=True)
class Seen:
    """What is observed."""

    workloads: dict[str, Object | None]
    """By the name of the workload; None if it does not exist."""
    pods: list[Object]
    status: dict[str, str]
    """The data of the ConfigMap `<job>-status`."""


@dataclass(frozen=True, order=True)
class Failure:
    """A container that failed. They are ordered by which failed first.

    On a tie, the higher code is first, because the peers of a killed pod often exit with 1.
    """

    time: str
    order: int
    """The negative code."""
    code: int
    reason: str
    pod: str
    retryable: bool


def seconds(timestamp: str) -> float:
    """Return an RFC 3339 time of the API server in seconds since the epoch."""
    return float(calendar.timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S")))


def condition(observed: Object, name: str) -> Object | None:
    """Return a condition of an object that is True."""
    for item in observed["status"].get("conditions", ()):
        if item["type"] == name and item["status"] == "True":
            return dict(item)
    return None


def ending(observed: Object) -> Object | None:
    """Return the condition with which a Job has ended, or is about to; None for a StatefulSet."""
    return next(filter(None, (condition(observed, name) for name in ENDS)), None)


def is_suspended(observed: Object) -> bool:
    """Return whether a Job is suspended, or a StatefulSet scaled to 0."""
    spec: Object = observed["spec"]
    return bool(spec.get("suspend")) if observed["kind"] == "Job" else spec.get("replicas") == 0


def is_stopped(observed: Object) -> bool:
    """Return whether the controller has stopped what is suspended."""
    status = observed["status"]
    if observed["kind"] == "StatefulSet":
        current = status.get("observedGeneration") == observed["metadata"].get("generation")
        return is_suspended(observed) and current  # a pod on a lost node stays in the counts
    suspended = is_suspended(observed) and condition(observed, "Suspended")
    uncounted = any(status.get("uncountedTerminatedPods", {}).values())
    return bool(ending(observed) or (suspended and not status.get("active") and not uncounted))


def counts(observed: Object) -> tuple[int, int, int]:
    """Return how many replicas there are to be, how many there are, and how many are ready.

    A Job's replicas that have succeeded count as all three.
    """
    spec, status = observed["spec"], observed["status"]
    if observed["kind"] == "StatefulSet":
        return spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)
    succeeded = status.get("succeeded", 0)
    left = spec.get("completions", 1) - succeeded
    wanted = min(spec.get("parallelism", 1), left) + succeeded
    return wanted, status.get("active", 0) + succeeded, status.get("ready", 0) + succeeded


def pods_of(
    workloads: tuple[Workload, ...], seen: Seen, mark: str = ""
) -> Iterator[tuple[Workload, Object]]:
    """Yield the pods of workloads that were created after a mark.

    The owner's UID excludes pods of an earlier object of the same name. The API server's own clock
    writes creationTimestamp, so marks and pods can be compared whatever the nodes' clocks say.
    """
    owners = {}
    for item in workloads:
        observed = seen.workloads[item.name]
        if observed:
            owners[observed["metadata"]["uid"]] = item
    for pod in seen.pods:
        for owner in pod["metadata"].get("ownerReferences", ()):
            if owner["uid"] in owners and pod["metadata"]["creationTimestamp"] > mark:
                yield owners[owner["uid"]], pod


def is_disrupted(pod: Object) -> bool:
    """Return whether a pod was drained, preempted or evicted, or has failed without a code.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    status = pod["status"]
    containers = status.get("containerStatuses") or status.get("initContainerStatuses")
    lost = status.get("phase") == "Failed" and not containers
    return lost or condition(pod, "DisruptionTarget") is not None


def failures(plan: Plan, workloads: tuple[Workload, ...], seen: Seen, mark: str) -> list[Failure]:
    """Return the training and init containers that failed, also those that restarted in place."""
    found = []
    for item, pod in pods_of(workloads, seen, mark):
        status = pod["status"]
        init = status.get("initContainerStatuses", [])
        main = [
            each for each in status.get("containerStatuses", []) if each["name"] == item.container
        ]
        for container in [] if is_disrupted(pod) else [*main, *init]:
            end = container["state"].get("terminated") or container.get("lastState", {}).get(
                "terminated"
            )
            if not end or not end["exitCode"]:
                continue
            at = end.get("finishedAt") or pod["metadata"]["creationTimestamp"]
            if _deleted_at(pod) <= seconds(at):
                continue  # it was told to end
            reason, code = end.get("reason") or "Error", end["exitCode"]
            retryable = item.is_retryable(code) and (plan.retry_oom or reason != "OOMKilled")
            # Init containers fetch code or wait for peers, and may succeed on the next attempt.
            retryable = retryable or (container in init and item.retryable is not None)
            found.append(Failure(at, -code, code, reason, pod["metadata"]["name"], retryable))
    return found


def _deleted_at(pod: Object) -> float:
    """Return when a pod was deleted; deletionTimestamp is the end of its grace period."""
    metadata = pod["metadata"]
    if not metadata.get("deletionTimestamp"):
        return float("inf")
    grace = float(metadata.get("deletionGracePeriodSeconds", 0))
    return seconds(metadata["deletionTimestamp"]) - grace


def is_live(pod: Object, now: float) -> bool:
    """Return whether a pod may still run; one that is stuck on a lost node may not."""
    deleted = pod["metadata"].get("deletionTimestamp")  # the end of its grace period
    stuck = deleted and now > seconds(deleted) + STUCK_SECONDS
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and not stuck


def obstacle(plan: Plan, seen: Seen, now: float) -> tuple[str, str] | None:
    """Return the reason and message of a pod that cannot start or run, after the plan's bounds."""
    for _, pod in pods_of(plan.workloads, seen):
        name, status = pod["metadata"]["name"], pod["status"]
        if not is_live(pod, now) or pod["metadata"].get("deletionTimestamp"):
            continue
        conditions = status.get("conditions", [])
        since = max((each.get("lastTransitionTime", "") for each in conditions), default="")
        waited = now - seconds(since or pod["metadata"]["creationTimestamp"])
        unscheduled = any(
            each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions
        )
        if plan.pending_seconds is not None and unscheduled and waited > plan.pending_seconds:
            return "Unschedulable", f"{name} is pending for {waited:.0f} s"
        for each in [
            *status.get("initContainerStatuses", []),
            *status.get("containerStatuses", []),
        ]:
            reason, restarts = each["state"].get("waiting", {}).get("reason"), each["restartCount"]
            if (
                plan.crashes is not None
                and reason == "CrashLoopBackOff"
                and restarts >= plan.crashes
            ):
                return reason, f"{name} crashed {restarts} times"
            if (
                plan.image_seconds is not None
                and reason in NO_IMAGE
                and waited > plan.image_seconds
            ):
                return reason, f"{name} cannot pull {each['image']} for {waited:.0f} s"
    return None
