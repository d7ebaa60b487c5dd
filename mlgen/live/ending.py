"""Wait until jobs have ended; what a shell learns of it."""

import time
from collections.abc import Iterator, Sequence

from mlgen.live.kubectl import Kubectl
from mlgen.live.state import JobState
from mlgen.live.watch import Tell, looks, print_changes
from mlgen.result import Rendered

TIMED_OUT = 124
"""As in timeout(1)."""


def wait(
    kubectl: Kubectl,
    jobs: Sequence[Rendered],
    tell: Tell,
    timeout: float | None = None,
) -> tuple[list[JobState], int]:
    """Wait until jobs have ended; return their states and the exit status.

    The status is 0 if all have succeeded, 124 if the time is over first, or else that of the first
    job that has not succeeded: the exit code of its replica that failed first, or 1.

    Args:
        kubectl: reads the cluster.
        jobs: to wait for.
        tell: prints a line for each change.
        timeout: seconds; None for no limit.

    Raises:
        KubectlError: kubectl is not installed, or fails.
    """
    deadline = None if timeout is None else time.monotonic() + timeout

    def in_time() -> Iterator[list[JobState]]:
        for states in looks(kubectl, jobs, tell):
            yield states
            if deadline is not None and time.monotonic() >= deadline:
                return

    last = print_changes(in_time(), tell)
    unsuccessful = [each for each in last if each.phase != "Succeeded"]
    over = [each for each in unsuccessful if each.ended or each.phase == "NotFound"]
    if over:
        return last, over[0].exit_status
    if unsuccessful:
        names = ", ".join(each.name for each in unsuccessful)
        tell(f"timed out: {names} has not ended")
    return last, TIMED_OUT if unsuccessful else 0
