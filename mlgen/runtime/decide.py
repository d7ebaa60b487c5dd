"""What is observed → the next status, or what to do. Pure: no clock, no network.

Every decision is stored before it is acted on: one call returns either a new status or actions.
Actions follow from the stored status and the observed objects alone, so a supervisor that dies at
any point is replaced by one that goes on. Each patch carries the resource version of what was
observed, so a supervisor that has fallen behind changes nothing.

    Running ─► Stopping ─► BackingOff ─► Running     a restart of the gang
       └──────────┴────────────┴───────► Ended       clean up, and finish
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlgen.runtime import status as job_status
from mlgen.runtime.cluster import (
    ENDS,
    Failure,
    Object,
    Seen,
    counts,
    ending,
    failures,
    is_disrupted,
    is_live,
    is_stopped,
    is_suspended,
    obstacle,
    pods_of,
)

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

FIRST_DELAY, MAX_DELAY = 10.0, 300.0
DISRUPTED, DEADLINE = 143, 124
"""Exit codes of a job that was disrupted, or has exceeded its deadline."""

QUEUE = "kueue.x-k8s.io/queue-name"
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pod that its Job has not counted yet."""

SETTLE_SECONDS = 5.0
"""For so long the gang is not stopped after a permanent exit code.

It may be that of a peer of the pod that failed first, which a slower kubelet has yet to report.
"""

MISSING_SECONDS = 600.0
"""How long the rest of the job's objects may take to be created."""


@dataclass(frozen=True)
class Action:
    """A merge patch of an object, or without one, its deletion."""

    kind: str
    name: str
    patch: Object | None = None
    uid: str = ""
    """Of the object to delete, if it is known."""


@dataclass(frozen=True)
class Decision:
    """The changes of the status, or else actions; when to look again; the exit code of the job."""

    status: dict[str, str | None] | None = None
    actions: tuple[Action, ...] = ()
    wake: float | None = None
    finish: int | None = None


def decide(plan: Plan, seen: Seen, now: float) -> Decision:
    """Return the next step; `now` is in seconds since the epoch."""
    state = advance(plan, seen, job_status.load(seen.status, plan.run), now)
    changed = job_status.changes(plan, seen, state, now)
    if changed:
        return Decision(status=changed)
    if state.phase == "Ended":
        return _clean(plan, seen, state, now)
    actions = []
    for item, observed in _existing(plan.workloads, seen):
        stopping = state.phase != "Running" and item in plan.gang
        if stopping and not is_suspended(observed):
            actions.append(_stop(item, observed))
        elif not stopping and is_suspended(observed) and _is_due(plan, seen, state, item):
            actions.append(_start(item, observed))
    times = [time for time in (state.until, state.settled) if time]
    if plan.deadline_seconds is not None and state.started:
        times.append(state.started + plan.deadline_seconds)
    return Decision(actions=tuple(actions), wake=min(times, default=None))


def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state that follows from what is observed."""
    if state.phase == "Ended":
        return state
    missing = [
        item.name
        for item in plan.workloads
        if (item.name in plan.deciding or item in plan.gang) and not seen.workloads[item.name]
    ]
    if state.uid and (missing or _uid(plan, seen) != state.uid):
        names = ", ".join(missing or plan.deciding[:1])
        return _ended(state, now, 1, "JobDeleted", f"{names} was deleted by hand")
    state = replace(state, first=state.first or now)
    if missing and now > state.first + MISSING_SECONDS:
        return _ended(state, now, 1, "JobNotCreated", f"{', '.join(missing)} does not exist")
    started = not missing and any(
        not is_suspended(each) for _, each in _existing(plan.workloads, seen)
    )
    state = replace(
        state,
        uid="" if missing else _uid(plan, seen),
        started=state.started or (now if started else 0.0),
        short=(state.short or now) if _is_short(plan, seen, state) else 0.0,
    )
    outcome = _outcome(plan, seen, state, now)
    if outcome:
        return _ended(state, now, *outcome)
    step = {"Stopping": _stopping, "BackingOff": _backing_off}.get(state.phase, _running)
    return step(plan, seen, state, now) if plan.gang and not missing else state


def _uid(plan: Plan, seen: Seen) -> str:
    """Return the UID of the first deciding Job."""
    first = seen.workloads[plan.deciding[0]]
    return str(first["metadata"]["uid"]) if first else ""


def _existing(workloads: tuple[Workload, ...], seen: Seen) -> list[tuple[Workload, Object]]:
    """Return the workloads that have not ended, and what is observed of them."""
    pairs = [(item, seen.workloads[item.name]) for item in workloads]
    return [(item, each) for item, each in pairs if each and not ending(each)]


def _ended(state: State, now: float, code: int, reason: str, message: str) -> State:
    return replace(state, phase="Ended", ended=now, code=code, reason=reason, message=message)


def _outcome(plan: Plan, seen: Seen, state: State, now: float) -> tuple[int, str, str] | None:
    """Return the exit code, reason and message if the job has ended."""
    ends = {
        item.name: ending(observed)
        for item in plan.workloads
        for observed in [seen.workloads[item.name]]
        if observed
    }
    succeeded = [name for name, end in ends.items() if end and ENDS[end["type"]]]
    failed = [name for name, end in ends.items() if end and not ENDS[end["type"]]]
    enough = any if plan.decides == "any" else all
    if enough(name in succeeded for name in plan.deciding):
        return (
            0,
            "JobSucceeded",
            f"{', '.join(n for n in plan.deciding if n in succeeded)} succeeded",
        )
    for item in plan.workloads:
        others = plan.decides == "any" and not all(name in failed for name in plan.deciding)
        excused = others if item.name in plan.deciding else item.tolerates_failure
        end = ends.get(item.name)
        if item.name not in failed or excused or not end:
            continue
        first = min(failures(plan, (item,), seen, state.mark), default=None)
        code = first.code if first else DISRUPTED
        code = DEADLINE if end.get("reason") == "DeadlineExceeded" else code
        return code, end.get("reason", "JobFailed"), f"{item.name}: {end.get('message', '')}"
    limit = plan.deadline_seconds
    if limit is not None and state.started and now >= state.started + limit:
        return DEADLINE, "DeadlineExceeded", f"the job ran for more than {limit} s"
    limit = plan.pending_seconds
    if limit is not None and state.short and now > state.short + limit:
        return 1, "PodsNotCreated", f"pods cannot be created for {limit} s"
    blocked = obstacle(plan, seen, now) if state.phase == "Running" else None
    return (1, *blocked) if blocked else None


def _is_short(plan: Plan, seen: Seen, state: State) -> bool:
    """Return whether a workload that runs has fewer pods than replicas."""
    return state.phase == "Running" and any(
        counts(observed)[1] < counts(observed)[0]
        for _, observed in _existing(plan.workloads, seen)
        if not is_suspended(observed)
    )


def _running(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a running gang: with its running pods, or stopping."""
    gang = _existing(plan.gang, seen)
    suspended = [item.name for item, observed in gang if is_suspended(observed)]
    state = replace(state, held=tuple(name for name in state.held if name in suspended))
    if set(suspended) - set(state.held) - {order.role for order in plan.order}:
        return replace(state, members=())  # suspended by its user
    pods = [pod for _, pod in pods_of(plan.gang, seen, state.mark)]
    present = {pod["metadata"]["uid"] for pod in pods}
    disrupted = any(is_disrupted(pod) or pod["metadata"].get("deletionTimestamp") for pod in pods)
    disrupted = disrupted or any(uid not in present for uid in state.members)
    disrupted = disrupted or _is_one_missing(plan, seen, state)
    cause = min(failures(plan, plan.gang, seen, state.mark), default=None)
    if not cause and not disrupted:
        running = [p["metadata"]["uid"] for p in pods if p["status"].get("phase") == "Running"]
        return replace(state, members=tuple(sorted(running)))
    settled = state.settled or now + SETTLE_SECONDS
    if cause and not cause.retryable and not disrupted and now < settled:
        return replace(state, settled=settled)
    state = replace(state, phase="Stopping", members=(), settled=0.0)
    state = replace(state, cause=cause, disrupted=disrupted)
    refusal = _refusal(plan, seen)
    return _failed(state, now, "RestartRefused", refusal) if refusal else state


def _failed_count(plan: Plan, seen: Seen) -> int:
    """Return how many pods of the gang's Jobs have failed or were deleted, as the Jobs count."""
    return sum(each["status"].get("failed", 0) for _, each in _existing(plan.gang, seen))


def _is_one_missing(plan: Plan, seen: Seen, state: State) -> bool:
    """Return whether the Jobs count more failed pods than there are.

    So a pod is noticed that was deleted before it was seen. Pods that are deleted because their Job
    is suspended are not counted (deleteJobPods in pkg/controller/job/job_controller.go).
    """
    pods = [pod for _, pod in pods_of(plan.gang, seen, state.mark)]
    failed = sum(
        pod["status"].get("phase") == "Failed" and "deletionTimestamp" not in pod["metadata"]
        for pod in pods
    )
    return bool(_failed_count(plan, seen) - state.failed > failed)


def _stopping(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a gang that stops: with its first failure, and judged at the end.

    The kubelet of the pod that failed first may report it after the others', so all are waited for.
    """
    pods = [pod for _, pod in pods_of(plan.gang, seen, state.mark)]
    first = failures(plan, plan.gang, seen, state.mark) + ([state.cause] if state.cause else [])
    state = replace(
        state,
        cause=min(first, default=None),
        disrupted=state.disrupted or any(map(is_disrupted, pods)),
    )
    if not _is_quiet(plan, seen, now):
        return state
    state = replace(state, disrupted=state.disrupted or _is_one_missing(plan, seen, state))
    refusal, cause = _refusal(plan, seen), state.cause
    if refusal:
        return _failed(state, now, "RestartRefused", refusal)
    if state.disrupted or not cause:
        count = state.disruptions + 1
        return replace(state, phase="BackingOff", until=now + FIRST_DELAY, disruptions=count)
    if not cause.retryable:
        return _failed(state, now, cause.reason, "this exit code is permanent")
    if state.restarts >= plan.backoff_limit:
        return _failed(state, now, "BackoffLimitExceeded", f"after {state.restarts} restarts")
    delay = min(FIRST_DELAY * 2.0 ** min(state.restarts, 10), MAX_DELAY)
    return replace(state, phase="BackingOff", until=now + delay, restarts=state.restarts + 1)


def _backing_off(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a stopped gang: running again after its delay."""
    if now < state.until or not _is_quiet(plan, seen, now):
        return state
    created = [pod["metadata"]["creationTimestamp"] for _, pod in pods_of(plan.gang, seen)]
    held = tuple(item.name for item, _ in _existing(plan.gang, seen))
    mark = max([state.mark, *created])
    state = replace(state, phase="Running", held=held, mark=mark, until=0.0)
    return replace(state, cause=None, disrupted=False, failed=_failed_count(plan, seen))


def _failed(state: State, now: float, reason: str, text: str) -> State:
    """Return the end of a job whose gang cannot start again."""
    if state.disrupted or not state.cause:
        return _ended(state, now, DISRUPTED, reason, f"a pod was deleted or disrupted; {text}")
    cause: Failure = state.cause
    return _ended(state, now, cause.code, reason, f"{cause.pod} exited with {cause.code}; {text}")


def _is_quiet(plan: Plan, seen: Seen, now: float) -> bool:
    """Return whether every workload has stopped, and its last pod is gone and counted."""
    stopped = all(is_stopped(observed) for _, observed in _existing(plan.gang, seen))
    return stopped and not any(
        is_live(pod, now) or TRACKING in pod["metadata"].get("finalizers", ())
        for _, pod in pods_of(plan.gang, seen)
    )


def _refusal(plan: Plan, seen: Seen) -> str:
    """Return why the gang cannot start again."""
    for item in plan.gang:
        observed = seen.workloads[item.name]
        if observed and observed["status"].get("succeeded"):
            return f"a replica of {item.name} has already succeeded, and would not run again"
        if observed and QUEUE in observed["metadata"].get("labels", {}):
            return f"Kueue alone suspends and resumes {item.name}"
    return ""


def _is_due(plan: Plan, seen: Seen, state: State, item: Workload) -> bool:
    """Return whether a workload that is suspended has to be started."""
    orders = [order for order in plan.order if order.role == item.role]
    if not orders and item.name not in state.held:
        return False
    for order in orders:
        for other in plan.workloads:
            observed = seen.workloads[other.name]
            if other.role == order.of and not (observed and _has_come(order.until, observed)):
                return False
    return True


def _has_come(until: str, observed: Object) -> bool:
    end = ending(observed)
    if until == "Complete" or end:
        return bool(end and ENDS[end["type"]])
    wanted, _, ready = counts(observed)
    return not is_suspended(observed) and ready >= wanted


def _clean(plan: Plan, seen: Seen, state: State, now: float) -> Decision:
    """Return how to end what still runs, and then the exit code."""
    if state.uid and _uid(plan, seen) not in ("", state.uid):
        return Decision(finish=state.code)  # the objects are those of the next run
    expires = None if plan.ttl_seconds is None else state.ended + plan.ttl_seconds
    if plan.clean_pod_policy == "All" or (expires is not None and now >= expires):
        pairs = [(item, seen.workloads[item.name]) for item in plan.workloads]
        workloads = [
            Action(item.kind, item.name, uid=observed["metadata"]["uid"])
            for item, observed in pairs
            if observed
        ]
        if workloads:
            return Decision(actions=(*(Action(*each) for each in plan.objects), *workloads))
        return Decision(finish=state.code)
    actions, waiting = [], False
    for item, observed in _existing(plan.workloads, seen):
        if item.name in plan.deciding and state.code:
            waiting = True
            actions += _end(item, observed)
        elif plan.clean_pod_policy == "Running" and not is_suspended(observed):
            actions.append(_stop(item, observed))
    if actions or waiting:
        return Decision(actions=tuple(actions))
    return Decision(finish=state.code) if expires is None else Decision(wake=expires)


def _stop(item: Workload, observed: Object) -> Action:
    """Suspending deletes running pods without counting them as failed, and keeps finished ones."""
    return _patch(item, observed, {"suspend": True} if item.kind == "Job" else {"replicas": 0})


def _start(item: Workload, observed: Object) -> Action:
    job = item.kind == "Job"
    return _patch(item, observed, {"suspend": False} if job else {"replicas": item.replicas})


def _end(item: Workload, observed: Object) -> list[Action]:
    """Return how to let the Job controller fail a Job: its deadline is already exceeded.

    A suspended Job has no deadline (pastActiveDeadline in pkg/controller/job/job_controller.go), so
    it is resumed, without pods.
    """
    spec = {"activeDeadlineSeconds": 1}
    if is_suspended(observed):
        return [_patch(item, observed, {**spec, "suspend": False, "parallelism": 0})]
    return (
        [] if observed["spec"].get("activeDeadlineSeconds") == 1 else [_patch(item, observed, spec)]
    )


def _patch(item: Workload, observed: Object, spec: Object) -> Action:
    version = observed["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "spec": spec}
    return Action(item.kind, item.name, body)
