"""Poll jobs until they have ended: `mlgen status` and `mlgen wait`.

States are printed as columns, like kubectl's, or as one line for each change.
"""

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from time import sleep
from typing import Any, Protocol, TextIO, TypeVar

from mlgen.live.job import LiveJob
from mlgen.live.kubectl import ClusterError, Kubectl
from mlgen.live.state import JobState, ProgressState, Snapshot, StuckPods, snapshots, state
from mlgen.output.terminal import columns, safe
from mlgen.runtime.times import stamp

PAUSE = 2.0
"""Seconds between two reads of the cluster."""

PATIENCE = 600.0
"""Longest time in seconds that the API server may be unreachable, as in an upgrade."""

TIMED_OUT = 124
"""Exit status after a timeout, as in timeout(1)."""

MAX_METRICS = 3
"""Limit of metrics in a table. JSON contains all."""

MAX_STUCK = 20
"""Limit of rows for pods that do not run."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

AGES = ((120, "s"), (600, "ms"), (10800, "m"), (28800, "hm"), (172800, "h"), (math.inf, "d"))
"""Upper bounds in seconds, and the units for durations below them."""

COLORS = {
    r"\b(?:Running|Succeeded)\b": "32",
    r"\b(?:Restarting|Stalled|Pending|Suspended|not created)\b": "33",
    r"\b(?:\w*BackOff|ErrImagePull|OOMKilled|Unschedulable|Error|Evicted|FailedCreate"
    r"|Create\w+Error)\b": "31",
    r"\bFailed\b": "1;31",
}
"""Patterns and their terminal colors (ECMA-48, "Select Graphic Rendition")."""

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

Tell = Callable[[str], None]

T = TypeVar("T")


class _Named(Protocol):
    """A state of a job, or a job in a list."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


Job = TypeVar("Job", bound=_Named)


def states(kubectl: Kubectl, jobs: Sequence[LiveJob]) -> list[JobState]:
    """Return the states of jobs.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    return [state(each) for each in snapshots(kubectl, jobs, again=False)]


def patient_snapshots(kubectl: Kubectl, jobs: Sequence[LiveJob], tell: Tell) -> list[Snapshot]:
    """Return the snapshots of jobs, as `patiently` does."""
    return patiently(kubectl, lambda: snapshots(kubectl, jobs), tell)


def patiently(kubectl: Kubectl, read: Callable[[], T], tell: Tell) -> T:
    """Return what is read. Retry while the API server is unreachable, until the deadline.

    Args:
        kubectl: reads the cluster.
        read: reads it once.
        tell: prints one line when the cluster becomes unreachable, and one when it responds again.
    """
    started, told = time.monotonic(), False
    while True:
        try:
            found = read()
        except ClusterError as error:
            is_over = not kubectl.left or time.monotonic() - started > PATIENCE
            if error.cause != "unreachable" or is_over:
                raise
            if not told:
                tell(f"retrying: {error.message}")
                told = True
            sleep(min(PAUSE, kubectl.left))
            continue
        if told:
            tell("the API server is reachable again")
        return found


def poll(
    kubectl: Kubectl, jobs: Sequence[LiveJob], tell: Tell, timeout: float | None = None
) -> Iterator[list[JobState]]:
    """Poll and yield the states of jobs until each has ended or does not exist, or the deadline.

    Args:
        kubectl: reads the cluster.
        jobs: the jobs to read.
        tell: prints a line if the cluster does not respond.
        timeout: seconds after which polling ends; None for no limit.
    """
    if timeout is not None:
        kubectl = replace(kubectl, deadline=time.monotonic() + timeout)
    while True:
        try:
            found = [state(each) for each in patient_snapshots(kubectl, jobs, tell)]
        except ClusterError as error:
            if error.cause != "unreachable" or kubectl.left:
                raise
            tell(error.message)
            return
        yield found
        if all(each.is_over for each in found) or not kubectl.left:
            return
        sleep(min(PAUSE, kubectl.left))


def print_changes(found: Iterator[list[Job]], tell: Tell, line: Callable[[Job], str]) -> list[Job]:
    """Print the line of each job that has changed, and return the last states."""
    told: dict[tuple[str, str], str] = {}
    last: list[Job] = []
    for last in found:
        texts = {(each.namespace, each.name): line(each) for each in last}
        for key, text in texts.items():
            if text != told.get(key):
                tell(text)
        told = texts
    return last


def wait(
    found: Iterator[list[JobState]], jobs: Sequence[str], tell: Tell
) -> tuple[list[JobState], int]:
    """Wait until jobs have ended, and return their states ([] if unknown) and the exit status.

    The status is 0 if all have succeeded, and 124 after a timeout. Otherwise, it is the status of
    the first job that has not succeeded: the exit code of its first failed replica, or 1.

    Args:
        found: the states, as `poll` yields them.
        jobs: the names of the jobs, for a message.
        tell: prints a line for each change.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    last = print_changes(found, tell, line)
    unsuccessful = [each for each in last if each.phase != "Succeeded"]
    over = [each for each in unsuccessful if each.is_over]
    if over:
        return last, over[0].exit_status
    names = [each.name for each in unsuccessful] if last else [*jobs]
    if names:
        tell(f"timed out; not finished: {', '.join(names)}")
    return last, TIMED_OUT if names else 0


class Screen:
    """A terminal that redraws the states of jobs in place.

    Attributes:
        stream: the terminal.
        page: returns the text to show for jobs at a time.
        color: True to use colors.
    """

    def __init__(self, stream: TextIO, page: Callable[[Any, float], str], *, color: bool) -> None:
        self.stream, self.page, self.color = stream, page, color
        self._lines = 0

    def show(self, found: Iterator[list[T]]) -> list[T]:
        """Show each list of states, and return the last one."""
        last: list[T] = []
        self._write(HIDE_CURSOR)
        try:
            for last in found:
                size = shutil.get_terminal_size()
                text = self.page(last, time.time())
                lines = [_cropped(each, size.columns) for each in text.split("\n")]
                fits = len(lines) < size.lines
                self._draw(lines if fits else [*lines[: size.lines - 2], "…"])
            # The last states stay on the screen in full, even if they do not fit.
            self._draw(self.page(last, time.time()).split("\n"))
        finally:
            self._write(SHOW_CURSOR)
        return last

    def tell(self, text: str) -> None:
        """Show a line below the states until the next redraw."""
        self._write(f"{_cropped(safe(text), shutil.get_terminal_size().columns)}\n")
        self._lines += 1

    def _draw(self, lines: Sequence[str]) -> None:
        """Overwrite the lines that were written before."""
        up = f"\x1b[{self._lines}A" if self._lines else ""
        shown = lines
        if self.color:
            # A table begins with its header, and ends with an empty line.
            pairs = zip(["", *lines], lines, strict=False)
            shown = [_colored(line, header=not before) for before, line in pairs]
        self._write(f"{up}\x1b[J" + "".join(f"{line}\n" for line in shown))
        self._lines = len(lines)

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def _cropped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _colored(line: str, *, header: bool) -> str:
    if header and not line.startswith("not created"):
        return f"{BOLD}{line}{PLAIN}"
    for pattern, code in COLORS.items():
        line = re.sub(pattern, f"\x1b[{code}m\\g<0>{PLAIN}", line)
    return line


def age(seconds: float) -> str:
    """Return a duration in the format of kubectl's AGE column: `45s`, `3m12s`, `5h7m`, `12d`.

    https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/util/duration/duration.go
    """
    rest = int(max(seconds, 0))
    units = next(units for most, units in AGES if rest < most)
    parts: list[str] = []
    for unit in units:
        count, rest = divmod(rest, UNITS[unit])
        if count or not parts:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def tables(state: JobState, now: float) -> Iterator[list[str]]:
    """Yield the tables of a job: summary, conditions, roles, and pods that do not run."""
    job: dict[str, object] = {
        "job": state.name,
        "namespace": state.namespace,
        "state": state.phase,
        "for": state.since,
        "age": state.created,
        "restarts": state.restarts,
    }
    yield table([job | ({"message": state.message} if state.message else {})], now)
    if state.progress:
        yield table([_progress(state.progress)], now)
    left = len(state.stuck) - MAX_STUCK
    more = [StuckPods(f"and {left} more", "", "", "")] if left > 0 else []
    for rows in (state.conditions, state.roles, (*state.stuck[:MAX_STUCK], *more)):
        if rows:
            yield table([row._asdict() for row in rows], now)


def _progress(progress: ProgressState) -> dict[str, object]:
    """Return the cells of the progress of a job."""
    metrics = [f"{name}={value}" for name, value in progress.metrics[:MAX_METRICS]]
    return progress._asdict() | {
        "progress": "-" if progress.progress is None else f"{progress.progress}%",
        "left": "-" if progress.left is None else age(progress.left),
        "metrics": " ".join(metrics),
    }


def documents(states: Sequence[Any]) -> list[dict[str, object]]:
    """Return the states of jobs for JSON, with times as in the API of Kubernetes."""
    return [_document(asdict(each)) for each in states]


def _document(values: Mapping[str, object]) -> dict[str, object]:
    """Return a mapping for JSON: times as text, rows and metrics as mappings."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, float):
            found[name] = stamp(value) if value else None
        elif name == "metrics" and isinstance(value, tuple):
            found[name] = dict(value)
        elif isinstance(value, tuple) and hasattr(value, "_asdict"):
            found[name] = _document(value._asdict())
        elif isinstance(value, tuple):
            found[name] = [
                _document(each._asdict()) if hasattr(each, "_asdict") else each for each in value
            ]
        else:
            found[name] = value
    return found


def table(rows: Sequence[Mapping[str, object]], now: float) -> list[str]:
    """Return the lines of a table, with ages for times and `-` for unknown values."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return age(now - value) if value else "-"
        return str(value) or "-"

    names = [name.upper() for name in rows[0]]
    return columns([names, *(list(map(cell, row.values())) for row in rows)])


def page(states: Sequence[JobState], now: float) -> str:
    """Return the output of `mlgen status` for existing jobs."""
    parts = []
    for each in states:
        parts += ["\n".join(table) for table in tables(each, now)]
        if each.missing:
            parts.append(f"not created: {', '.join(map(safe, each.missing))}")
        if each.log and each.phase in ("Restarting", "Failed"):
            title = f"last lines of {each.log.replica} ({each.log.pod}, exit code {each.log.code}):"
            lines = [f"  {safe(text)}" for text in each.log.lines or ["(none)"]]
            parts.append("\n".join([safe(title), *lines]))
    return "\n\n".join(parts)


def line(state: JobState) -> str:
    """Return a state in one line, without times, so that lines differ only after a change.

    Progress is rounded down to 10 %.
    """
    parts = [f"{state.name}: {state.phase}"]
    if state.message:
        parts.append(state.message)
    if not state.ended:
        parts += [f"{role.role} {role.ready} ready" for role in state.roles]
        if state.progress and state.progress.progress is not None:
            parts.append(f"{state.progress.progress // 10 * 10}% done")
        for each in state.stuck[:1]:
            parts.append(": ".join(filter(None, (f"{each.replica} {each.reason}", each.message))))
    return ", ".join(parts)
