"""States of jobs → plain columns, as kubectl prints them, and lines of what has changed."""

from collections.abc import Sequence

from mlgen.live.state import JobState
from mlgen.output.columns import columns

MAX_TROUBLES = 20
"""The number of rows for pods that do not run."""

MINUTE, HOUR, DAY = 60, 3600, 86400

Table = tuple[tuple[str, ...], ...]
"""Rows of cells; the first row is the header."""


def age(seconds: float) -> str:
    """Return a duration as kubectl's AGE column: `45s`, `3m12s`, `5h7m`, `12d`.

    https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/util/duration/duration.go
    """
    whole = int(max(seconds, 0))
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 3 * HOUR:
        return _two(whole, MINUTE, "m", 1, "s") if whole < 10 * MINUTE else f"{whole // MINUTE}m"
    if whole < 2 * DAY:
        return _two(whole, HOUR, "h", MINUTE, "m") if whole < 8 * HOUR else f"{whole // HOUR}h"
    return f"{whole // DAY}d"


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_name}" + (f"{rest}{small_name}" if rest else "")


def tables(state: JobState, now: float) -> list[Table]:
    """Return the tables of a job: itself, its conditions, its roles, the pods that do not run."""
    found = [_job(state, now)]
    if state.conditions:
        found.append(_conditions(state, now))
    if state.roles:
        found.append(_roles(state))
    if state.troubles:
        found.append(_troubles(state))
    return found


def page(states: Sequence[JobState], now: float) -> str:
    """Return what `mlgen status` prints of the jobs that exist."""
    parts = []
    for state in states:
        parts += ["\n".join(columns(table)) for table in tables(state, now)]
        if state.missing:
            parts.append(f"not created: {', '.join(state.missing)}")
    return "\n\n".join(parts)


def _job(state: JobState, now: float) -> Table:
    since = age(now - state.since) if state.since else "-"
    created = age(now - state.created) if state.created else "-"
    cells = [
        ("JOB", state.name),
        ("NAMESPACE", state.namespace or "-"),
        ("STATE", state.phase),
        ("FOR", since),
        ("AGE", created),
        ("RESTARTS", str(state.restarts)),
    ]
    if state.message:
        cells.append(("MESSAGE", state.message))
    header, row = zip(*cells, strict=True)
    return header, row


def _conditions(state: JobState, now: float) -> Table:
    rows = [
        (each.name, each.status, age(now - each.time), each.reason, each.message)
        for each in state.conditions
    ]
    return ("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"), *rows


def _roles(state: JobState) -> Table:
    rows = [
        (
            role.name,
            role.kind,
            f"{role.ready}/{role.desired}",
            str(role.succeeded),
            str(role.failed),
            str(role.restarts),
            role.does,
        )
        for role in state.roles
    ]
    return ("ROLE", "KIND", "READY", "SUCCEEDED", "FAILED", "RESTARTS", "PODS"), *rows


def _troubles(state: JobState) -> Table:
    shown = state.troubles[:MAX_TROUBLES]
    rows = [
        (each.replicas, each.pod or "-", each.reason.word, each.reason.message or "-")
        for each in shown
    ]
    left = len(state.troubles) - len(shown)
    if left:
        rows.append((f"and {left} more", "-", "-", "-"))
    return ("REPLICA", "POD", "REASON", "MESSAGE"), *rows


def line(state: JobState) -> str:
    """Return a state in one line, without times, so that it differs only if something changes."""
    parts = [f"{state.name}: {state.phase}"]
    if state.message:
        parts.append(state.message)
    if not state.ended:
        parts += [f"{role.name} {role.ready}/{role.desired} ready" for role in state.roles]
        for each in state.troubles[:1]:
            detail = f": {each.reason.message}" if each.reason.message else ""
            parts.append(f"{each.replicas} {each.reason.word}{detail}")
    return ", ".join(parts)
