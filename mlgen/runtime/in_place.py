"""Whether a gang can restart in its pods. `gate` shows how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlgen.runtime.cluster import (
    Seen,
    condition,
    counts,
    has_returned,
    is_deleted,
    is_suspended,
    pods_of,
    unfinished,
)
from mlgen.runtime.failures import REJECTION, STALL, is_cut_off

if TYPE_CHECKING:
    from mlgen.runtime.answers import Object
    from mlgen.runtime.plan import Plan, Workload
    from mlgen.runtime.status import State

STOP_SECONDS = 60.0
"""Seconds after which a gang that has not stopped in place is stopped by suspending its Jobs."""


def is_possible(plan: Plan, seen: Seen, state: State) -> bool:
    """Return whether a failed gang can restart in its pods.

    A second failure on a node restarts the gang with new pods, which avoid that node. So does a
    stall after another failure, because the node that causes it is unknown.
    """
    cause = state.cause
    if not cause or cause.is_disruption or cause.kind == REJECTION:
        return False
    again = plan.avoid_nodes and cause.node in state.failed.split()
    again = again or (cause.kind == STALL and state.spent > 0)
    return not again and is_whole(plan, seen, state)


def is_whole(plan: Plan, seen: Seen, state: State) -> bool:
    """Return whether every replica of a gang has a pod whose containers can restart.

    A gang with a failed pod needs new pods. Otherwise, this pod would end each later attempt, too.
    """
    pods = [pod for _, pod in pods_of(plan.gang, seen, state.old)]
    if any(pod["status"]["phase"] == "Failed" for pod in pods):
        return False
    found = unfinished(plan.gang, seen)
    wanted = sum(counts(each)[0] for _, each in found)
    done = sum(int(each["status"]["succeeded"]) for _, each in found)
    return not done and len(_pods(plan, seen, state)) >= wanted


def all_wait(plan: Plan, seen: Seen, state: State) -> bool:
    """Return whether every pod of a gang waits for the next attempt."""
    return all(has_returned(seen, item, pod) for item, pod in _pods(plan, seen, state))


def is_suspended_by_others(plan: Plan, seen: Seen) -> bool:
    """Return whether a user or a queue has suspended a workload of a gang in its pods."""
    found = unfinished(plan.gang, seen)
    return any(is_suspended(each) and not plan.waits(item) for item, each in found)


def _pods(plan: Plan, seen: Seen, state: State) -> list[tuple[Workload, Object]]:
    """Return the pods of a gang that are on their nodes, and not about to end."""
    return [
        (item, pod)
        for item, pod in pods_of(plan.gang, seen, state.old)
        if pod["status"]["phase"] in ("Pending", "Running")
        and not (is_deleted(pod) or condition(pod, "DisruptionTarget") or is_cut_off(pod))
    ]
