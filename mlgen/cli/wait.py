"""mlgen wait."""

import sys
from typing import Any

import click

from mlgen.cli._cluster import cluster, jobs_in, tell, through_kubectl
from mlgen.cli._options import FILES, read_duration, rendering, reporting, written_options
from mlgen.cli._report import checked, report
from mlgen.live.logs import not_found
from mlgen.live.watch import wait


@click.command("wait")
@FILES
@click.option(
    "--timeout",
    callback=read_duration,
    metavar="DURATION",
    help="Wait no longer than this, such as 90s, 30m, 8h or 1h30m.",
    show_default="no limit",
)
@rendering
@reporting
@through_kubectl
def command(files: tuple[str, ...], *, timeout: float | None, **values: Any) -> None:
    """Wait until the jobs in FILES have ended.

    Print each change of a job's state on stderr.

    Exit status: 0 all jobs have succeeded; 1 to 125 the exit code of the replica that failed first,
    in the first job that failed, or 1 if it is not known or higher; 124 also on --timeout.

    \b
    Examples:
      mlgen wait job.yaml                    # exits as training does
      mlgen wait job.yaml --timeout 8h       # exits with 124 if it takes longer
      mlgen wait jobs/ && mlgen delete jobs/ --yes
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    kubectl = cluster(values)
    jobs = jobs_in(files, values)
    states, status = checked(lambda: wait(kubectl, jobs, tell, timeout))
    options, pairs = written_options(), list(zip(jobs, states, strict=True))
    missing = [(job, each.namespace) for job, each in pairs if each.phase == "NotFound"]
    report(not_found(job, namespace, options) for job, namespace in missing)
    sys.exit(status)
