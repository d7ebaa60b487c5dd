"""mlgen show."""

from typing import Any

import click

from mlgen import show
from mlgen.cli._options import FILES, SUPERVISOR, TARGET, rendering, reporting
from mlgen.cli._report import rendered, write_page


@click.command("show")
@FILES
@rendering
@reporting
@SUPERVISOR
@TARGET
@click.option(
    "--replica",
    metavar="ROLE-INDEX",
    help="Show the pod of one replica, such as worker-3: its address, ports, command, environment"
    " and volumes.",
)
@click.option(
    "--defaults",
    is_flag=True,
    help="Print the whole job file, with each default filled in and where it comes from.",
)
def command(files: tuple[str, ...], replica: str | None, defaults: bool, **values: Any) -> None:  # noqa: FBT001 - click's signature
    """Describe the jobs in FILES.

    For each job, print its roles with their resources, when it ends, what each exit code leads to,
    what happens after training, what the supervisor decides, what the job needs that is not in
    FILES, and the PodSecurity level that its pods meet.

    \b
    Examples:
      mlgen show job.yaml                      # the page of a job
      mlgen show job.yaml --replica worker-3   # the environment of one pod
      mlgen show job.yaml --defaults           # the job file with all defaults
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if replica and defaults:
        raise click.UsageError("--replica and --defaults are mutually exclusive")
    jobs = rendered(files, values, totals=False).jobs
    try:
        text = show.text(jobs, replica=replica, defaults=defaults)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    write_page(text)
