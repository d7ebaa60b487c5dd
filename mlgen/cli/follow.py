"""The commands list, status, logs and wait, which read the cluster through kubectl."""

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._cluster import (
    chosen_cluster,
    chosen_jobs,
    exit_as,
    print_lines,
    report_missing,
    tell,
)
from mlgen.cli._options import (
    FILE,
    Command,
    all_namespaces,
    as_jobset,
    completed,
    duration,
    jobs_or_names,
    kubectl,
    namespace,
    no_config,
    parsed,
    rendering,
    reporting,
    selector,
    written_options,
)
from mlgen.cli._report import checked, is_colored

if TYPE_CHECKING:
    from mlgen.live.listing import JobSummary
    from mlgen.live.watch import Tell


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
    from mlgen.live.job import place

    if watch and form in ("json", "name"):
        raise click.UsageError(f"--watch and -o {form} are mutually exclusive")
    if everywhere and namespace:
        raise click.UsageError("--all-namespaces and --namespace are mutually exclusive")
    cluster = chosen_cluster({"namespace": namespace})
    page = partial(listing.page, everywhere=everywhere, wide=form == "wide")

    def read(tell: "Tell") -> "list[JobSummary]":
        cluster.tell = tell
        return cluster.jobs(selector=selector, all_namespaces=everywhere)

    if watch and _is_screen():
        screen = watching.Screen(sys.stdout, page, color=_has_color())
        checked(lambda: screen.show(listing.poll(cluster.kubectl, read, screen.tell)))
    elif watch:
        looks = listing.poll(cluster.kubectl, read, tell)
        checked(lambda: watching.print_changes(looks, print_lines, listing.line))
    else:
        found = checked(lambda: read(tell))
        if form == "json":
            print_lines(json.dumps(watching.documents(found), indent=2))
        elif form == "name":
            print_lines(*(f"{job.namespace}/{job.name}" for job in found))
        elif found:
            print_lines(page(found, time.time()))
        else:
            tell(f"no jobs in {'any namespace' if everywhere else place(cluster.namespace)}")


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
    cluster = chosen_cluster(values)
    jobs = chosen_jobs(cluster, files, values)
    if not watch:
        states = checked(lambda: cluster.states(jobs))
        present = [each for each in states if each.phase != "NotFound"]
        if form == "json":
            print_lines(json.dumps(watching.documents(states), indent=2))
        elif present:
            print_lines(watching.page(present, time.time()))
    elif _is_screen():
        screen = watching.Screen(sys.stdout, watching.page, color=_has_color())
        cluster.tell = screen.tell
        states = checked(lambda: screen.show(cluster.poll(jobs)))
    else:
        looks = cluster.poll(jobs)
        states = checked(lambda: watching.print_changes(looks, print_lines, watching.line))
    if report_missing(jobs, states):
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
    help="Print the logs of all replicas in the order of time, or with --follow, when lines arrive."
    " Each line begins with the rank, or with the role and index if the replicas have no ranks.",
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
    cluster = chosen_cluster(values)
    words = chosen_jobs(cluster, [file], values)
    found = checked(lambda: find_job(cluster.live(words), job))
    if every:
        chosen = checked(lambda: find_replicas(found, role))
        prefix = prefixes(found, chosen, color=is_colored(sys.stdout))
    else:
        chosen, prefix = [checked(lambda: find_replica(found, rank, role, index))], {}
    options = tuple(written_options())
    request = Request(found, chosen, container, previous, tail, since or 0.0, timestamps, options)

    def show() -> None:
        with closing(read_logs(cluster.kubectl, request, tell, follow=follow)) as read:
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
    cluster = chosen_cluster(values)
    jobs = chosen_jobs(cluster, files, values)
    exit_as(cluster, jobs, timeout)
