"""What is observed → the next status, or what to do. Pure: no clock, no network.

Every decision is stored before it is acted on: one call returns either a new status or actions.
Actions follow from the stored status and the observed objects alone, so a supervisor that dies at
any point is replaced by one that goes on. Each patch carries the resource version of what was
observed, so a supervisor that has fallen behind changes nothing.

    Running ─► Stopping ─► BackingOff ─► Starting ─► Running     a restart of the gang
       └──────────┴────────────┴────────────┴──────► Ended       clean up, and finish
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
    elsewhere,
    ending,
    failures,
    first,
    has_come,
    is_deleted,
    is_disrupted,
    is_live,
    is_stopped,
    is_suspended,
    obstacle,
    pods_of,
    short_of_pods,
    stuck_at,
    unfinished,
)  # fmt: skip
from mlgen.runtime.plan import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

FIRST_DELAY, MAX_DELAY = 10.0, 300.0
DISRUPTED, DEADLINE = 143, 124
"""Exit codes of a job that was disrupted, or has exceeded its deadline."""

ACTIVE = ("Starting", "Running")
QUEUE = "kueue.x-k8s.io/queue-name"

SETTLE_SECONDS = 5.0
"""For so long the gang may go on after a failure."""

MISSING_SECONDS = 600.0
"""How long the rest of the job's objects may take to be created."""

JOB_BACKOFF = 600.0
"""How long at most a Job waits before it replaces a failed pod (pkg/controller/job)."""


@dataclass(frozen=True)
class Action:
    """A merge patch of an object, or without one, its deletion."""

    kind: str
    name: str
    patch: Object | None = None
    uid: str = ""
    """Of the object to delete, if it is known."""
    text: str = "deleting"
    subresource: str = ""
    """What is patched of the object: `scale`, or all of it."""
    more: Object | None = None
    """What the patch of a spec has in addition, unless the API server refuses that."""


@dataclass(frozen=True)
class Decision:
    """The changes of the status, or else actions; when to look again; the exit code of the job."""

    status: dict[str, str | None] | None = None
    actions: tuple[Action, ...] = ()
    wake: float | None = None
    finish: int | None = None


def decide(plan: Plan, seen: Seen, now: float) -> Decision:
    """Return the next step; `now` is in seconds since the epoch."""
    state = job_status.load(seen.status, plan.run, _uid(plan, seen))
    state = advance(plan, seen, state, now)
    changed = job_status.changes(plan, seen, state, now)
    if changed:
        return Decision(status=changed)
    if state.phase == "Ended":
        return _clean(plan, seen, state)
    actions = []
    for item, observed in unfinished(plan.workloads, seen):
        stops = state.phase in ("Stopping", "BackingOff") and item in plan.gang
        if stops != is_suspended(observed) and (stops or _is_due(plan, seen, state, item)):
            actions.append(_switch(item, observed, state.avoid, on=not stops))
    times = [time for time in (state.until, state.settled) if time]
    if state.phase == "Stopping":  # of a pod on a lost node, nothing is heard
        times += [at for _, pod in pods_of(plan.gang, seen) if (at := stuck_at(pod)) >= now]
    if plan.deadline_seconds is not None and state.started:
        times.append(state.started + plan.deadline_seconds)
    if plan.pending_seconds:
        times.append(now + plan.pending_seconds)  # nothing else may happen until then
    return Decision(actions=tuple(actions), wake=min(times, default=None))


def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state that follows from what is observed."""
    if state.phase == "Ended":
        return state
    missing, present = _missing(plan, seen), unfinished(plan.workloads, seen)
    short = plan.pending_seconds and state.phase in ACTIVE and short_of_pods(plan, seen, now)
    runs = not missing and any(not is_suspended(each) for _, each in present)
    stopped = [item for item, each in present if is_suspended(each) and not plan.waits(item)]
    paused = state.phase == "Running" and any(item.name in plan.deciding for item in stopped)
    serves = runs and not any(item.kind == "StatefulSet" for item in stopped)
    state = replace(
        state,
        uid=state.uid or ("" if missing else _uid(plan, seen)),
        first=state.first or now,
        started=0.0 if paused else state.started or (now if runs else 0.0),
        served=state.served or serves,
        short=(state.short or now) if short else 0.0,
    )
    for code, reason, message in _ends(plan, seen, state, now):
        return _ended(state, now, code, reason, message)
    step = {"Stopping": _stopping, "BackingOff": _backing_off}.get(state.phase, _running)
    return step(plan, seen, state, now) if plan.gang and not missing else state


def _ended(state: State, now: float, code: int, reason: str, message: str) -> State:
    return replace(state, phase="Ended", ended=now, code=code, reason=reason, message=message)


def _missing(plan: Plan, seen: Seen) -> list[str]:
    """Return the workloads that the job needs and that do not exist."""
    needed = {*plan.deciding, *(item.name for item in plan.gang)}
    return sorted(name for name in needed if not seen.workloads[name])


def _uid(plan: Plan, seen: Seen) -> str:
    """Return the UID of the first deciding Job."""
    observed = seen.workloads[plan.deciding[0]]
    return str(observed["metadata"]["uid"]) if observed else ""


# The end of the job


def _ends(plan: Plan, seen: Seen, state: State, now: float) -> Iterator[tuple[int, str, str]]:
    """Yield the exit codes, reasons and messages with which the job ends; the first one counts."""
    for name, job in seen.taken.items():
        yield 1, "NameCollision", f"{name} exists, and belongs to {job}; choose another name"
    missing, names = _missing(plan, seen), ", ".join(_missing(plan, seen) or plan.deciding)
    if state.uid and (missing or _uid(plan, seen) != state.uid):
        yield 1, "JobDeleted", f"{names} was deleted by hand"
    if missing and now > state.first + MISSING_SECONDS:
        yield 1, "JobNotCreated", f"{names} does not exist after {MISSING_SECONDS:.0f} s"
    yield from _ends_of_jobs(plan, seen, state)
    limit = plan.deadline_seconds
    if limit is not None and state.started and now >= state.started + limit:
        yield DEADLINE, "DeadlineExceeded", f"the job ran for more than {limit} s"
    failed = any(each["status"].get("failed") for each in seen.workloads.values() if each)
    bound = plan.pending_seconds + (JOB_BACKOFF if failed else 0.0)
    if state.short and now >= state.short + bound:
        names, waited = ", ".join(short_of_pods(plan, seen, now)), now - state.short
        text = f"pods of {names} cannot be created for {waited:.0f} s, see its events"
        yield 1, "PodsNotCreated", f"{text}; the bound is runPolicy.giveUpAfter.pendingSeconds"
    blocked = obstacle(plan, seen, now) if state.phase in ACTIVE else None
    if blocked:
        yield blocked


def _ends_of_jobs(plan: Plan, seen: Seen, state: State) -> Iterator[tuple[int, str, str]]:
    ends = {name: ending(observed) for name, observed in seen.workloads.items()}
    succeeded = [name for name, end in ends.items() if end and ENDS[end["type"]]]
    names = [name for name in plan.deciding if name in succeeded]
    if len(names) == len(plan.deciding) or (names and plan.decides == "any"):
        yield 0, "JobSucceeded", f"{', '.join(names)} succeeded"
    waits = plan.decides == "any" and not all(ends[name] for name in plan.deciding)
    for item in plan.workloads:
        end, excused = ends[item.name], item.tolerates_failure
        excused = waits if item.name in plan.deciding else excused
        if end and item.name not in succeeded and not excused:
            failure = first(failures(plan, (item,), seen, state.mark))
            code, reason = failure.code if failure else DISRUPTED, end.get("reason", "JobFailed")
            code = DEADLINE if reason == "DeadlineExceeded" else code
            yield code, reason, f"{item.name}: {end.get('message', '')}"


# The restart of the gang


def _running(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a gang that starts or runs, or that has failed."""
    gang = unfinished(plan.gang, seen)
    suspended = [item for item, each in gang if is_suspended(each) and not plan.waits(item)]
    state = replace(state, phase=state.phase if suspended else "Running")
    if state.phase == "Running" and suspended:
        return replace(state, members=())  # by its user
    pods = [pod for _, pod in pods_of(tuple(item for item, _ in gang), seen, state.mark)]
    cause = _first_failure(plan, seen, state)
    gone = {*state.members} - {job_status.member(pod["metadata"]["uid"]) for pod in seen.pods}
    disrupted = bool(gone) or any(is_disrupted(pod) or is_deleted(pod) for pod in pods)
    if not cause and not disrupted:
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        members = sorted(job_status.member(pod["metadata"]["uid"]) for pod in running)
        return replace(state, members=tuple(members), settled=0.0)
    settled = state.settled or now + SETTLE_SECONDS
    if cause and not disrupted and now < settled and _may_change(cause, plan, seen):
        return replace(state, settled=settled)
    state = replace(state, phase="Stopping", members=(), settled=0.0)
    return _refused(plan, seen, replace(state, cause=cause, disrupted=disrupted), now)


def _first_failure(plan: Plan, seen: Seen, state: State) -> Failure | None:
    items = tuple(item for item in plan.gang if item.retryable != ALONE)
    return first([state.cause, *failures(plan, items, seen, state.mark)])


def _may_change(cause: Failure, plan: Plan, seen: Seen) -> bool:
    """Return whether it is too early to stop the gang.

    An exit code that is permanent may be that of a peer of the pod that failed first, which a
    slower kubelet has yet to report. A Job that is suspended before the kubelet has set the phase
    of a pod whose container has exited deletes the pod, with its log. The phase of a pod that exits
    at once is Pending until then (mergePodStatus in pkg/kubelet/status/status_manager.go).
    """
    pods = [pod for _, pod in pods_of(plan.jobs, seen) if pod["metadata"]["name"] == cause.pod]
    return not cause.retryable or any(pod["status"].get("phase") != "Failed" for pod in pods)


def _stopping(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a gang that stops: with its first failure, and judged at the end.

    The kubelet of the pod that failed first may report it after the others', so all are waited for.
    Only a failure tells against a node. Kubernetes itself keeps pods from one that is drained, lost
    or short of something.
    """
    cause = _first_failure(plan, seen, state)
    pods = [pod for _, pod in pods_of(plan.gang, seen, state.mark)]
    disrupted = state.disrupted or any(map(is_disrupted, pods))
    state = replace(state, cause=cause, disrupted=disrupted)
    if not _is_quiet(plan, seen, now):
        return state
    state = _refused(plan, seen, state, now)
    if state.phase == "Ended":
        return state
    if disrupted or not cause:
        count = state.disruptions + 1
        return replace(state, phase="BackingOff", until=now + FIRST_DELAY, disruptions=count)
    if not cause.retryable:
        text = f"{job_status.why(state)}, which restartPolicy does not retry"
        return _ended(state, now, cause.code, cause.reason, text)
    if state.restarts >= plan.backoff_limit:
        text = f"{job_status.why(state)} after {state.restarts} restarts (runPolicy.backoffLimit)"
        return _ended(state, now, cause.code, "BackoffLimitExceeded", text)
    delay = min(FIRST_DELAY * 2.0 ** min(state.restarts, 10), MAX_DELAY)
    avoid = job_status.avoided(state, cause.node) if plan.avoid_nodes else ""
    state = replace(state, phase="BackingOff", restarts=state.restarts + 1, avoid=avoid)
    return replace(state, until=now + delay)


def _backing_off(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a stopped gang: starting again after its delay."""
    if now < state.until or not _is_quiet(plan, seen, now):
        return state
    created = [pod["metadata"]["creationTimestamp"] for _, pod in pods_of(plan.gang, seen)]
    mark = max([state.mark, *created])
    return replace(state, phase="Starting", mark=mark, until=0.0, cause=None, disrupted=False)


def _is_quiet(plan: Plan, seen: Seen, now: float) -> bool:
    """Return whether every workload of the gang has stopped, and its last pod is gone."""
    stopped = all(is_stopped(observed) for _, observed in unfinished(plan.gang, seen))
    return stopped and not any(is_live(pod, now) for _, pod in pods_of(plan.gang, seen))


def _refused(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state, or its end if the gang cannot start again."""
    awaited = [order.of for order in plan.order if order.until == "Complete"]
    for item in plan.gang:
        observed, text = seen.workloads[item.name], ""
        if item.role in awaited and ending(observed):
            continue  # complete, and not started again
        if observed and observed["status"].get("succeeded"):
            text = f"a replica of {item.name} has already succeeded, and would not run again"
            text += " (a program that is told to end should not exit with 0)"
        elif observed and QUEUE in observed["metadata"].get("labels", {}):
            text = f"Kueue alone suspends and resumes {item.name}"
        if text:
            code = DISRUPTED if state.disrupted or not state.cause else state.cause.code
            return _ended(state, now, code, "RestartRefused", f"{job_status.why(state)}; {text}")
    return state


# What is done


def _is_due(plan: Plan, seen: Seen, state: State, item: Workload) -> bool:
    """Return whether a workload that is suspended has to be started."""
    if plan.waits(item):
        return all(
            has_come(order.until, seen.workloads[other.name])
            for order in plan.order
            for other in plan.workloads
            if (order.role, order.of) == (item.role, other.role)
        )
    if state.phase == "Starting" and item in plan.gang:
        return True
    # An earlier run may have scaled it to 0.
    return item.kind == "StatefulSet" and state.started > 0 and not state.served


def _clean(plan: Plan, seen: Seen, state: State) -> Decision:
    """Return how to end what still runs; then the end of the set, and the exit code."""
    if state.uid and _uid(plan, seen) not in ("", state.uid):
        return Decision(finish=state.code)  # the objects are those of the next run
    if plan.clean_pod_policy == "All":
        return Decision(actions=tuple(_deletions(plan, seen)), finish=state.code)
    actions, waiting = [], False
    for item, observed in unfinished(plan.workloads, seen):
        if item.name in plan.deciding and state.code:
            waiting = True
            actions += fail(item, observed)
        elif plan.clean_pod_policy == "Running" and not is_suspended(observed):
            actions.append(_switch(item, observed, on=False))
    if actions or waiting:
        return Decision(actions=tuple(actions))
    owned = () if plan.ttl_seconds is None else tuple(_owned(plan, seen))
    return Decision(actions=owned, finish=state.code)


def _deletions(plan: Plan, seen: Seen) -> Iterator[Action]:
    for kind, name in plan.objects:
        yield Action(kind, name)
    for item in plan.workloads:
        if observed := seen.workloads[item.name]:
            yield Action(item.kind, item.name, uid=observed["metadata"]["uid"])


def _owned(plan: Plan, seen: Seen) -> Iterator[Action]:
    """Yield what makes the supervisor's Job the owner of the set.

    That Job has a time to live; with it the garbage collector deletes what it owns.
    https://kubernetes.io/docs/concepts/architecture/garbage-collection/
    """
    owner = {"apiVersion": "batch/v1", "kind": "Job"}
    owner.update(name=f"{plan.job}-supervisor", uid=plan.run)
    patch, text = {"metadata": {"ownerReferences": [owner]}}, "setting the time to live of"
    for kind, name in plan.objects:
        yield Action(kind, name, patch, text=text)
    for item in plan.workloads:
        observed = seen.workloads[item.name]
        if observed and owner not in observed["metadata"].get("ownerReferences", ()):
            yield _patch(item, observed, patch, text)


def _switch(item: Workload, observed: Object, avoid: str = "", *, on: bool) -> Action:
    """Suspending deletes running pods without counting them as failed, and keeps finished ones."""
    if item.kind == "Job":
        away = elsewhere(observed, avoid.split()) if on else None
        resuming = f"resuming away from {avoid}:" if away else "resuming"
        text = resuming if on else "suspending"
        return replace(_patch(item, observed, {"spec": {"suspend": not on}}, text), more=away)
    replicas = item.replicas if on else 0
    action = _patch(item, observed, {"spec": {"replicas": replicas}}, f"scaling to {replicas}:")
    # Whoever may only scale cannot give the pods another image.
    return replace(action, subresource="scale")


def fail(item: Workload, observed: Object) -> list[Action]:
    """Return how to let the Job controller fail a Job: its deadline is already exceeded.

    A suspended Job has no deadline (pastActiveDeadline in pkg/controller/job/job_controller.go), so
    it is resumed, without pods.
    """
    spec: Object = {"activeDeadlineSeconds": 1}
    if is_suspended(observed):
        spec.update(suspend=False, parallelism=0)
    elif observed["spec"].get("activeDeadlineSeconds") == 1:
        return []
    return [_patch(item, observed, {"spec": spec}, "failing")]


def _patch(item: Workload, observed: Object, body: Object, text: str) -> Action:
    """Return a patch of what was observed, and of nothing newer."""
    metadata = {"resourceVersion": observed["metadata"]["resourceVersion"]}
    metadata.update(body.get("metadata", {}))
    return Action(item.kind, item.name, {**body, "metadata": metadata}, text=text)
