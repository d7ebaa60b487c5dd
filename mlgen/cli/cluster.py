"""The commands doctor, apply, rerun and delete, which run kubectl, and ssh-secret."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._cluster import (
    chosen_cluster,
    chosen_jobs,
    exit_as,
    print_lines,
    rendered_jobs,
    tell,
)
from mlgen.cli._options import (
    FILE,
    Command,
    as_jobset,
    files,
    jobs_or_names,
    kubectl,
    namespace,
    no_config,
    one_stdin,
    only_jobs,
    parsed,
    rendering,
    reporting,
    settings,
    site,
    strict,
    supervisor,
)
from mlgen.cli._report import checked, rendered, write_page
from mlgen.kubernetes import names

if TYPE_CHECKING:
    from mlgen.apply import Applied
    from mlgen.client import Cluster
    from mlgen.result import Rendered


@click.command("doctor", cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=FILE, callback=parsed(one_stdin))
@kubectl
@rendering
@supervisor
@as_jobset
@reporting
def doctor(files: tuple[str, ...], **values: Any) -> None:
    """Check that the cluster is ready for the jobs in FILES.

    For each job, check your permissions, including those that its Roles grant. Check Secrets and
    their keys, PersistentVolumeClaims, classes, queues, schedulers and the GPUs of the nodes. Check
    the PodSecurity level and quotas of the namespace. Dry-run the objects and pods on the API
    server. Without FILES, check versions and list optional APIs.

    For each missing object, print the command that creates it. The check does not change the
    cluster, and does not predict when pods are scheduled.

    \b
    Exit status:
      0  the cluster is ready
      1  something is missing, or invalid input

    \b
    Examples:
      mlgen doctor                 # only the cluster
      mlgen doctor job.yaml        # before kubectl apply
      mlgen doctor jobs/ -n vision
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live.doctor import examine, has_missing, page

    jobs = rendered_jobs(files, values).jobs if files else []
    kubectl = chosen_cluster(values).kubectl
    sections = checked(lambda: examine(kubectl, jobs, values["kube_version"]))
    write_page(page(sections))
    if has_missing(sections):
        sys.exit(1)


follow = click.option(
    "--follow", is_flag=True, help="Print the log of rank 0 afterwards, until training has ended."
)


then_wait = click.option(
    "--wait", is_flag=True, help="Wait afterwards until all jobs have ended, as mlgen wait does."
)


@click.command("apply", cls=Command)
@files
@click.option(
    "--replace",
    is_flag=True,
    help="Delete each job that exists, wait until its pods are gone, and apply it.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the objects on the API server, without changing them.",
)
@follow
@then_wait
@kubectl
@rendering
@supervisor
@as_jobset
@only_jobs
@strict
@reporting
def apply(
    files: tuple[str, ...], *, replace: bool, dry_run: bool, follow: bool, wait: bool, **values: Any
) -> None:
    """Apply the jobs in FILES to the cluster.

    This is mlgen render FILES | kubectl apply --server-side -f -, with checks. It reports objects
    that the jobs need and the cluster lacks. A job that already runs with the same job file is left
    unchanged. A change that would stop it, or that the API server would reject, is refused:
    --replace does that on purpose. The job file is stored with the job, for mlgen rerun.

    \b
    Examples:
      mlgen apply job.yaml
      mlgen apply job.yaml --follow      # and print the log of rank 0
      mlgen apply jobs/ -n vision --wait # exits as mlgen wait does
      mlgen apply job.yaml --replace --set spec.roles.worker.replicas=8
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    _require_one(follow=follow, wait=wait, dry_run=dry_run)
    result = rendered(files, values, totals=False)
    _require_one_job(result.jobs, follow=follow)
    cluster = chosen_cluster(values)
    applied = checked(lambda: cluster.apply(result, replace=replace, dry_run=dry_run))
    _print_applied(applied, " (dry run)" if dry_run else "")
    _then(cluster, result.jobs, follow=follow, wait=wait)


@click.command("rerun", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@settings
@namespace
@follow
@then_wait
@kubectl
@no_config
@reporting
def rerun(names: tuple[str, ...], *, follow: bool, wait: bool, **values: Any) -> None:
    """Run jobs again that have ended or still run.

    Delete the objects of each job except for its PersistentVolumeClaims, wait until its pods are
    gone, and apply the same objects again. With --set, change them first: this requires a job that
    mlgen apply has applied, because it stores the job file. To run a changed file, use
    mlgen apply --replace.

    \b
    Examples:
      mlgen rerun bert
      mlgen rerun bert --set args.lr=1e-5 --follow
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    _require_one(follow=follow, wait=wait)
    _require_one_job(names, follow=follow)
    cluster = chosen_cluster(values)
    applied = checked(lambda: cluster.rerun(*names, set=values["settings"]))
    _print_applied(applied)
    _then(cluster, [f"{each.namespace}/{each.name}" for each in applied], follow=follow, wait=wait)


def _require_one(**flags: bool) -> None:
    """Check that at most one of several flags is set."""
    written = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    if len(written) > 1:
        raise click.UsageError(f"{' and '.join(written)} are mutually exclusive")


def _require_one_job(jobs: Sequence[object], *, follow: bool) -> None:
    """Check that there is only one job to follow."""
    if follow and len(jobs) != 1:
        raise click.UsageError(f"--follow expects one job, got {len(jobs)}")


def _print_applied(applied: "Sequence[Applied]", suffix: str = "") -> None:
    """Print a line for each job, after the changes of a job that runs."""
    for each in applied:
        if each.action == "changed":
            tell(each.message.rstrip())
        hint = f": {each.message}; to run it again: mlgen rerun {each.name}"
        print_lines(f"{each.name} {each.action}{hint if each.action == 'ended' else ''}{suffix}")


def _then(
    cluster: "Cluster", jobs: "Sequence[Rendered | str]", *, follow: bool, wait: bool
) -> None:
    """Follow the only job, or wait for all jobs, and exit with their status."""

    def show() -> None:
        for text in cluster.logs(jobs[0], follow=True):
            click.echo(text)

    if follow:
        checked(show)
    if follow or wait:
        exit_as(cluster, jobs)


@click.command("delete", cls=Command)
@jobs_or_names
@click.option("-y", "--yes", is_flag=True, help="Delete without confirmation.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the objects that would be deleted, without deleting them.",
)
@click.option(
    "--claims",
    is_flag=True,
    help="Delete the PersistentVolumeClaims of the jobs as well, with their data.",
)
@kubectl
@rendering
@supervisor
@as_jobset
@reporting
def delete(
    files: tuple[str, ...], *, yes: bool, dry_run: bool, claims: bool, **values: Any
) -> None:
    """Delete the objects of jobs.

    A job is a FILE or a NAME, as for mlgen status. Delete its objects and the status ConfigMap, and
    wait until the pods have ended. Keep PersistentVolumeClaims, other objects in FILES, and objects
    with the same name that do not belong to the job. Without a terminal, --yes is required.

    \b
    Examples:
      mlgen delete bert                 # lists the objects, and prompts
      mlgen delete job.yaml --yes       # in a script
      mlgen delete -l sweep=lr --dry-run
      mlgen delete job.yaml --claims    # including PersistentVolumeClaims and data
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.client import name_of
    from mlgen.live.delete import delete, named

    asks = not (yes or dry_run)
    if asks and not is_terminal():
        raise click.UsageError("not a terminal; add --yes or --dry-run")
    if asks and "-" in files:
        raise click.UsageError("--yes is required when a job is read from standard input")
    cluster = chosen_cluster(values)
    jobs = chosen_jobs(cluster, files, values)
    found = checked(lambda: cluster.delete(*jobs, claims=claims, dry_run=True))
    for item in found.claims:
        tell(f"{named(item)} is kept; to delete it with its data, use --claims")
    for item in found.foreign:
        tell(f"{named(item)} is kept: its labels belong to another job")
    if not found.objects:
        listed = ", ".join(map(name_of, jobs))
        tell(f"nothing to delete: there are no objects of {listed}")
        return
    if not yes:
        verb = "would be deleted" if dry_run else "will be deleted"
        print_lines(*(f"{named(item)} {verb}" for item in found.objects))
    if dry_run:
        return
    if asks:
        click.confirm(f"Delete {len(found.objects)} objects?", abort=True, err=True)
    checked(lambda: delete(cluster.kubectl, found.objects, tell))
    print_lines(*(f"{named(item)} deleted" for item in found.objects))


def is_terminal() -> bool:
    """Return whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@click.command("ssh-secret", cls=Command)
@click.argument("name")
@click.option(
    "-n", "--namespace", callback=parsed(names.namespace), help="Set the namespace of the Secret."
)
@no_config
def ssh_secret(name: str, namespace: str | None) -> None:
    """Print a Secret with a new ssh key pair.

    Jobs with MPI over ssh require it. The keys differ in each run.

    \b
    Examples:
      mlgen ssh-secret resnet-ssh | kubectl apply -f -
      mlgen ssh-secret resnet-ssh -n vision > secret.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen import scaffold

    config = site()
    default = config.namespace if config else None
    try:
        click.echo(scaffold.ssh_secret(name, namespace or default), nl=False)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from None
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
