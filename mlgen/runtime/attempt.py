"""The decisions of a step of Argo Workflows, as pure functions like `decide`.

Argo restarts the job by another attempt, which creates all workloads again, so the supervisor has
no gang. The phases of the status are

    Running ─► Stopping ─► BackingOff ─► Running     another attempt
       └──────────┴────────────┴───────► Ended       over
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlgen.runtime import status
from mlgen.runtime.cluster import (
    ENDS,
    Seen,
    condition,
    counts,
    ending,
    is_live,
    is_suspended,
    pods_of,
    stuck_at,
    told_at,
    unfinished,
)
from mlgen.runtime.decide import Decision, advance, decide, ends_of_jobs, fail
from mlgen.runtime.failures import DISRUPTION, Failure, failures, first
from mlgen.runtime.gang import DISRUPTED, ended, forgiven, judged
from mlgen.runtime.times import seconds

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

FAILURES = tuple(name for name, succeeded in ENDS.items() if not succeeded)
FAILED = ("BackoffLimitExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded")
"""Reasons of a Job whose replicas failed (staging/src/k8s.io/api/batch/v1/types.go)."""

STOPPED = "JobStopped"


def attempt(plan: Plan, seen: Seen, now: float) -> Decision:
    """Return the next step of an attempt, which finishes once its outcome is known."""
    state = status.load(seen.status, plan.run)
    if state.phase in ("BackingOff", "Ended"):
        return Decision(finish=exit_code(state))
    if state.phase == "Running":
        state = advance(plan, seen, _watched(plan, seen, state, now), now)
        if state.phase == "Ended" and state.reason in FAILED:
            state = replace(state, phase="Stopping", ended=0.0, code=0, reason="", message="")
    if state.phase == "Stopping":
        state = _stopping(plan, seen, state, now)
    changed = status.changes(plan, seen, state, now)
    if changed:
        return Decision(status=changed)
    if state.phase != "Stopping":
        return decide(plan, seen, now)
    members = _members(plan, seen)
    actions = [action for pair in unfinished(members, seen) for action in fail(*pair)]
    times = [at for _, pod in pods_of(members, seen) if (at := stuck_at(pod)) >= now]
    return Decision(actions=tuple(actions), wake=min(times, default=None))


def exit_code(state: State) -> int:
    """Return the exit code of an attempt that is over."""
    if state.phase == "Ended":
        return state.code
    return (state.cause and state.cause.code) or DISRUPTED


def _watched(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a running attempt, with data that is lost when it fails.

    The data are the time since when all replicas run, and the exit of a container that was
    restarted in place, because its pod is deleted when the Job fails.
    """
    every = [pod for _, pod in pods_of(plan.workloads, seen)]
    pods = [pod for pod in every if pod["status"]["phase"] == "Running"]
    found = unfinished(plan.workloads, seen)
    wanted = sum(counts(each)[0] - each["status"]["succeeded"] for _, each in found)
    since = (state.running or now) if wanted and len(pods) >= wanted else 0.0
    state = forgiven(plan, replace(state, running=since), now)
    restarts = failures(plan, plan.jobs, replace(seen, pods=pods), (), now)
    cause = max(restarts, key=lambda each: each.time, default=state.cause)
    return replace(state, cause=cause)


def _members(plan: Plan, seen: Seen) -> tuple[Workload, ...]:
    """Return the Jobs that end together when one of them fails."""
    return tuple(
        item for item in plan.jobs if not item.tolerates_failure and item.name not in seen.refused
    )


def _stopping(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of a failed attempt, which is judged when all pods have ended."""
    code, reason, text = next(ends_of_jobs(plan, seen, state), (1, "", ""))
    if code == 0:
        return ended(state, now, code, reason, text)
    if any(is_live(pod, now) for _, pod in pods_of(_members(plan, seen), seen)):
        return state
    return judged(plan, replace(state, cause=_cause(plan, seen, state, now)), now)


def _cause(plan: Plan, seen: Seen, state: State, now: float) -> Failure | None:
    """Return why the Jobs of an attempt have failed.

    A Job that fails deletes its other pods. Pods whose deletion began earlier were deleted by
    another client. A Job that failed without a failed container has lost a pod.
    """
    failed = {item: at for item in _members(plan, seen) if (at := _failed_at(seen, item))}
    first_end = min(failed.values(), default=float("inf"))
    early = replace(seen, pods=[pod for pod in seen.pods if told_at(pod) < first_end])
    late = replace(seen, pods=[pod for pod in seen.pods if told_at(pod) >= first_end])
    found: list[Failure] = []
    for item in plan.workloads:
        own = [*failures(plan, (item,), early), *failures(plan, (item,), late, (), now)]
        if item not in failed:  # ignore failures that the Job has retried itself
            found += [each for each in own if each.kind == DISRUPTION]
        elif own:
            found += own
        elif state.cause and f"{item.name}-" in state.cause.pod:
            found.append(state.cause)
        else:
            pod = f"a pod of {item.name}"
            found.append(Failure("", 0, "Deleted", pod, retryable=True, kind=DISRUPTION))
    return first(found)


def _failed_at(seen: Seen, job: Workload) -> float:
    """Return when the replicas of a Job failed; 0 if they have not.

    The condition FailureTarget is set first, and Failed when the pods have ended.
    """
    observed = seen.workloads[job.name]
    conditions = (condition(observed, name) for name in FAILURES) if observed else ()
    found = [each for each in conditions if each and each["reason"] in FAILED]
    return min((seconds(each["lastTransitionTime"]) for each in found), default=0.0)


def last(plan: Plan, seen: Seen, now: float, outcome: str) -> Decision:
    """Return the next step of the exit hook, after the step ended with an outcome."""
    state = status.load(seen.status, plan.run)
    if state.phase != "Ended":
        text = f"the step ended ({outcome}) before training finished"
        state = replace(state, phase="Ended", code=DISRUPTED, reason=STOPPED, message=text)
    if state.first or not state.ended:
        # A state without `first` marks the run as over: `argo retry` starts a new attempt.
        state = replace(state, first=0.0, ended=state.ended or now)
        return Decision(status=status.changes(plan, seen, state, now))
    policy = plan.clean_pod_policy
    if state.reason == STOPPED and policy == "None":
        policy = "Running"  # None keeps the pods of a finished job, but a stopped one must not run
    if policy != "None":
        seen = _freed(seen)
    found = [each for each in seen.workloads.values() if each and not ending(each)]
    if state.reason == STOPPED and policy == "Running" and all(map(is_suspended, found)):
        changed = status.changes(plan, seen, state, now)
        return Decision(status=changed) if changed else Decision(finish=0)
    decision = decide(plan._replace(clean_pod_policy=policy), seen, now)
    return decision if decision.finish is None else replace(decision, finish=0)


def _freed(seen: Seen) -> Seen:
    """Return the observed objects with all counts of running pods set to 0, for the status."""
    workloads = dict(seen.workloads)
    for name, observed in workloads.items():
        if observed:
            none = dict.fromkeys(("active", "ready", "replicas"), 0)
            workloads[name] = {**observed, "status": {**observed["status"], **none}}
    return replace(seen, workloads=workloads)
