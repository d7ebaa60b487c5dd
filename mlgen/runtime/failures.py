"""Why pods failed, and why pods cannot start.

Failures are ranked by kind, not only by time, because the first container that exits is not always
the first that fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlgen.runtime.cluster import (
    JOB_LIMIT,
    RESTARTING,
    Seen,
    any_succeeded,
    condition,
    containers,
    has_returned,
    index_of,
    is_behind,
    is_deleted,
    is_stuck,
    is_suspended,
    last_end,
    pods_of,
    told_at,
)
from mlgen.runtime.plan import ALONE
from mlgen.runtime.times import seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mlgen.runtime.answers import Object
    from mlgen.runtime.plan import Plan, Workload

NO_START = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
            "CreateContainerConfigError", "CreateContainerError")  # fmt: skip
"""The kubelet's reasons for a container that it repeatedly tries to start
(pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go)."""

DEVICE, DISRUPTION, REJECTION, LIMIT, STALL, EXIT = KINDS = (
    "device",
    "disruption",
    "rejection",
    "limit",
    "stall",
    "exit",
)
"""Kinds of failures, sorted by which explains the others: a pod with an unhealthy device, a
disrupted pod, a pod that the kubelet rejects, a pod that the kubelet evicts because it exceeds a
limit of its own, training that hangs, a container that failed."""

VERBS = {
    DEVICE: "has an unhealthy device",
    DISRUPTION: "was disrupted",
    REJECTION: "was rejected by the kubelet",
    LIMIT: "was evicted",
}

WAIT, LATE_SECONDS = "wait-for-peers", 60.0
"""The init container that waits for peers, and the seconds after which it waits in vain."""

MAX_DEVICES = 4
"""The number of unhealthy devices in a message."""

KUEUE = "TerminationTarget"
"""The condition with which Kueue says why it deletes a pod, for example to preempt its group."""

EVICTIONS = ("Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated")
"""Reasons of a pod that was ended by its node (pkg/kubelet/eviction, nodeshutdown)."""

OWN_LIMIT = re.compile(
    r'Usage of EmptyDir volume "[^"]*" exceeds the limit'
    r"|Pod ephemeral local storage usage exceeds the total limit of containers"
    r"|Container \S+ exceeded its local ephemeral storage limit"
)
"""The start of the kubelet's message about a pod that exceeds a limit in its own manifest. A pod
that is evicted because its node is short of a resource has another message (pkg/kubelet/eviction,
helpers.go and localStorageEviction in eviction_manager.go, Kubernetes 1.25 to 1.37)."""

KILLED = 137
"""The exit code of such a pod, as of one that exceeds its memory limit. The kubelet sends SIGTERM a
second before SIGKILL, so the program may exit with any code."""

CRASHES = (132, 135, 136, 139)
"""SIGILL, SIGBUS, SIGFPE, SIGSEGV: crashes, even after SIGTERM."""


@dataclass(frozen=True)
class Failure:
    """The failure of a pod, with its time by the node's clock."""

    time: str
    code: int
    """The exit code of a container, or KILLED; 0 for other kinds."""
    reason: str
    pod: str
    retryable: bool
    node: str = ""
    kind: str = EXIT
    quick: bool = False
    """True if the training container failed soon after its start."""

    @property
    def text(self) -> str:
        """The failure as a message."""
        if self.kind == EXIT:
            why = "" if self.reason == "Error" else f" ({self.reason})"
            return f"{self.pod} exited with code {self.code}{why}"
        if self.kind == STALL:
            return f"training is stalled: {self.reason}"
        return f"{self.pod}{self.node and f' on {self.node}'} {VERBS[self.kind]}: {self.reason}"

    @property
    def is_disruption(self) -> bool:
        """True if the failure does not count against backoffLimit."""
        return self.kind in (DEVICE, DISRUPTION)


def is_cut_off(pod: Object) -> bool:
    """Return whether the node of a pod has not responded for some time.

    Then the pod is marked as not ready, minutes before its deletion, but not its containers
    (MarkPodsNotReady in pkg/controller/util/node/controller_utils.go).
    """
    ready = condition(pod, "Ready", "False")
    gated = ready and ready["reason"] == "ReadinessGatesNotReady"
    return bool(ready and not gated and condition(pod, "ContainersReady"))


def own_limit(pod: Object) -> str:
    """Return the kubelet's message if it evicted a pod that exceeds a limit of its own, or "".

    The kubelet sets DisruptionTarget only when its node is short of a resource. A pod may still
    have this condition, because other components also set it.
    """
    status = pod["status"]
    message: str = status["message"] if status["reason"] == "Evicted" else ""
    return message.strip(" .") if OWN_LIMIT.match(message) else ""


def disruption(pod: Object, stopped: float | None = None) -> str:
    """Return why a pod was drained, preempted, evicted, deleted or lost; "" if it was not.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions

    Args:
        pod: the pod.
        stopped: the current time, if the supervisor itself stops the pod; else None.
    """
    target, status = condition(pod, "DisruptionTarget") or condition(pod, KUEUE), pod["status"]
    if target:
        return str(target["reason"] or target["type"])
    if status["phase"] == "Failed" and not containers(pod):
        reason = str(status["reason"] or "Lost")
        return reason if reason in (*EVICTIONS, "Lost") else ""
    if stopped is not None:
        # A finalizer of another program may keep a pod that has ended.
        has_ended = status["phase"] in ("Failed", "Succeeded")
        is_lost = (is_stuck(pod, stopped) and not has_ended) or is_cut_off(pod)
        return "NodeLost" if is_lost else ""
    return "Deleted" if is_deleted(pod) else ""


def first(found: Iterable[Failure | None]) -> Failure | None:
    """Return the failure that explains the others: the first of KINDS, or the earliest.

    On a tie, the highest code is first, because the peers of a killed pod often exit with 1. The
    result is retryable if any failure is: the peers of a killed replica exit as if the program had
    failed.
    """
    all_failures = [*filter(None, found)]
    cause = min(
        all_failures,
        key=lambda each: (KINDS.index(each.kind), each.time, -each.code),
        default=None,
    )
    return cause and replace(cause, retryable=any(each.retryable for each in all_failures))


def failures(
    plan: Plan,
    workloads: tuple[Workload, ...],
    seen: Seen,
    old: Collection[str] = (),
    stopped: float | None = None,
) -> list[Failure]:
    """Return the failures of pods, including in-place restarts.

    Args:
        plan: the plan of the job.
        workloads: the workloads to check. Pods that the user suspends or scales away do not count.
        seen: the observed objects.
        old: the pods of earlier attempts, see `pods_of`.
        stopped: the current time, once the supervisor stops all pods; else None.
    """
    found: list[Failure] = []
    for item, pod in pods_of(workloads, seen, old):
        observed = seen.workloads[item.name]
        if stopped is not None or not observed or not _is_excess(observed, pod):
            found += _failures(plan, seen, item, pod, stopped)
    return found


def _is_excess(observed: Object, pod: Object) -> bool:
    """Return whether the user suspended a pod or scaled it away."""
    if is_suspended(observed):
        return is_deleted(pod)
    index, key = index_of(pod), "completions" if observed["kind"] == "Job" else "replicas"
    return index is not None and index >= observed["spec"][key]


def _failures(
    plan: Plan, seen: Seen, item: Workload, pod: Object, stopped: float | None
) -> Iterator[Failure]:
    """Yield the failures of a pod: a disruption, an eviction, a rejection, failed containers."""
    status, name, node = pod["status"], pod["metadata"]["name"], pod["spec"]["nodeName"]
    created, told = pod["metadata"]["creationTimestamp"], told_at(pod)
    by_name = {each["name"]: each for each in containers(pod)}
    main = by_name.get(item.container, {"state": {}})["state"].get("terminated") or {}
    early = seconds(main.get("finishedAt") or created) < told and not is_behind(pod)
    limit = own_limit(pod)
    if not limit and main.get("exitCode") == 0 and (early or told == float("inf")):
        if status["phase"] == "Failed":
            # Another container failed, so the Job replaces the pod, but its peers have ended.
            code = max(last_end(each).get("exitCode", 0) for each in by_name.values())
            yield Failure(created, code or 1, "Error", name, retryable=True, node=node)
        return  # ignore events after the end of training
    # Without a gang, it would hide the exit code of a failed Job.
    devices = status["unhealthy"] if plan.restart_scope != "Replica" else []
    if devices and main.get("exitCode") != 0:
        reason = ", ".join(devices[:MAX_DEVICES])
        yield Failure(created, 0, reason, name, retryable=True, node=node, kind=DEVICE)
        return
    if limit:
        if item.retryable != ALONE:
            # The kubelet may report no end of the container.
            unknown = {"startedAt": "", "finishedAt": ""}
            end = {**unknown, **main, "exitCode": KILLED, "reason": limit}
            found = _exit(plan, item, pod, item.container, end)
            yield replace(found, kind=LIMIT, quick=found.quick and bool(main.get("finishedAt")))
        return
    if reason := disruption(pod, stopped):
        yield Failure(created, 0, reason, name, retryable=True, node=node, kind=DISRUPTION)
        return
    if item.retryable == ALONE:
        return
    if status["phase"] == "Failed" and not by_name:
        yield Failure(created, 0, status["reason"], name, True, node, REJECTION)  # noqa: FBT003
        return
    yield from _exits(plan, seen, item, pod, is_stopped=stopped is not None)


def _exits(
    plan: Plan, seen: Seen, item: Workload, pod: Object, *, is_stopped: bool
) -> Iterator[Failure]:
    """Yield the failures of the training container and the init containers of a pod."""
    by_name = {each["name"]: each for each in containers(pod)}
    returned = has_returned(seen, item, pod)
    names = [each["name"] for each in pod["status"]["initContainerStatuses"]]
    for name in [*names, item.container]:
        if name in pod["spec"]["sidecars"] or name not in by_name:
            continue
        end = last_end(by_name[name])
        if plan.in_place and not returned:  # the last end may be from an earlier attempt
            end = by_name[name]["state"].get("terminated") or {}
        code = end.get("exitCode") if end.get("reason") != RESTARTING else 0
        # A deleted pod exits because of the deletion. Only its node's clock shows when.
        own = code in CRASHES or end.get("reason") == "OOMKilled"
        if code and (own or not is_deleted(pod)):
            returned = False
            yield _exit(plan, item, pod, name, end)
    if returned and not is_stopped:  # and the kubelet has reported no exit code
        created, node = pod["metadata"]["creationTimestamp"], pod["spec"]["nodeName"]
        yield Failure(created, 137, RESTARTING, pod["metadata"]["name"], retryable=True, node=node)


def _exit(plan: Plan, item: Workload, pod: Object, container: str, end: Object) -> Failure:
    """Return the failure of a training or init container."""
    created = pod["metadata"]["creationTimestamp"]
    code, reason, at = end["exitCode"], end["reason"] or "Error", end["finishedAt"]
    # The start time of a container that cannot start is 0.
    started = max(seconds(end["startedAt"] or created), seconds(created))
    retryable = item.is_retryable(code) or reason == "OOMKilled"
    quick = seconds(at or created) - started < plan.start_seconds
    name, where = pod["metadata"]["name"], ""
    if container != item.container:
        # Init containers fetch code or wait for peers, and may succeed on the next attempt.
        where, quick, retryable = f"init container {container} of ", False, True
    node = pod["spec"]["nodeName"]
    return Failure(at or created, code, reason, where + name, retryable, node, EXIT, quick)


def obstacle(plan: Plan, seen: Seen, now: float) -> tuple[int, str, str] | None:
    """Return the end of the job if a pod exceeds a limit of the plan: code, reason, message."""
    for item, pod in pods_of(plan.workloads, seen):
        if pod["status"]["phase"] in ("Pending", "Running") and not is_deleted(pod):
            for code, reason, text, field in _obstacles(plan, seen, item, pod, now):
                name = pod["metadata"]["name"]
                return code, reason, f"{name} {text}; limit: runPolicy.giveUpAfter.{field}"
    return None


def late(plan: Plan, seen: Seen) -> Iterator[tuple[float, str]]:
    """Yield the replicas that await one that has succeeded: when to give up, and a message.

    A succeeded replica does not run again, so its address does not come back. A replica that
    started to wait before the other one ended may still be about to start.
    """
    waiting = [
        (item, pod)
        for item, pod in pods_of(plan.jobs, seen)
        if item.awaits and _waits_for_peers(pod) and not is_deleted(pod)
    ]
    ends = [each["since"] for each in seen.pods if each["status"]["phase"] == "Succeeded"]
    last = max(ends, default=0.0)
    awaited = {each for item, _ in waiting for each in item.awaits}
    succeeded = {each: any_succeeded(seen.workloads[each[0]], *each[1:]) for each in awaited}
    for item, pod in waiting:
        for each in item.awaits:
            if succeeded[each] is not None:
                text = f"{pod['metadata']['name']} waits for replica {succeeded[each]} of {each[0]}"
                text += ", which has already succeeded and does not run again"
                text += "; let this replica end last"
                yield max(pod["since"], last) + LATE_SECONDS, text


def _waits_for_peers(pod: Object) -> bool:
    return any(each["name"] == WAIT and "running" in each["state"] for each in containers(pod))


def _obstacles(
    plan: Plan, seen: Seen, item: Workload, pod: Object, now: float
) -> Iterator[tuple[int, str, str, str]]:
    """Yield an exit code, a reason, a text about the pod, and the field of the limit."""
    gate = condition(pod, "PodScheduled", "False") if plan.pending_seconds else None
    if not gate and not any("waiting" in each["state"] for each in containers(pod)):
        return
    waited = now - pod["since"]
    if gate and waited >= plan.pending_seconds:
        text = f"was not scheduled for {waited:.0f} s: {gate['message']}"
        yield 1, "Unschedulable", text, "pendingSeconds"
    for each in containers(pod):
        reason, restarts = each["state"].get("waiting", {}).get("reason"), each["restartCount"]
        crashes = reason == "CrashLoopBackOff" and _is_unlimited(plan, seen, item)
        if plan.crashes and crashes and restarts >= plan.crashes:
            code = last_end(each).get("exitCode", 0)
            text = f"crashed {restarts} times, last exit code {code}"
            yield code or 1, reason, text, "crashes"
        if plan.image_seconds and reason in NO_START and waited >= plan.image_seconds:
            what = f"cannot pull {each['image']}" if "Image" in reason else f"has a {reason}"
            text = f"{what} for {waited:.0f} s"
            yield 1, reason, text, "imagePullSeconds"
    # The kubelet mounts volumes before this condition (pkg/kubelet/kubelet.go, SyncPod).
    mounted = condition(pod, "PodReadyToStartContainers", "False")
    if plan.image_seconds and mounted and not gate and waited >= plan.image_seconds:
        text = f"could not mount volumes or set up its network for {waited:.0f} s; see its events"
        yield 1, "PodNotReadyToStart", text, "imagePullSeconds"


def _is_unlimited(plan: Plan, seen: Seen, item: Workload) -> bool:
    """Return whether the controller of a workload restarts its containers without a limit."""
    observed = seen.workloads[item.name]
    limit = observed and observed["spec"]["backoffLimit"]
    return item.kind == "StatefulSet" or (limit == JOB_LIMIT and item not in plan.gang)
