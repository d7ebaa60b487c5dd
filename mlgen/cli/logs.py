"""mlgen logs."""

from typing import Any

import click

from mlgen.cli import _complete
from mlgen.cli._cluster import cluster, jobs_in, tell, through_kubectl
from mlgen.cli._options import rendering, reporting, written_options
from mlgen.cli._report import checked
from mlgen.live import replicas
from mlgen.live.logs import Follower, Request, print_log


@click.command("logs")
@click.argument("file", shell_complete=_complete.files)
@click.option("--job", help="Select this job, if FILE has several.")
@click.option(
    "--rank", type=click.IntRange(min=0), help="Print the log of the replica with this rank."
)
@click.option(
    "--role", shell_complete=_complete.roles, help="Print the log of a replica of this role."
)
@click.option(
    "--index",
    type=click.IntRange(min=0),
    help="Select the replica of --role by its index; by default the first, 0.",
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print new lines until the replica or training has ended, also after restarts in a new"
    " pod. Print on stderr what a pod waits for.",
)
@click.option(
    "-p",
    "--previous",
    is_flag=True,
    help="Print the log before the last restart, of the container or in an earlier pod.",
)
@click.option(
    "-c",
    "--container",
    default="",
    help="Print the log of this container; by default the training container.",
)
@click.option(
    "--tail", type=click.IntRange(min=0), default=None, help="Print only this many last lines."
)
@rendering
@reporting
@through_kubectl
def command(  # noqa: PLR0913 - one for each option
    file: str,
    *,
    job: str | None,
    rank: int | None,
    role: str | None,
    index: int | None,
    follow: bool,
    previous: bool,
    container: str,
    tail: int | None,
    **values: Any,
) -> None:
    """Print the logs of a replica.

    By default, that of rank 0, or of the replica that decides when training has ended: the chief,
    the launcher, worker 0. --rank is the rank of a pod: with torchrun, its log has the output of
    all of its processes.

    \b
    Examples:
      mlgen logs job.yaml --follow                 # rank 0, until training has ended
      mlgen logs job.yaml --rank 3                 # another rank
      mlgen logs job.yaml --role worker --index 3  # a replica of a role
      mlgen logs job.yaml --rank 3 --previous      # before it was restarted
      mlgen logs job.yaml -c wait-for-peers        # whom it waits for
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if rank is not None and (role or index is not None):
        raise click.UsageError("--rank and --role are mutually exclusive")
    if index is not None and not role:
        raise click.UsageError("--index needs --role")
    if follow and previous:
        raise click.UsageError("--follow and --previous are mutually exclusive")
    kubectl = cluster(values)
    jobs = jobs_in([file], values)
    rendered = checked(lambda: replicas.select(jobs, job))
    replica = checked(lambda: replicas.find(rendered, rank, role, index))
    lines, options = -1 if tail is None else tail, tuple(written_options())
    request = Request(rendered, replica, container, previous, lines, options)
    if follow:
        checked(Follower(kubectl, request, click.echo, tell).run)
    else:
        checked(lambda: print_log(kubectl, request, click.echo))
