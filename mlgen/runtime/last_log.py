"""The last lines of the container that failed first, which the status keeps under `lastLog`.

The pod and its log are often gone a moment later, because a gang stops or a job is cleaned up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mlgen.runtime.cluster import containers, pods_of, replica
from mlgen.runtime.failures import failures, first

if TYPE_CHECKING:
    from mlgen.runtime.cluster import Seen
    from mlgen.runtime.failures import Failure
    from mlgen.runtime.plan import Plan
    from mlgen.runtime.status import State

KEY = "lastLog"

LINES, LENGTH, SIZE = 40, 1000, 8000
"""The limits of the lines, of the characters of a line, and of the bytes in all."""

QUERY = {"tailLines": str(LINES), "limitBytes": str(1 << 20)}
"""The parameters of the request. The kubelet counts the bytes from the first of these lines, so a
lower limit would cut off the last ones. It reads a line of more than 16 KiB as several."""

COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Control sequences of terminals, such as those of colors (ECMA-48)."""


class LastLog(NamedTuple):
    """A log to keep."""

    pod: str
    container: str
    previous: bool
    """True for the run before the last restart of the container."""
    title: str
    """Its replica, pod, exit code, restart and time: the first line in the status."""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the request."""
        query = {"container": self.container, **QUERY}
        return {**query, "previous": "true"} if self.previous else query


def needed(plan: Plan, seen: Seen, before: State, state: State) -> LastLog | None:
    """Return the log to keep when a gang stops or a job fails; None if no container has failed.

    Args:
        plan: the plan of the job.
        seen: the observed objects.
        before: the stored state.
        state: the next state.
    """
    if before.phase == "Ended":
        return None
    known, found = before.cause, state.cause
    if state.phase == "Ended" and state.code and not found:
        items = tuple(item for item in plan.workloads if not item.tolerates_failure)
        found = first(failures(plan, items, seen, state.old, state.started))
    # The cause of a gang that stops may change. Disruptions have no exit code.
    is_new = found and not (known and known.pod == found.pod)
    return _of(plan, seen, state, found) if found and found.code and is_new else None


def _of(plan: Plan, seen: Seen, state: State, failure: Failure) -> LastLog | None:
    init, _, name = failure.pod.rpartition(" of ")
    for item, pod in pods_of(plan.workloads, seen):
        if pod["metadata"]["name"] == name:
            container = init.replace("init container ", "") or item.container
            ran = [each for each in containers(pod) if each["name"] == container]
            previous = any(
                "terminated" in each["lastState"] and "terminated" not in each["state"]
                for each in ran
            )
            title = f"{replica(plan.job, item, pod)}, {failure.pod}, exit code {failure.code}"
            title += f", after {state.attempt} restarts, {failure.time}"
            return LastLog(name, container, previous, title)
    return None


def text(log: LastLog, answer: bytes) -> str:
    """Return the text for the status: the title, and the last lines of a log."""
    lines = COLORS.sub("", answer.decode(errors="replace")).rstrip().split("\n")
    shown = [_printable(line) for line in lines[-LINES:]]
    while len("\n".join(shown).encode()) > SIZE:
        del shown[0]
    return "\n".join([log.title, *shown])


def _printable(line: str) -> str:
    """Return a line as a terminal shows it, cut. A progress bar returns to the start of its line.

    kubectl prints a ConfigMap with tabs or spaces at the end of a line as one long line.
    """
    line = line.rstrip().rpartition("\r")[2].expandtabs(4)
    line = line if len(line) <= LENGTH else f"{line[: LENGTH - 1]}…"
    return line if line.isprintable() else "".join(c if c.isprintable() else "�" for c in line)
