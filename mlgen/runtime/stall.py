"""The detection of stalled training: all replicas run, but none of them reports progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlgen.runtime import gang
from mlgen.runtime import status as job_status
from mlgen.runtime.cluster import Seen, unfinished
from mlgen.runtime.failures import STALL, Failure
from mlgen.runtime.progress import KEY, Progress, current, load, silence, updated
from mlgen.runtime.times import stamp

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan
    from mlgen.runtime.status import State


def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state with the start of a stall, or with the restart of a stalled gang."""
    if not plan.gang:
        running = state.phase == "Running" and job_status.is_running(plan, seen)
        state = replace(state, running=(state.running or now) if running else 0.0)
    found = current(seen.progress, seen.status, state.attempt)
    due = _deadline(plan, seen, state, found)
    if not found.since:
        return state
    if due is None or (state.stalled and found.last > state.stalled):
        return replace(state, stalled=0.0)
    if state.stalled or now < due:
        return state
    stalled = replace(state, stalled=now)
    earlier = load(seen.status.get(KEY))
    is_mute = not (found.last or (earlier and earlier.last))
    if not plan.restart_stalled or not plan.gang or (is_mute and state.mute):
        return stalled
    # Time without reports is not healthy running, after which earlier failures do not count.
    state = gang.forgiven(plan, replace(state, mute=state.mute or is_mute), _base(state, found))
    cause = Failure(stamp(now), 0, silence(plan, found, again=False), "", True, kind=STALL)  # noqa: FBT003
    state = gang.stopping(plan, seen, state, cause, now)
    return stalled if state.phase == "Ended" else state  # it cannot restart


def _deadline(plan: Plan, seen: Seen, state: State, found: Progress) -> float | None:
    """Return when training counts as stalled; None if it cannot be stalled now."""
    limit = plan.stalled_seconds if found.last else plan.first_report_seconds
    runs = state.phase == "Running" and state.running and found.since
    return _base(state, found) + limit if runs and limit and not _is_ending(plan, seen) else None


def wake(plan: Plan, seen: Seen, state: State, now: float) -> list[float]:
    """Return the times at which the supervisor must look again."""
    found = current(seen.progress, seen.status, state.attempt)
    stored = updated(seen.progress, seen.status, state.attempt, now)
    times = [_deadline(plan, seen, state, found), stored[1]]
    return [each for each in times if each and each > now]


def _base(state: State, found: Progress) -> float:
    """Return since when silence counts."""
    return max(state.running, found.last, found.since, found.quiet)


def _is_ending(plan: Plan, seen: Seen) -> bool:
    """Return whether a replica has succeeded, after which the others may end without a report.

    Roles that other roles wait for end before training.
    """
    prepared = {order.of for order in plan.order if order.until == "Complete"}
    left = [item for item, _ in unfinished(plan.workloads, seen)]
    return any(
        observed["status"]["succeeded"]
        for item in plan.workloads
        if (observed := seen.workloads[item.name]) and item.kind == "Job"
        if item.role not in prepared or item in left
    )
