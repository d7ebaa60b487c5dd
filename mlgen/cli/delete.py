"""mlgen delete."""

import sys
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._cluster import cluster, jobs_in, tell, through_kubectl
from mlgen.cli._options import FILES, SUPERVISOR, rendering, reporting
from mlgen.cli._report import checked, write_page
from mlgen.live.delete import delete, deletion, named

if TYPE_CHECKING:
    from mlgen.live.delete import Deletion


@click.command("delete")
@FILES
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@click.option(
    "--claims", is_flag=True, help="Delete the claims of the jobs too, with the data in them."
)
@rendering
@reporting
@SUPERVISOR
@through_kubectl
def command(
    files: tuple[str, ...], *, yes: bool, dry_run: bool, claims: bool, **values: Any
) -> None:
    """Delete the objects of the jobs in FILES.

    These are the rendered objects, and the record of how the job has ended; claims and other
    objects in FILES are kept. An object of the same name that is not of the job is kept too. Wait
    until the pods have ended. Without a terminal, --yes is required.

    \b
    Examples:
      mlgen delete job.yaml             # lists the objects, and asks
      mlgen delete job.yaml --yes       # in a script
      mlgen delete job.yaml --dry-run   # only lists the objects
      mlgen delete job.yaml --claims    # with the data in the claims of the job
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    kubectl = cluster(values)
    if not (yes or dry_run or is_terminal()):
        raise click.UsageError("not a terminal; add --yes or --dry-run")
    if "-" in files and not (yes or dry_run):
        raise click.UsageError("--yes is required when a job is read from standard input")
    jobs = jobs_in(files, values)
    found = checked(lambda: deletion(kubectl, jobs, claims=claims))
    _tell_kept(found)
    if not found.objects:
        names = ", ".join(job.job.name for job in jobs)
        tell(f"nothing to delete: there are no objects of {names}")
        return
    ask = not (yes or dry_run)
    if ask or dry_run:
        verb = "would be deleted" if dry_run else "will be deleted"
        write_page("".join(f"{named(item)} {verb}\n" for item in found.objects))
    if dry_run:
        return
    if ask:
        click.confirm(f"Delete {len(found.objects)} objects?", abort=True, err=True)
    checked(lambda: delete(kubectl, found.objects, tell))
    write_page("".join(f"{named(item)} deleted\n" for item in found.objects))


def _tell_kept(found: "Deletion") -> None:
    """Print which objects are kept, and why."""
    for item in found.claims:
        tell(f"{named(item)} is kept; to delete it with its data, use --claims")
    for item in found.foreign:
        tell(f"{named(item)} is kept: by its labels, it is not of the job")


def is_terminal() -> bool:
    """Return whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
