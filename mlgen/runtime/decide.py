"""Observed objects → the next status, or the next actions. Pure: no clock, no network.

Every decision is stored before it is carried out: one call returns either a new status or actions.
Actions depend only on the stored status and the observed objects, so a new supervisor can continue
after one that died at any point. Each patch contains the resource version of the observed object,
so the API server rejects the patches of a supervisor with stale data.

    Running ─► Stopping ─► BackingOff ─► Starting ─► Running     a restart of the gang
       └──────────┴────────────┴────────────┴──────► Ended       clean up, and finish
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlgen.runtime import gang
from mlgen.runtime import status as job_status
from mlgen.runtime.answers import RECORD, Object
from mlgen.runtime.cluster import (
    ENDS,
    JOB_LIMIT,
    Seen,
    elsewhere,
    ending,
    has_come,
    is_deleted,
    is_held_by_kueue,
    is_live,
    is_suspended,
    pods_of,
    record,
    short_of_pods,
    stuck_at,
    unfinished,
    whole,
)
from mlgen.runtime.failures import failures, first, late, obstacle
from mlgen.runtime.gang import DISRUPTED, ended, forgotten, is_held, is_paused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlgen.runtime.last_log import LastLog
    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

DEADLINE = 124
"""The exit code of a job that exceeded its deadline."""

EARLY = (
    "it exited with 0 on SIGTERM, so its Job is complete and cannot be resumed"
    " (exit with another code on SIGTERM)"
)
"""The reason if a Job is complete because a replica exited with 0 on SIGTERM."""

ACTIVE = ("Starting", "Running")

MISSING_SECONDS = 600.0
"""The longest time in seconds until all of the job's objects are created."""

RELEASE_SECONDS, RELEASE_PERIOD = 300.0, 2.0
"""The longest time in seconds until Kueue releases the pods of a job that has ended, and the time
between two observations. No event shows that the pod has ended which makes Kueue do so."""

POD_SET = "kueue.x-k8s.io/role-hash"
"""The annotation of a pod with its set of pods in the Workload: its role."""

JOB_BACKOFF = 600.0
"""The longest delay in seconds before a Job replaces a failed pod (pkg/controller/job)."""


@dataclass(frozen=True)
class Action:
    """A merge patch of an object, or without a patch, its deletion."""

    kind: str
    name: str
    patch: Object | None = None
    uid: str = ""
    """The UID of the object to delete; "" if unknown."""
    text: str = "deleting"
    subresource: str = ""
    """The subresource to patch: `scale`, or "" for the object."""
    more: Object | None = None
    """Further fields of the spec, which are omitted if the API server rejects them."""


@dataclass(frozen=True)
class Decision:
    """Changes of the status or actions, the time of the next look, and the job's exit code."""

    status: dict[str, str | None] | None = None
    log: LastLog | None = None
    """The log to keep in the status."""
    actions: tuple[Action, ...] = ()
    wake: float | None = None
    finish: int | None = None


def decide(plan: Plan, seen: Seen, now: float) -> Decision:
    """Return the next step. `now` is in seconds since the epoch."""
    known = _known(plan, seen)
    state = advance(plan, seen, known, now)
    changed = job_status.changes(plan, seen, state, now)
    if changed:
        return Decision(status=changed, log=_log(plan, seen, known, state))
    if state.phase == "Ended":
        return _clean(plan, seen, state, now)
    actions, suspends = [], state.phase in ("Stopping", "BackingOff") and not state.in_place
    for item, observed in unfinished(plan.workloads, seen):
        stops = suspends and item in plan.gang
        if stops != is_suspended(observed) and (stops or _is_due(plan, seen, state, item)):
            actions.append(_switch(plan, item, observed, state, on=not stops))
        elif state.phase == "BackingOff" and (patch := forgotten(plan, item, observed)):
            actions.append(_patch(item, observed, patch, "restarting all replicas of"))
    times = [time for time in (state.until, state.settled) if time]
    overdue = list(_overdue(plan, seen))
    actions += [action for action, at in overdue if now > at]
    times += [max(at, now) for _, at in overdue]
    if state.phase == "Stopping":  # no event shows that a pod's node is lost
        times += [at for _, pod in pods_of(plan.gang, seen) if (at := stuck_at(pod)) >= now]
    if plan.deadline_seconds is not None and state.started:
        times.append(state.started + plan.deadline_seconds)
    if plan.pending_seconds:
        times.append(now + plan.pending_seconds)  # no other event may occur before
    times += [due for due, _ in late(plan, seen)]
    if plan.progress:
        from mlgen.runtime import stall

        times += stall.wake(plan, seen, state, now)
    return Decision(actions=tuple(actions), wake=min(times, default=None))


def _log(plan: Plan, seen: Seen, known: State, state: State) -> LastLog | None:
    """Return the log to keep in the status; None if there is none."""
    if not plan.keep_last_log:
        return None
    from mlgen.runtime import last_log

    return last_log.needed(plan, seen, known, state)


def _known(plan: Plan, seen: Seen) -> State:
    """Return the stored state, or if it is lost, the state in the annotations of the Jobs."""
    uid = _uid(plan, seen)
    if job_status.is_stored(seen.status, plan.run, uid):
        return job_status.load(seen.status, plan.run, uid)
    # A role that has ended, such as a preparing one, may have the only record of a restart.
    found = [each for item in plan.gang if (each := seen.workloads[item.name])]
    state = job_status.restored([record(each) for each in found], plan.run)
    stops = any(is_held(each) for _, each in unfinished(plan.gang, seen))
    return replace(state, phase="Stopping" if stops else "Running")


def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state that follows from the observed objects."""
    if state.phase == "Ended":
        return state
    missing, present = _missing(plan, seen), unfinished(plan.workloads, seen)
    watched = plan.pending_seconds and state.phase in (*ACTIVE, "Stopping")
    short = watched and short_of_pods(plan, seen, now)
    runs = not missing and any(not is_suspended(each) for _, each in present)
    stopped = [item for item, each in present if is_paused(plan, state, item, each)]
    paused = state.phase == "Running" and any(item.name in plan.deciding for item in stopped)
    sets = [each for item, each in present if item.kind == "StatefulSet" and not plan.waits(item)]
    serves = runs and not any(map(is_suspended, sets))
    state = replace(
        state,
        uid=state.uid or ("" if missing else _uid(plan, seen)),
        first=state.first or now,
        ahead=state.ahead if seen.ahead is None else seen.ahead,
        started=0.0 if paused else state.started or (now if runs else 0.0),
        served=state.served or serves,
        short=(state.short or now) if short else 0.0,
    )
    for code, reason, message in _ends(plan, seen, state, now):
        return ended(state, now, code, reason, message)
    if missing:
        return state
    state = gang.advance(plan, seen, state, now) if plan.gang else state
    if not plan.progress:
        return state
    from mlgen.runtime import stall

    return stall.advance(plan, seen, state, now)


def _missing(plan: Plan, seen: Seen) -> list[str]:
    """Return the required workloads that do not exist, or are being deleted.

    A Job that a finalizer keeps neither creates pods nor stops when it is suspended (syncJob in
    pkg/controller/job).
    """
    needed = {*plan.deciding, *(item.name for item in plan.gang)}
    found = {name: seen.workloads[name] for name in needed}
    return sorted(name for name, each in found.items() if not each or is_deleted(each))


def _uid(plan: Plan, seen: Seen) -> str:
    """Return the UID of the first deciding Job."""
    observed = seen.workloads[plan.deciding[0]]
    return str(observed["metadata"]["uid"]) if observed else ""


# The end of the job


def _ends(plan: Plan, seen: Seen, state: State, now: float) -> Iterator[tuple[int, str, str]]:
    """Yield an exit code, reason and message for each reason to end. The first one counts."""
    for name, job in seen.taken.items():
        yield 1, "NameCollision", f"{name} exists, and belongs to {job}; choose another name"
    missing, names = _missing(plan, seen), ", ".join(_missing(plan, seen) or plan.deciding)
    if state.uid and (missing or _uid(plan, seen) != state.uid):
        yield 1, "JobDeleted", f"{names} was deleted by another client"
    if missing and now > state.first + MISSING_SECONDS:
        yield 1, "JobNotCreated", f"{names} does not exist after {MISSING_SECONDS:.0f} s"
    yield from ends_of_jobs(plan, seen, state)
    for name, text in seen.refused.items():
        if name not in seen.workloads:
            continue  # a pod with a finalizer
        yield 1, "ChangeRefused", f"{name} cannot be changed: {text}"
    limit = plan.deadline_seconds
    if limit is not None and state.started and now >= state.started + limit:
        yield DEADLINE, "DeadlineExceeded", f"the job ran for more than {limit} s"
    failed = any(each["status"]["failed"] for each in seen.workloads.values() if each)
    bound = plan.pending_seconds + (JOB_BACKOFF if failed else 0.0)
    if state.short and now >= state.short + bound:
        names, waited = ", ".join(short_of_pods(plan, seen, now)), now - state.short
        text = f"pods of {names} could not be created for {waited:.0f} s; see its events"
        yield 1, "PodsNotCreated", f"{text}; limit: runPolicy.giveUpAfter.pendingSeconds"
    blocked = obstacle(plan, seen, now) if state.phase in ACTIVE else None
    if blocked:
        yield blocked
    yield from ((1, "PeerSucceeded", text) for due, text in late(plan, seen) if now >= due)


def ends_of_jobs(plan: Plan, seen: Seen, state: State) -> Iterator[tuple[int, str, str]]:
    """Yield the ends of the job that follow from the ends of its Jobs, like `_ends`."""
    ends = {name: ending(observed) for name, observed in seen.workloads.items()}
    succeeded = [name for name, end in ends.items() if end and ENDS[end["type"]]]
    names = [name for name in plan.deciding if name in succeeded]
    if len(names) == len(plan.deciding) or (names and plan.decides == "any"):
        cause = state.cause if state.phase == "Stopping" else None
        by_policy = any(
            (ends[name] or {"reason": ""})["reason"] == "SuccessPolicy" for name in names
        )
        if cause and cause.is_disruption and not by_policy and _ended_early(plan, seen, names):
            yield DISRUPTED, "EndedEarly", f"{cause.text}; {EARLY}"
        yield 0, "JobSucceeded", f"{', '.join(names)} succeeded"
    waits = plan.decides == "any" and not all(ends[name] for name in plan.deciding)
    for item in plan.workloads:
        end, excused = ends[item.name], item.tolerates_failure
        excused = waits if item.name in plan.deciding else excused
        if end and item.name not in succeeded and not excused:
            # A Job that fails deletes its other pods.
            failure = first(failures(plan, (item,), seen, state.old, state.started))
            code = (failure and failure.code) or DISRUPTED
            reason = end["reason"] or "JobFailed"
            code = DEADLINE if reason == "DeadlineExceeded" else code
            yield code, reason, f"{item.name}: {end['message']}"


def _ended_early(plan: Plan, seen: Seen, names: list[str]) -> bool:
    """Return whether a replica of a complete Job was stopped, because its pod is gone."""
    items = tuple(item for item in plan.jobs if item.name in names)
    pods = [pod for _, pod in pods_of(items, seen) if pod["status"]["phase"] == "Succeeded"]
    found = [each for name in names if (each := seen.workloads[name])]
    wanted: int = sum(each["spec"]["completions"] for each in found)
    return sum(not is_deleted(pod) for pod in pods) < wanted


# Actions


def _overdue(plan: Plan, seen: Seen) -> Iterator[tuple[Action, float]]:
    """Yield the deletion of each terminating pod of a StatefulSet, and when it is due.

    The StatefulSet controller replaces a pod only when it is gone. On a lost node, it stays.
    """
    patience = plan.force_delete_seconds
    for item, pod in pods_of(plan.workloads, seen) if patience else ():
        if item.kind == "StatefulSet" and is_deleted(pod):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            yield Action("Pod", name, uid=uid, text="force deleting"), stuck_at(pod, patience)


def _is_due(plan: Plan, seen: Seen, state: State, item: Workload) -> bool:
    """Return whether a suspended workload must be started now."""
    observed = seen.workloads[item.name]
    if observed and is_paused(plan, state, item, observed):
        return False
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


def _clean(plan: Plan, seen: Seen, state: State, now: float) -> Decision:
    """Return the actions that stop the remaining workloads, or finally the exit code."""
    if state.uid and _uid(plan, seen) not in ("", state.uid):
        return Decision(finish=state.code)  # the objects belong to the next run
    deletes = plan.clean_pod_policy == "All"
    # The pods of a Job run until its last finalizer is gone.
    held = any(each and each["metadata"]["finalizers"] for each in seen.workloads.values())
    stops = _stops(plan, seen, state, now) if plan.release or held or not deletes else None
    if stops:
        return stops
    if deletes:
        return Decision(actions=tuple(_deletions(plan, seen)), finish=state.code)
    owned = () if plan.ttl_seconds is None else tuple(_owned(plan, seen))
    return Decision(actions=owned, finish=state.code)


def _stops(plan: Plan, seen: Seen, state: State, now: float) -> Decision | None:
    """Return the next step until the remaining workloads have stopped, or None."""
    actions, waiting, ends = [], False, plan.clean_pod_policy != "None"
    for item, observed in unfinished(plan.workloads, seen):
        if item.name in seen.refused:
            continue
        if state.code and (item.name in plan.deciding or state.reason == "ChangeRefused"):
            waiting |= item.kind == "Job"
            actions += fail(item, observed)
        elif ends and not is_suspended(observed):
            actions.append(_switch(plan, item, observed, state, on=False))
        elif item in plan.gang and observed["spec"]["backoffLimit"] == JOB_LIMIT:
            # The supervisor no longer counts its failures, so the next one ends it.
            spec = {"spec": {"backoffLimit": observed["status"]["failed"]}}
            actions.append(_patch(item, observed, spec, "limiting the restarts of"))
    if actions or waiting:
        return Decision(actions=tuple(actions))
    is_early = ends and now < state.ended + RELEASE_SECONDS
    return _release(plan, seen, now) if is_early else None


def _release(plan: Plan, seen: Seen, now: float) -> Decision | None:
    """Return the next step until Kueue considers the group of the job's pods as finished, or None.

    Kueue waits for replacements of pods that have not succeeded. The pod of this Job replaces one
    of them, and its annotation says that no other one follows.
    """
    job = seen.workloads.get(plan.release)
    held = [pair for pair in pods_of(plan.workloads, seen) if is_held_by_kueue(pair[1])]
    if not job or ending(job) or not held:
        return None
    wake = Decision(wake=now + RELEASE_PERIOD)
    if not is_suspended(job) or any(is_live(pod, now) for _, pod in held):
        return wake
    roles = [item.role for item, pod in held if pod["status"]["phase"] == "Failed"]
    if not roles:
        return wake  # all have succeeded, or the pods of a queued job have not been removed yet
    annotations = {POD_SET: roles[0]}
    spec = {"suspend": False, "template": {"metadata": {"annotations": annotations}}}
    metadata = {"resourceVersion": job["metadata"]["resourceVersion"]}
    body = {"metadata": metadata, "spec": spec}
    return Decision(actions=(Action("Job", plan.release, body, text="resuming"),))


def _deletions(plan: Plan, seen: Seen) -> Iterator[Action]:
    for kind, name in plan.objects:
        yield Action(kind, name)
    for item in plan.workloads:
        if observed := seen.workloads[item.name]:
            yield Action(item.kind, item.name, uid=observed["metadata"]["uid"])


def _owned(plan: Plan, seen: Seen) -> Iterator[Action]:
    """Yield the patches that make the supervisor's Job the owner of the job's objects.

    That Job has a time to live. The garbage collector then deletes the objects that it owns.
    https://kubernetes.io/docs/concepts/architecture/garbage-collection/
    """
    owner = {"apiVersion": "batch/v1", "kind": "Job"}
    owner.update(name=f"{plan.job}-supervisor", uid=plan.run)
    patch, text = {"metadata": {"ownerReferences": [owner]}}, "setting the time to live of"
    for kind, name in plan.objects:
        yield Action(kind, name, patch, text=text)
    for item in plan.workloads:
        observed = seen.workloads[item.name]
        if (
            observed
            and {"kind": "Job", "uid": plan.run} not in observed["metadata"]["ownerReferences"]
        ):
            yield _patch(item, observed, patch, text)


def _switch(plan: Plan, item: Workload, observed: Object, state: State, *, on: bool) -> Action:
    """Return the action that suspends or resumes a workload.

    Suspending deletes running pods without counting them as failed, and keeps finished ones.
    """
    if item.kind == "Job":
        required = plan.avoid_nodes == "Required"
        away = elsewhere(observed, state.avoid.split(), required=required) if on else None
        resuming = f"resuming away from {state.avoid}:" if away else "resuming"
        body = whole(observed) if on else {}
        annotations = body.get("metadata", {}).get("annotations", {})
        text = replace(state, members=()).text()
        body = {
            "metadata": {"annotations": {**annotations, RECORD: text}},
            "spec": {**body.get("spec", {}), "suspend": not on},
        }
        return replace(_patch(item, observed, body, resuming if on else "suspending"), more=away)
    replicas = item.replicas if on else 0
    action = _patch(item, observed, {"spec": {"replicas": replicas}}, f"scaling to {replicas}:")
    # The permission to scale does not permit changes of the image.
    return replace(action, subresource="scale")


def fail(item: Workload, observed: Object) -> list[Action]:
    """Return the patch that makes the Job controller fail a Job, by an exceeded deadline.

    A suspended Job has no deadline (pastActiveDeadline in pkg/controller/job/job_controller.go), so
    it is resumed, without pods.
    """
    if item.kind != "Job":
        return []
    spec: Object = {"activeDeadlineSeconds": 1}
    if is_suspended(observed):
        spec.update(suspend=False, parallelism=0)
    elif observed["spec"]["activeDeadlineSeconds"] == 1:
        return []
    return [_patch(item, observed, {"spec": spec}, "failing")]


def _patch(item: Workload, observed: Object, body: Object, text: str) -> Action:
    """Return a patch that is rejected if the object has changed since it was observed."""
    metadata = {"resourceVersion": observed["metadata"]["resourceVersion"]}
    metadata.update(body.get("metadata", {}))
    return Action(item.kind, item.name, {**body, "metadata": metadata}, text=text)
