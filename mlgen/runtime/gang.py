"""The restart of a gang: replicas that restart together. `decide` shows the phases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlgen.runtime import status as job_status
from mlgen.runtime.cluster import (
    Seen,
    counts,
    ending,
    is_live,
    is_stopped,
    is_suspended,
    lowest_succeeded,
    member,
    pods_of,
    record,
    rewound,
    unfinished,
)
from mlgen.runtime.failures import DISRUPTION, EXIT, LIMIT, Failure, failures, first
from mlgen.runtime.times import stamp

if TYPE_CHECKING:
    from mlgen.runtime.answers import Object
    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

MAX_DELAY = 300.0
DISRUPTED = 143
"""The exit code of a disrupted job."""

QUEUE = "kueue.x-k8s.io/queue-name"

SETTLE_SECONDS = 5.0
"""Seconds that the gang may continue after a failure."""


def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the next state of a gang, from the observed objects."""
    state = replace(state, in_place=state.in_place and plan.in_place)
    if state.in_place:
        from mlgen.runtime import in_place

        if in_place.is_suspended_by_others(plan, seen):
            state = replace(state, phase="Running", in_place=False, until=0.0, cause=None)
    step = {"Stopping": _stopping, "BackingOff": _backing_off}.get(state.phase, _running)
    return step(plan, seen, state, now)


def ended(state: State, now: float, code: int, reason: str, message: str) -> State:
    """Return the state of a job that is over."""
    return replace(state, phase="Ended", ended=now, code=code, reason=reason, message=message)


def _running(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a gang that starts or runs, or that has failed."""
    gang = unfinished(plan.gang, seen)
    stopped = [(item, each) for item, each in gang if is_suspended(each) and not plan.waits(item)]
    waits = state.in_place and any(each != state.attempt for each in seen.waiting.values())
    suspended = any(not is_paused(plan, state, *pair) for pair in stopped)
    held = waits or (state.phase == "Starting" and suspended)
    state = replace(state, phase="Starting" if held else "Running", in_place=waits)
    paused = [item for item, each in gang if is_paused(plan, state, item, each)]
    if not held and any(not plan.waits(item) for item in paused):
        # A finalizer may keep pods that have ended until the user resumes the job.
        ends = {member(pod) for _, pod in pods_of(plan.gang, seen) if not is_live(pod, now)}
        return replace(state, members=(), running=0.0, old=tuple(sorted(ends | {*state.old})))
    cause = _cause(plan, seen, state, now)
    if not cause:
        pods = [pod for _, pod in pods_of(plan.gang, seen, state.old)]
        members = sorted(each for pod in pods if (each := _member(state, pod)))
        wanted, done = _sizes(plan, seen)
        complete = not held and len(members) >= wanted - done
        since = (state.running or now) if complete else 0.0
        # Another supervisor may know a cause that this one cannot see, and act when it is settled.
        settled = state.settled if now < state.settled + SETTLE_SECONDS else 0.0
        return replace(state, members=tuple(members), running=since, settled=settled)
    settled = state.settled or now + SETTLE_SECONDS
    if cause.kind == EXIT and now < settled and _may_change(cause, plan, seen):
        return replace(state, settled=settled)
    return stopping(plan, seen, forgiven(plan, state, now), cause, now)


def stopping(plan: Plan, seen: Seen, state: State, cause: Failure, now: float) -> State:
    """Return the state of a gang that stops, or the end of the job if it cannot restart."""
    state = replace(state, phase="Stopping", cause=cause, members=(), running=0.0, settled=0.0)
    if plan.in_place:
        from mlgen.runtime import in_place

        if in_place.is_possible(plan, seen, state):
            return replace(state, in_place=True, until=now + in_place.STOP_SECONDS)
    return _refused(plan, seen, replace(state, in_place=False), now)


def forgiven(plan: Plan, state: State, now: float) -> State:
    """Return the state without earlier failures, if all replicas have run for long enough."""
    reset = plan.backoff_reset_seconds
    if reset and state.running and now - state.running >= reset:
        return replace(state, spent=0, disturbed=0, quick=0)
    return state


def _sizes(plan: Plan, seen: Seen) -> tuple[int, int]:
    """Return the number of desired replicas of the gang, and how many of them have succeeded."""
    gang = [each for _, each in unfinished(plan.gang, seen) if not is_suspended(each)]
    done = sum(int(each["status"]["succeeded"]) for each in gang)
    return sum(counts(each)[0] for each in gang), done


def _cause(plan: Plan, seen: Seen, state: State, now: float) -> Failure | None:
    """Return the known cause of the gang's failure; None if it has not failed.

    A member that is gone was deleted, unless the user has scaled the workload down. A member that
    has succeeded is not gone.
    """
    stopped = now if state.phase == "Stopping" else None
    items = tuple(item for item, _ in unfinished(plan.gang, seen))
    # If the status was lost, the pods have higher numbers.
    waiting = {uid: each for uid, each in seen.waiting.items() if each >= state.attempt}
    seen = replace(seen, waiting=waiting)
    found = failures(plan, items, seen, state.old, stopped)
    gone = {*state.members} - {member(pod) for pod in seen.pods}
    if stopped is None and len(gone) > max(0, len(state.members) - _sizes(plan, seen)[0]):
        at = stamp(now)
        found.append(Failure(at, 0, "Deleted", "a pod", retryable=True, kind=DISRUPTION))
    return first([state.cause, *found])


def _member(state: State, pod: Object) -> str:
    """Return the name of a pod that runs; "" for other pods.

    A pod that is pending again restarts its containers. It still counts as running, because only
    the next request of its sidecar shows whether it has failed.
    """
    name, phase = member(pod), pod["status"]["phase"]
    runs = phase == "Running" or (phase == "Pending" and name in state.members)
    return name if runs else ""


def _may_change(cause: Failure, plan: Plan, seen: Seen) -> bool:
    """Return whether it is too early to stop the gang.

    A permanent exit code may be from a peer of the pod that failed first, if a slower kubelet has
    not reported that pod yet. After the exit of a container, the kubelet sets the pod's phase. If
    the Job is suspended before, the pod is deleted with its log. The phase of a pod that exits
    at once is Pending until then (mergePodStatus in pkg/kubelet/status/status_manager.go).
    """
    if plan.in_place:  # the kubelet restarts the containers at once, and keeps the pod
        return not cause.retryable
    pods = [pod for _, pod in pods_of(plan.jobs, seen) if pod["metadata"]["name"] == cause.pod]
    return not cause.retryable or any(pod["status"]["phase"] != "Failed" for pod in pods)


def _stopping(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a stopping gang, which is judged when all of its pods have ended.

    The cause is unknown before: the pods of a lost node do not end, and a core dump takes longer
    than the exceptions of the peers.
    """
    state = replace(state, cause=_cause(plan, seen, state, now))
    if state.in_place:
        from mlgen.runtime import in_place

        if now >= state.until or not in_place.is_whole(plan, seen, state):
            return replace(state, in_place=False, until=0.0)
        if not in_place.all_wait(plan, seen, state):
            return state
        failed = job_status.latest(state.failed, state.cause.node if state.cause else "")
        return judged(plan, replace(state, failed=failed), now)
    if not _is_quiet(plan, seen, now):
        return state
    state = _refused(plan, seen, state, now)
    if state.phase == "Ended":
        return state
    return judged(plan, state, now)


def judged(plan: Plan, state: State, now: float) -> State:
    """Return the state of a stopped gang: a restart after a delay, or the end of the job."""
    cause, text = state.cause, job_status.why(state)
    if not cause or cause.is_disruption:
        if plan.disruptions and state.disturbed >= plan.disruptions:
            text += f" after {state.disturbed} disruptions"
            if plan.backoff_reset_seconds:
                text += f" with less than {plan.backoff_reset_seconds} s of running between them"
            text += " (runPolicy.giveUpAfter.disruptions)"
            return ended(state, now, DISRUPTED, "TooManyDisruptions", text)
        until = now + _delay(plan, state.disturbed)
        state = replace(state, disruptions=state.disruptions + 1, disturbed=state.disturbed + 1)
        return replace(state, phase="BackingOff", until=until, avoid=_avoided(plan, state))
    code = cause.code or DISRUPTED
    if not cause.retryable:
        text += ", which restartPolicy does not retry"
        return ended(state, now, code, cause.reason, text)
    if cause.kind in (EXIT, LIMIT):
        row = state.quick + 1 if cause.code == state.quick_code else 1
        state = replace(state, quick=row if cause.quick else 0, quick_code=cause.code)
    if plan.start_failures and state.quick >= plan.start_failures:
        text += f", {state.quick} times in a row, each within {plan.start_seconds} s of its start"
        text += " (runPolicy.giveUpAfter.startFailures)"
        return ended(state, now, code, "StartFailed", text)
    if state.spent >= plan.backoff_limit:
        text += f" after {state.spent} restarts (runPolicy.backoffLimit)"
        return ended(state, now, code, "BackoffLimitExceeded", text)
    until = now + _delay(plan, state.spent)
    state = replace(state, restarts=state.restarts + 1, spent=state.spent + 1)
    return replace(state, phase="BackingOff", until=until, avoid=_avoided(plan, state))


def _avoided(plan: Plan, state: State) -> str:
    """Return the nodes to avoid, including the node of the failure.

    Kubernetes itself keeps pods away from nodes that are drained, lost or out of memory.
    """
    cause = state.cause
    if not plan.avoid_nodes or not cause or cause.kind == DISRUPTION:
        return state.avoid if plan.avoid_nodes else ""
    return job_status.latest(state.avoid, cause.node)


def _delay(plan: Plan, count: int) -> float:
    return min(plan.first_delay * 2.0 ** min(count, 10), MAX_DELAY)


def _backing_off(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a stopped gang, which starts again after its delay.

    A delay above the maximum was stored with a wrong clock, and is ignored.
    """
    if state.in_place:
        from mlgen.runtime import in_place

        state = replace(state, in_place=in_place.is_whole(plan, seen, state))
    if now < state.until <= now + MAX_DELAY:
        return state
    if state.in_place:  # a new pod does not wait: its program waits for its peers
        return replace(state, phase="Starting", until=0.0, cause=None)
    if not _is_quiet(plan, seen, now):
        return state
    gang = unfinished(plan.gang, seen)
    if any(not _is_prepared(plan, item) and lowest_succeeded(each) for item, each in gang):
        return state  # until the Job controller has reset them
    old = tuple(sorted(member(pod) for _, pod in pods_of(plan.gang, seen)))
    return replace(state, phase="Starting", old=old, until=0.0, cause=None, failed="")


def _is_quiet(plan: Plan, seen: Seen, now: float) -> bool:
    """Return whether every workload of the gang has stopped, and its last pod is gone.

    A Job's pod on a lost node is ignored after some time. A StatefulSet's pod is not: it must be
    gone before it is replaced, and a launcher that starts earlier cannot reach it.
    """
    stopped = all(is_stopped(observed) for _, observed in unfinished(plan.gang, seen))
    return stopped and not any(
        is_live(pod, now if item.kind == "Job" else 0.0) for item, pod in pods_of(plan.gang, seen)
    )


def _is_prepared(plan: Plan, item: Workload) -> bool:
    """Return whether other roles wait until a role is complete. Its replicas end one by one."""
    return any(order.of == item.role for order in plan.order if order.until == "Complete")


def forgotten(plan: Plan, item: Workload, observed: Object) -> Object | None:
    """Return the patch that makes replicas run again that have ended too early, or None."""
    return None if item.kind != "Job" or _is_prepared(plan, item) else rewound(observed)


def _refused(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state, or the end of the job if the gang cannot restart."""
    for item in plan.gang:
        observed, text = seen.workloads[item.name], ""
        if not observed or _is_prepared(plan, item):
            continue
        succeeded = observed["status"]["succeeded"]
        if succeeded and (ending(observed) or not lowest_succeeded(observed)):
            text = f"replica 0 of {item.name} has already succeeded, so it would not run again"
            text += " (exit with another code on SIGTERM)"
        elif QUEUE in observed["metadata"]["labels"]:
            text = f"only Kueue may suspend and resume {item.name}"
        if text:
            code = (state.cause and state.cause.code) or DISRUPTED
            return ended(state, now, code, "RestartRefused", f"{job_status.why(state)}; {text}")
    return state


def is_held(observed: Object) -> bool:
    """Return whether a Job was suspended by the supervisor, not by the user."""
    phase = job_status.restored([record(observed)], "").phase
    return is_suspended(observed) and phase in ("Stopping", "BackingOff")


def is_paused(plan: Plan, state: State, item: Workload, observed: Object) -> bool:
    """Return whether the user has suspended a started workload."""
    if not is_suspended(observed) or state.phase in ("Stopping", "BackingOff"):
        return False
    if item.kind == "StatefulSet":  # an earlier run may have scaled it to 0
        return state.phase == "Running" and state.served and not plan.waits(item)
    was_started = bool(record(observed)) or (state.phase == "Running" and not plan.waits(item))
    return was_started and not is_held(observed)
