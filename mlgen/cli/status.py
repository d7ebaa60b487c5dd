"""mlgen status."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._cluster import cluster, jobs_in, tell, through_kubectl
from mlgen.cli._options import FILES, rendering, reporting, written_options
from mlgen.cli._report import checked, report, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgen.live.state import JobState
    from mlgen.result import Rendered


@click.command("status")
@FILES
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Show a live table until all jobs have ended; without a terminal, a line for each change.",
)
@rendering
@reporting
@through_kubectl
def command(files: tuple[str, ...], *, watch: bool, **values: Any) -> None:
    """Show the state of the jobs in FILES.

    For each job, print its state and conditions, the replicas of each role, and why pods do not
    run: whom they wait for, what the scheduler or the image's registry says, exit codes. Use the
    options with which the job was rendered.

    Exit status: 0 all jobs are in the cluster; 1 one is not, or kubectl fails. For the outcome of
    training, use `mlgen wait`.

    \b
    Examples:
      mlgen status job.yaml           # conditions, roles, pods that do not run
      mlgen status job.yaml --watch   # until training has ended
      mlgen status jobs/ -n vision    # all jobs in a folder
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    import time

    from mlgen.live import watch as watching

    kubectl = cluster(values)
    jobs = jobs_in(files, values)
    if not watch:
        states = checked(lambda: watching.states(kubectl, jobs))
        present = [each for each in states if each.phase != "NotFound"]
        if present:
            write_page(watching.page(present, time.time()) + "\n")
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        plain = click.get_current_context().meta.get("mlgen.color") == "never"
        screen = watching.Screen(sys.stdout, color=not (plain or os.environ.get("NO_COLOR")))
        looks = watching.looks(kubectl, jobs, screen.tell)
        states = checked(lambda: screen.show(looks))
    else:
        looks = watching.looks(kubectl, jobs, tell)
        states = checked(lambda: watching.print_changes(looks, _print_line))
    _report_missing(jobs, states)


def _print_line(text: str) -> None:
    write_page(f"{text}\n")


def _report_missing(jobs: "Sequence[Rendered]", states: "Sequence[JobState]") -> None:
    """Report the jobs that are not in the cluster, and exit with status 1 if there are some."""
    from mlgen.live.logs import not_found

    options, pairs = written_options(), zip(jobs, states, strict=True)
    missing = [(job, each.namespace) for job, each in pairs if each.phase == "NotFound"]
    report(not_found(job, namespace, options) for job, namespace in missing)
    if missing:
        sys.exit(1)
