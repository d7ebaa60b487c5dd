"""The commands doctor, list, status, logs, wait and delete, which run kubectl, and ssh-secret."""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._options import (
    FILE,
    Command,
    as_jobset,
    completed,
    duration,
    files,
    kubectl,
    no_config,
    one_stdin,
    parsed,
    rendering,
    reporting,
    site,
    supervisor,
    written_options,
)
from mlgen.cli._report import checked, rendered, report, write_page
from mlgen.kubernetes import names
from mlgen.output.terminal import safe

if TYPE_CHECKING:
    from mlgen.live.job import LiveJob
    from mlgen.live.kubectl import Kubectl
    from mlgen.live.listing import JobSummary
    from mlgen.live.state import JobState
    from mlgen.live.watch import Tell
    from mlgen.result import Rendered


def _cluster() -> "Kubectl":
    """Return kubectl with the --context and --kubeconfig of the command."""
    from mlgen.live.kubectl import Kubectl

    meta = click.get_current_context().meta
    return Kubectl(context=meta["mlgen.context"], kubeconfig=meta["mlgen.kubeconfig"])


def _rendered(files: Sequence[str], values: dict[str, Any]) -> "list[Rendered]":
    """Return the rendered jobs of files. Exit if there is an error (1), or no job (2).

    Warnings are omitted, because `render` and `validate` print them.
    """
    jobs = rendered(files, values, totals=False, warnings=False).jobs
    if not jobs:
        raise click.UsageError("no job found in FILES")
    return jobs


def _jobs(words: Sequence[str], values: dict[str, Any]) -> "list[LiveJob]":
    """Return the jobs of files, and the jobs in the cluster with a name. Exit as `_rendered` does.

    A word that is no file is a name, or a namespace and a name.
    """
    from mlgen.live.job import named, of_file

    files = [word for word in words if word == "-" or not is_name(word) or Path(word).exists()]
    jobs = list(map(of_file, _rendered(files, values))) if files else []
    names = [word for word in words if word not in files]
    space = _namespace(values["namespace"])
    return jobs + (checked(lambda: named(_cluster(), names, space)) if names else [])


def _namespace(written: str | None) -> str | None:
    """Return the namespace of jobs by name: as written, or that of `mlgen.toml`, if any."""
    config = site()
    return written or (config.namespace if config else None)


def _tell(text: str) -> None:
    """Print a line about the progress on stderr."""
    click.echo(safe(text), err=True)


def _print(*lines: str) -> None:
    """Print lines on stdout."""
    write_page("".join(f"{line}\n" for line in lines))


def _missing(jobs: "Sequence[LiveJob]", states: "Sequence[JobState]") -> bool:
    """Report the jobs that are not in the cluster. Return True if there are any."""
    from mlgen.live.logs import not_found

    options, pairs = written_options(), zip(jobs, states, strict=True)
    missing = [(job, each.namespace) for job, each in pairs if each.phase == "NotFound"]
    report(not_found(job, namespace, options) for job, namespace in missing)
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

    jobs = _rendered(files, values) if files else []
    sections = checked(lambda: examine(_cluster(), jobs, values["kube_version"]))
    write_page(page(sections))
    if has_missing(sections):
        sys.exit(1)


@click.command("list", cls=Command)
@click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="List the jobs of all namespaces."
)
@click.option(
    "-n",
    "--namespace",
    callback=parsed(names.namespace),
    help="List the jobs of this namespace. Default: that of mlgen.toml or of kubectl's context.",
)
@click.option(
    "-l",
    "--selector",
    default="",
    metavar="SELECTOR",
    help="List the jobs with these labels, as for kubectl: team=vision,tier!=test.",
)
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
      mlgen list -o name | xargs mlgen wait   # until all of them have ended
      mlgen list -o json | jq '.[] | select(.phase == "Failed").name'
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live import listing
    from mlgen.live import watch as watching

    if watch and form in ("json", "name"):
        raise click.UsageError(f"--watch and -o {form} are mutually exclusive")
    if everywhere and namespace:
        raise click.UsageError("--all-namespaces and --namespace are mutually exclusive")
    kubectl, space = _cluster(), None if everywhere else _namespace(namespace)
    page = partial(listing.page, everywhere=everywhere, wide=form == "wide")

    def read(tell: "Tell") -> "list[JobSummary]":
        return listing.jobs(kubectl, space, selector, everywhere=everywhere, tell=tell)

    if watch and _is_screen():
        screen = watching.Screen(sys.stdout, page, color=_has_color())
        checked(lambda: screen.show(listing.poll(kubectl, read, screen.tell)))
    elif watch:
        looks = listing.poll(kubectl, read, _tell)
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
            where = (
                "any namespace"
                if everywhere
                else f"namespace {space}"
                if space
                else "the namespace of kubectl's context"
            )
            _tell(f"no jobs in {where}")


@click.command("status", cls=Command)
@files
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
    """Show the state of the jobs in FILES.

    For each job, print its state, its progress, its conditions and the replicas of each role. For
    pods that do not run, print the reason: missing peers, scheduling, image pull errors or exit
    codes. Use the same options as for mlgen render.

    The progress requires runPolicy.progress in the job file.

    For the outcome of training, run mlgen wait.

    \b
    Exit status:
      0  all jobs are in the cluster
      1  a job is missing, or kubectl fails

    \b
    Examples:
      mlgen status job.yaml           # conditions, roles, pods that do not run
      mlgen status job.yaml --watch   # until training has ended
      mlgen status jobs/ -n vision    # all jobs in a folder
      mlgen status job.yaml -o json | jq '.[0].progress'
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live import watch as watching

    if watch and form == "json":
        raise click.UsageError("--watch and -o json are mutually exclusive")
    jobs = _jobs(files, values)
    if not watch:
        states = checked(lambda: watching.states(_cluster(), jobs))
        present = [each for each in states if each.phase != "NotFound"]
        if form == "json":
            _print(json.dumps(watching.documents(states), indent=2))
        elif present:
            _print(watching.page(present, time.time()))
    elif _is_screen():
        screen = watching.Screen(sys.stdout, watching.page, color=_has_color())
        states = checked(lambda: screen.show(watching.poll(_cluster(), jobs, screen.tell)))
    else:
        looks = watching.poll(_cluster(), jobs, _tell)
        states = checked(lambda: watching.print_changes(looks, _print, watching.line))
    if _missing(jobs, states):
        sys.exit(1)


@click.command("logs", cls=Command)
@click.argument("file", type=FILE)
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
    help="Print the logs of a replica of this role.",
)
@click.option(
    "--index",
    type=click.IntRange(min=0),
    metavar="N",
    help="Select the replica of --role by its index. Default: 0.",
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print new lines until the replica or training has ended, also after restarts. Print the"
    " peers that a pod waits for on stderr.",
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
    "--tail", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines."
)
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
    follow: bool,
    previous: bool,
    container: str,
    tail: int | None,
    **values: Any,
) -> None:
    """Print the logs of a replica.

    Default: rank 0, or the replica that determines the outcome, such as the chief, the launcher or
    worker-0. --rank selects a pod by its rank. With torchrun, the logs of a pod contain the output
    of all its processes.

    \b
    Examples:
      mlgen logs job.yaml --follow                 # rank 0, until training has ended
      mlgen logs job.yaml --rank 3                 # another rank
      mlgen logs job.yaml --role worker --index 3  # a replica of a role
      mlgen logs job.yaml --rank 3 --previous      # before it was restarted
      mlgen logs job.yaml -c wait-for-peers        # the missing peers
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live.logs import Follower, Request, find_job, find_replica, print_log

    if rank is not None and (role or index is not None):
        raise click.UsageError("--rank and --role are mutually exclusive")
    if index is not None and not role:
        raise click.UsageError("--index requires --role")
    if follow and previous:
        raise click.UsageError("--follow and --previous are mutually exclusive")
    jobs = _jobs([file], values)
    found = checked(lambda: find_job(jobs, job))
    replica = checked(lambda: find_replica(found, rank, role, index))
    lines, options = -1 if tail is None else tail, tuple(written_options())
    request = Request(found, replica, container, previous, lines, options)
    if follow:
        checked(Follower(_cluster(), request, click.echo, _tell).run)
    else:
        checked(lambda: print_log(_cluster(), request, click.echo))


@click.command("wait", cls=Command)
@files
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
    """Wait until the jobs in FILES have ended.

    Print each change of a job's state on stderr.

    \b
    Exit status:
      0         all jobs have succeeded
      1 to 125  exit code of the first failed replica of the first failed job, or 1 if the code
                is unknown or above 125
      124       also: the --timeout has passed

    \b
    Examples:
      mlgen wait job.yaml                    # exits with the code of training
      mlgen wait job.yaml --timeout 8h       # exits with 124 after 8 hours
      mlgen wait jobs/ && mlgen delete jobs/ --yes
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live.watch import wait

    jobs = _jobs(files, values)
    states, status = checked(lambda: wait(_cluster(), jobs, _tell, timeout))
    if states:
        _missing(jobs, states)
    sys.exit(status)


@click.command("delete", cls=Command)
@files
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
    """Delete the objects of the jobs in FILES.

    Delete the rendered objects and the status ConfigMap, and wait until the pods have ended. Keep
    PersistentVolumeClaims, other objects in FILES, and objects with the same name that do not
    belong to the job. Without a terminal, --yes is required.

    \b
    Examples:
      mlgen delete job.yaml             # lists the objects, and prompts
      mlgen delete job.yaml --yes       # in a script
      mlgen delete job.yaml --dry-run   # only lists the objects
      mlgen delete job.yaml --claims    # including PersistentVolumeClaims and data
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.live.delete import delete, deletion, named

    asks = not (yes or dry_run)
    if asks and not is_terminal():
        raise click.UsageError("not a terminal; add --yes or --dry-run")
    if asks and "-" in files:
        raise click.UsageError("--yes is required when a job is read from standard input")
    kubectl, jobs = _cluster(), _jobs(files, values)
    found = checked(lambda: deletion(kubectl, jobs, claims=claims))
    for item in found.claims:
        _tell(f"{named(item)} is kept; to delete it with its data, use --claims")
    for item in found.foreign:
        _tell(f"{named(item)} is kept: its labels belong to another job")
    if not found.objects:
        listed = ", ".join(job.name for job in jobs)
        _tell(f"nothing to delete: there are no objects of {listed}")
        return
    if not yes:
        verb = "would be deleted" if dry_run else "will be deleted"
        _print(*(f"{named(item)} {verb}" for item in found.objects))
    if dry_run:
        return
    if asks:
        click.confirm(f"Delete {len(found.objects)} objects?", abort=True, err=True)
    checked(lambda: delete(kubectl, found.objects, _tell))
    _print(*(f"{named(item)} deleted" for item in found.objects))


def is_name(word: str) -> bool:
    """Return whether a word can be the name of a job, or a namespace and a name."""
    return bool(re.fullmatch(rf"(?:{names.LABEL}/)?{names.LABEL}", word))


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
