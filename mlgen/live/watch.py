"""Look at jobs again and again, until all of them have ended."""

import time
from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from mlgen.live.kubectl import Kubectl, KubectlError
from mlgen.live.snapshot import snapshots
from mlgen.live.state import JobState, state
from mlgen.live.text import line, tables
from mlgen.output.columns import columns
from mlgen.result import Rendered

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PAUSE = 2.0
"""Seconds between two looks at the cluster."""

PATIENCE = 600.0
"""Seconds for which the API server may be unreachable, for example during an upgrade."""

COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "bold red",
    "Restarting": "yellow",
    "Pending": "yellow",
    "Suspended": "yellow",
}

Tell = Callable[[str], None]

T = TypeVar("T")


def states(kubectl: Kubectl, jobs: Sequence[Rendered]) -> list[JobState]:
    """Return the states of jobs.

    Raises:
        KubectlError: kubectl is not installed, or fails.
    """
    return [state(each) for each in snapshots(kubectl, jobs)]


def persistent(look: Callable[[], T], tell: Tell) -> T:
    """Return what a look at the cluster returns; retry while the API server is not reachable.

    Args:
        look: asks the cluster.
        tell: is told once that it does not answer, and once that it does again.
    """
    started, told = time.monotonic(), False
    while True:
        try:
            answer = look()
        except KubectlError as error:
            if error.cause != "unreachable" or time.monotonic() - started > PATIENCE:
                raise
            if not told:
                tell(f"retrying: {error.message}")
                told = True
            sleep(PAUSE)
            continue
        if told:
            tell("the cluster answers again")
        return answer


def looks(kubectl: Kubectl, jobs: Sequence[Rendered], tell: Tell) -> Iterator[list[JobState]]:
    """Yield the states of jobs, again and again, until all have ended or are not there."""
    while True:
        found = persistent(lambda: states(kubectl, jobs), tell)
        yield found
        if all(each.ended or each.phase == "NotFound" for each in found):
            return
        sleep(PAUSE)


def print_changes(found: Iterator[list[JobState]], tell: Tell) -> list[JobState]:
    """Tell each change of a state in a line; return the last states."""
    told: dict[tuple[str, str], str] = {}
    last: list[JobState] = []
    for last in found:
        for each in last:
            key, text = (each.namespace, each.name), line(each)
            if told.get(key) != text:
                told[key] = text
                tell(text)
    return last


def show(found: Iterator[list[JobState]], console: "Console") -> list[JobState]:
    """Show the states as a live table on a terminal; return the last states."""
    from rich.live import Live

    last: list[JobState] = []
    # The last picture stays on the screen, also what of it did not fit before.
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for last in found:
            live.update(picture(last, time.time()), refresh=True)
    return last


def picture(found: Sequence[JobState], now: float) -> "RenderableType":
    """Return the same tables as `status` prints, in colour."""
    from rich.console import Group
    from rich.text import Text

    parts = []
    for each in found:
        for table in tables(each, now):
            text = Text("\n".join(columns(table)), no_wrap=True, overflow="ellipsis")
            text.highlight_regex(r"(?m)\A.*$", "bold")
            for word, colour in COLOURS.items():
                text.highlight_regex(rf"\b{word}\b", colour)
            text.highlight_regex(TROUBLE, "red")
            parts += [text, Text()]
        if each.missing:
            parts += [Text(f"not created: {', '.join(each.missing)}", "yellow"), Text()]
    return Group(*parts[:-1])


TROUBLE = (
    r"\b(\w*BackOff|ErrImagePull|OOMKilled|Unschedulable|Error|Evicted|FailedCreate|Create\w+Error)"
)
"""The reasons that are shown in red."""
