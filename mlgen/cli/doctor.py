"""mlgen doctor."""

import sys
from typing import Any

import click

from mlgen.cli import _complete
from mlgen.cli._cluster import cluster, jobs_in, through_kubectl
from mlgen.cli._options import SUPERVISOR, rendering, reporting
from mlgen.cli._report import checked, write_page


@click.command("doctor")
@click.argument("files", nargs=-1, metavar="[FILE...]", shell_complete=_complete.files)
@rendering
@reporting
@SUPERVISOR
@through_kubectl
def command(files: tuple[str, ...], **values: Any) -> None:
    """Check that the cluster has what the jobs in FILES need.

    For each job: your rights, also those that its Roles grant; Secrets with their keys, claims,
    classes, queues and schedulers; whether nodes have its GPUs; PodSecurity and quotas of the
    namespace; and what the API server says to a dry run of its objects and pods. Without FILES,
    check versions, and list optional tools. For what is missing, print the command that creates it.
    Nothing in the cluster is changed, and nothing says when there will be room.

    Exit status: 0 nothing is missing; 1 something is, or the input is wrong.

    \b
    Examples:
      mlgen doctor                 # this machine and the cluster
      mlgen doctor job.yaml        # before kubectl apply
      mlgen doctor jobs/ -n vision
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen import __version__
    from mlgen.live.doctor import examine
    from mlgen.live.doctor.report import has_missing, page

    kubectl = cluster(values)
    jobs = jobs_in(files, values) if files else []
    target = values["kube_version"]
    sections = checked(lambda: examine(kubectl, jobs, __version__, target))
    write_page(page(sections))
    if has_missing(sections):
        sys.exit(1)
