"""Bounds on the restarts of a job that contradict each other, or have nothing to bound.

A value that is the default cannot be told from one that is not written, so it never contradicts.
"""

from collections.abc import Iterator

from mlgen.jobfile.model import GANG_BOUNDS, GiveUpAfter, RunPolicy
from mlgen.problems import Problem
from mlgen.topology import Topology

FIELDS = {path[-1]: ("spec", "runPolicy", *path) for path in GANG_BOUNDS}
"""The path of each bound."""


def problems(topology: Topology) -> Iterator[Problem]:
    """Report bounds that never apply."""
    job, policy = topology.job, topology.job.run_policy
    values, defaults = _values(policy), _values(RunPolicy())
    written = {name: value for name, value in values.items() if value != defaults[name]}
    if job.converted or not job.supervisor:
        return
    if any(role.gang for role in topology.roles):
        yield from _contradictions(values, written, policy)
    elif not job.workflow:
        for name in (path[-1] for path in GANG_BOUNDS if path[-1] in written):
            message = f"{name} has no effect without runPolicy.restartScope"
            hint = "remove it, or write restartScope: All"
            yield Problem(FIELDS[name], message, "no-effect", hint, warning=True)


def _values(policy: RunPolicy) -> dict[str, int]:
    """Return the bounds of a job by name."""
    bounds = policy.give_up_after or GiveUpAfter()
    return {
        "startFailures": bounds.start_failures,
        "startSeconds": bounds.start_seconds,
        "disruptions": bounds.disruptions,
        "backoffResetSeconds": policy.backoff_reset_seconds,
    }


def _contradictions(
    values: dict[str, int], written: dict[str, int], policy: RunPolicy
) -> Iterator[Problem]:
    """Report bounds on the restarts of a gang that contradict each other."""
    failures, start, reset = (
        values[name] for name in ("startFailures", "startSeconds", "backoffResetSeconds")
    )
    most = policy.retries + 1
    if "startFailures" in written and failures > most:
        message = f"backoffLimit: {policy.retries} ends the job at failure {most}, which is earlier"
        yield _wrong("startFailures", message, f"write at most {most}, or raise backoffLimit")
    if "startSeconds" in written and not failures:
        message = "startSeconds has no effect with startFailures: 0"
        yield _wrong("startSeconds", message, "remove one of the two")
    elif {"startSeconds", "backoffResetSeconds"} & set(written) and 0 < reset <= start:
        name = "backoffResetSeconds" if "backoffResetSeconds" in written else "startSeconds"
        message = (
            f"failures would stop counting (backoffResetSeconds: {reset}) before the program counts"
            f" as started (startSeconds: {start})"
        )
        yield _wrong(name, message, "write a backoffResetSeconds that is longer than startSeconds")


def _wrong(name: str, message: str, hint: str) -> Problem:
    return Problem(FIELDS[name], message, "combination", hint)
