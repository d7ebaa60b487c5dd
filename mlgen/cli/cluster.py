"""The commands doctor, list, status, logs, wait and delete, which run kubectl, and ssh-secret."""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mlgen.cli._options import (
    FILE,
    Command,
    all_namespaces,
    as_jobset,
    chosen_kubectl,
    completed,
    duration,
    files,
    is_name,
    jobs_or_names,
    kubectl,
    namespace,
    no_config,
    one_stdin,
    only_jobs,
    parsed,
    rendering,
    reporting,
    selector,
    settings,
    site,
    strict,
    supervisor,
    written_options,
)
from mlgen.cli._report import checked, is_colored, rendered, report, write_page
from mlgen.kubernetes import names
from mlgen.output.terminal import safe

if TYPE_CHECKING:
    from mlgen.apply import Applied
    from mlgen.client import Cluster
    from mlgen.live.listing import JobSummary
    from mlgen.live.state import JobState
    from mlgen.live.watch import Tell
    from mlgen.result import Rendered, Result


def _cluster(values: dict[str, Any]) -> "Cluster":
    """Return the cluster with the --context, --kubeconfig and --namespace of the command."""
    from mlgen.client import Cluster

    config = site()
    namespace = values.get("namespace") or (config.namespace if config else None)
    return Cluster(namespace=namespace, kubectl=chosen_kubectl(), tell=_tell)


def _rendered(files: Sequence[str], values: dict[str, Any]) -> "Result":
    """Return the rendered jobs of files. Exit if there is an error (1), or no job (2).

    Warnings are omitted, because `render` and `validate` print them.
    """
    result = rendered(files, values, totals=False, warnings=False)
    if not result.jobs:
        raise click.UsageError("no job found in FILES")
    return result


def _jobs(
    cluster: "Cluster", words: Sequence[str], values: dict[str, Any]
) -> "list[Rendered | str]":
    """Return the jobs of files, then names. Exit as `_rendered` does.

    A word that is no file is a name, or a namespace and a name. Without words, --selector or
    --all-namespaces selects jobs in the cluster.
    """
    selector, everywhere = values.pop("selector", ""), values.pop("everywhere", False)
    if bool(words) == bool(selector or everywhere):
        raise click.UsageError("expected FILES or NAMES, or --selector or --all-namespaces")
    if not words:
        listed = checked(lambda: cluster.jobs(selector=selector, all_namespaces=everywhere))
        if not listed:
            raise click.ClickException("no job in the cluster matches")
        return [f"{job.namespace}/{job.name}" for job in listed]
    files = [word for word in words if not is_name(word)]
    names = [word for word in words if is_name(word)]
    return [*(_rendered(files, values).jobs if files else ()), *names]


def _tell(text: str) -> None:
    """Print a line about the progress on stderr."""
    click.echo(safe(text), err=True)


def _print(*lines: str) -> None:
    """Print lines on stdout."""
    write_page("".join(f"{line}\n" for line in lines))


def _missing(jobs: "Sequence[Rendered | str]", states: "Sequence[JobState]") -> bool:
    """Report the jobs that are not in the cluster. Return True if there are any."""
    from mlgen.live.logs import not_found

    options = written_options()
    files = ["" if isinstance(job, str) else job.file for job in jobs]
    missing = [pair for pair in zip(files, states, strict=True) if pair[1].phase == "NotFound"]
    report(not_found(file, state, options) for file, state in missing)
    return bool(missing)


def _is_screen() -> bool:
    """Return whether stdout is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _has_color() -> bool:
    """Return whether a terminal shows colors."""
    plain = click.get_current_context().meta["mlgen.color"] == "never"
    return not (plain or os.environ.get("NO_COLOR"))


def _roles(_incomplete: str, files: tuple[str, ...]) -> Iterable[str]:
    """Return completions for --role."""
    from mlgen.reference import fields

    return fields.roles(files)


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

    jobs = _rendered(files, values).jobs if files else []
    kubectl = _cluster(values).kubectl
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
    cluster = _cluster(values)
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
@reporting
def rerun(
    names: tuple[str, ...],
    *,
    settings: tuple[tuple[Any, Any], ...],
    namespace: str | None,
    follow: bool,
    wait: bool,
) -> None:
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
    cluster = _cluster({"namespace": namespace})
    applied = checked(lambda: cluster.rerun(*names, set=settings))
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
            _tell(each.message.rstrip())
        hint = f": {each.message}; to run it again: mlgen rerun {each.name}"
        _print(f"{each.name} {each.action}{hint if each.action == 'ended' else ''}{suffix}")


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
        _exit_as(cluster, jobs)


@click.command("list", cls=Command)
@all_namespaces
@namespace
@selector
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["wide", "json", "name"]),
    help="Print more columns, a JSON list with one object for each job, or names.",
)
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Show a live table until Ctrl-C. Without a terminal, print a line for each change.",
)
@kubectl
@no_config
@reporting
def ls(
    *, everywhere: bool, namespace: str | None, selector: str, form: str | None, watch: bool
) -> None:
    """List the jobs in the cluster.

    For each job, print its state, the restarts by its supervisor, its progress, the GPUs that its
    replicas request, its position in the queue of Kueue, and its owner: the annotation
    mlgen.dev/owner. -o wide also prints how long the state holds, the estimated time left, ready
    replicas and a message.

    \b
    Examples:
      mlgen list                              # in the namespace of kubectl's context
      mlgen list -A -o wide
      mlgen list -l team=vision --watch
      mlgen wait $(mlgen list -o name)        # until all of them have ended
      mlgen list -o json | jq '.[] | select(.phase == "Failed").name'
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live import listing
    from mlgen.live import watch as watching

    if watch and form in ("json", "name"):
        raise click.UsageError(f"--watch and -o {form} are mutually exclusive")
    if everywhere and namespace:
        raise click.UsageError("--all-namespaces and --namespace are mutually exclusive")
    cluster = _cluster({"namespace": namespace})
    page = partial(listing.page, everywhere=everywhere, wide=form == "wide")

    def read(tell: "Tell") -> "list[JobSummary]":
        cluster.tell = tell
        return cluster.jobs(selector=selector, all_namespaces=everywhere)

    if watch and _is_screen():
        screen = watching.Screen(sys.stdout, page, color=_has_color())
        checked(lambda: screen.show(listing.poll(cluster.kubectl, read, screen.tell)))
    elif watch:
        looks = listing.poll(cluster.kubectl, read, _tell)
        checked(lambda: watching.print_changes(looks, _print, listing.line))
    else:
        found = checked(lambda: read(_tell))
        if form == "json":
            _print(json.dumps(watching.documents(found), indent=2))
        elif form == "name":
            _print(*(f"{job.namespace}/{job.name}" for job in found))
        elif found:
            _print(page(found, time.time()))
        else:
            where = "any namespace" if everywhere else f"namespace {cluster.namespace}"
            where = (
                where if cluster.namespace or everywhere else "the namespace of kubectl's context"
            )
            _tell(f"no jobs in {where}")


@click.command("status", cls=Command)
@jobs_or_names
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Show a live table until all jobs have ended. Without a terminal, print a line for each"
    " change.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print tables, or a JSON list with one object for each job.",
)
@kubectl
@rendering
@as_jobset
@reporting
def status(files: tuple[str, ...], *, watch: bool, form: str, **values: Any) -> None:
    """Show the state of jobs.

    A job is a FILE, with the same options as for mlgen render, or the NAME of a job in the cluster,
    or NAMESPACE/NAME. For each job, print its state, its progress, its conditions and the replicas
    of each role. For pods that do not run, print the reason: missing peers, scheduling, image pull
    errors or exit codes.

    The progress requires runPolicy.progress in the job file.

    For the outcome of training, run mlgen wait.

    \b
    Exit status:
      0  all jobs are in the cluster
      1  a job is missing, or kubectl fails

    \b
    Examples:
      mlgen status bert                # conditions, roles, pods that do not run
      mlgen status job.yaml --watch    # until training has ended
      mlgen status -l team=vision -A   # of all namespaces
      mlgen status bert -o json | jq '.[0].progress'
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live import watch as watching

    if watch and form == "json":
        raise click.UsageError("--watch and -o json are mutually exclusive")
    cluster = _cluster(values)
    jobs = _jobs(cluster, files, values)
    if not watch:
        states = checked(lambda: cluster.states(jobs))
        present = [each for each in states if each.phase != "NotFound"]
        if form == "json":
            _print(json.dumps(watching.documents(states), indent=2))
        elif present:
            _print(watching.page(present, time.time()))
    elif _is_screen():
        screen = watching.Screen(sys.stdout, watching.page, color=_has_color())
        cluster.tell = screen.tell
        states = checked(lambda: screen.show(cluster.poll(jobs)))
    else:
        looks = cluster.poll(jobs)
        states = checked(lambda: watching.print_changes(looks, _print, watching.line))
    if _missing(jobs, states):
        sys.exit(1)


@click.command("logs", cls=Command)
@click.argument("file", type=FILE, metavar="FILE|NAME")
@click.option("--job", help="Select this job, if FILE contains several.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the logs of the replica with this rank.",
)
@click.option(
    "--role",
    shell_complete=completed(_roles),
    help="Print the logs of a replica of this role, or with --all, of all its replicas.",
)
@click.option(
    "--index",
    type=click.IntRange(min=0),
    metavar="N",
    help="Select the replica of --role by its index. Default: 0.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Print the logs of all replicas, in the order of time. Each line begins with the rank, or"
    " with the role and index if the replicas have no ranks.",
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print new lines until the replica or training has ended, also after restarts. Print the"
    " peers that a pod waits for on stderr; with --all, the state of the job.",
)
@click.option(
    "-p",
    "--previous",
    is_flag=True,
    help="Print the logs from before the last restart, of the container or in an earlier pod.",
)
@click.option(
    "-c",
    "--container",
    default="",
    help="Print the logs of this container. Default: the training container.",
)
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print only the last N lines of each replica.",
)
@click.option(
    "--since",
    metavar="DURATION",
    callback=parsed(duration),
    help="Print only lines that are newer than this, such as 90s, 10m or 1h30m.",
)
@click.option("--timestamps", is_flag=True, help="Print the time before each line.")
@kubectl
@rendering
@as_jobset
@reporting
def logs(  # noqa: PLR0913 - one for each option
    file: str,
    *,
    job: str | None,
    rank: int | None,
    role: str | None,
    index: int | None,
    every: bool,
    follow: bool,
    previous: bool,
    container: str,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    **values: Any,
) -> None:
    """Print the logs of a replica, or of all replicas.

    Default: rank 0, or the replica that determines the outcome, such as the chief, the launcher or
    worker-0. --rank selects a pod by its rank. With torchrun, the logs of a pod contain the output
    of all its processes.

    \b
    Examples:
      mlgen logs job.yaml --follow                 # rank 0, until training has ended
      mlgen logs job.yaml --rank 3                 # another rank
      mlgen logs job.yaml --role worker --index 3  # a replica of a role
      mlgen logs job.yaml --all --follow           # all ranks
      mlgen logs job.yaml --all --role worker --since 10m
      mlgen logs job.yaml --rank 3 --previous      # before it was restarted
      mlgen logs job.yaml -c wait-for-peers        # the missing peers
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live.logs import Request, find_job, find_replica, find_replicas
    from mlgen.live.ranks import prefixes, read_logs

    if rank is not None and (role or index is not None):
        raise click.UsageError("--rank and --role are mutually exclusive")
    if every and (rank is not None or index is not None):
        raise click.UsageError("--all is mutually exclusive with --rank and --index")
    if index is not None and not role:
        raise click.UsageError("--index requires --role")
    if follow and previous:
        raise click.UsageError("--follow and --previous are mutually exclusive")
    cluster = _cluster(values)
    words = _jobs(cluster, [file], values)
    found = checked(lambda: find_job(cluster.live(words), job))
    if every:
        chosen = checked(lambda: find_replicas(found, role))
        prefix = prefixes(found, chosen, color=is_colored(sys.stdout))
    else:
        chosen, prefix = [checked(lambda: find_replica(found, rank, role, index))], {}
    lines, options = -1 if tail is None else tail, tuple(written_options())
    request = Request(found, chosen, container, previous, lines, since or 0.0, timestamps, options)

    def show() -> None:
        with closing(read_logs(cluster.kubectl, request, _tell, follow=follow)) as read:
            for line in read:
                start = prefix.get(line.replica, "")
                # A progress bar overwrites its line, and the prefix.
                text = line.text.replace("\r", f"\r{start}") if start else line.text
                click.echo(f"{start}{text}", color=True)

    checked(show)


@click.command("wait", cls=Command)
@jobs_or_names
@click.option(
    "--timeout",
    show_default="no limit",
    metavar="DURATION",
    callback=parsed(duration),
    help="Wait at most this long, such as 90s, 30m, 8h or 1h30m.",
)
@kubectl
@rendering
@as_jobset
@reporting
def wait(files: tuple[str, ...], *, timeout: float | None, **values: Any) -> None:
    """Wait until jobs have ended.

    A job is a FILE or a NAME, as for mlgen status. Print each change of a job's state on stderr.

    \b
    Exit status:
      0         all jobs have succeeded
      1 to 125  exit code of the first failed replica of the first failed job, or 1 if the code
                is unknown or above 125
      124       also: the --timeout has passed

    \b
    Examples:
      mlgen wait bert                        # exits with the code of training
      mlgen wait job.yaml --timeout 8h       # exits with 124 after 8 hours
      mlgen wait jobs/ && mlgen delete jobs/ --yes
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    cluster = _cluster(values)
    jobs = _jobs(cluster, files, values)
    _exit_as(cluster, jobs, timeout)


def _exit_as(
    cluster: "Cluster", jobs: "Sequence[Rendered | str]", timeout: float | None = None
) -> NoReturn:
    """Wait until jobs have ended, print each change on stderr, and exit with their status."""
    from mlgen.client import name_of
    from mlgen.live.watch import wait

    names = list(map(name_of, jobs))
    states, status = checked(lambda: wait(cluster.poll(jobs, timeout), names, _tell))
    if states:
        _missing(jobs, states)
    sys.exit(status)


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
    cluster = _cluster(values)
    jobs = _jobs(cluster, files, values)
    found = checked(lambda: cluster.delete(*jobs, claims=claims, dry_run=True))
    for item in found.claims:
        _tell(f"{named(item)} is kept; to delete it with its data, use --claims")
    for item in found.foreign:
        _tell(f"{named(item)} is kept: its labels belong to another job")
    if not found.objects:
        listed = ", ".join(map(name_of, jobs))
        _tell(f"nothing to delete: there are no objects of {listed}")
        return
    if not yes:
        verb = "would be deleted" if dry_run else "will be deleted"
        _print(*(f"{named(item)} {verb}" for item in found.objects))
    if dry_run:
        return
    if asks:
        click.confirm(f"Delete {len(found.objects)} objects?", abort=True, err=True)
    checked(lambda: delete(cluster.kubectl, found.objects, _tell))
    _print(*(f"{named(item)} deleted" for item in found.objects))


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
