"""The cluster and the jobs that a command selects, and what several commands print."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mlgen.cli._options import (
    chosen_kubectl,
    is_name,
    site,
    written_options,
)
from mlgen.cli._report import checked, rendered, report, write_page
from mlgen.output.terminal import safe

if TYPE_CHECKING:
    from mlgen.client import Cluster
    from mlgen.live.state import JobState
    from mlgen.result import Rendered, Result


def chosen_cluster(values: dict[str, Any]) -> "Cluster":
    """Return the cluster with the --context, --kubeconfig and --namespace of the command."""
    from mlgen.client import Cluster

    config = site()
    namespace = values.get("namespace") or (config.namespace if config else None)
    return Cluster(namespace=namespace, kubectl=chosen_kubectl(), tell=tell)


def rendered_jobs(files: Sequence[str], values: dict[str, Any]) -> "Result":
    """Return the rendered jobs of files. Exit if there is an error (1), or no job (2).

    Warnings are omitted, because `render` and `validate` print them.
    """
    result = rendered(files, values, totals=False, warnings=False)
    if not result.jobs:
        raise click.UsageError("no job found in FILES")
    return result


def chosen_jobs(
    cluster: "Cluster", words: Sequence[str], values: dict[str, Any]
) -> "list[Rendered | str]":
    """Return the jobs of files, then names. Exit as `rendered_jobs` does.

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
    return [*(rendered_jobs(files, values).jobs if files else ()), *names]


def tell(text: str) -> None:
    """Print a line about the progress on stderr."""
    click.echo(safe(text), err=True)


def print_lines(*lines: str) -> None:
    """Print lines on stdout."""
    write_page("".join(f"{line}\n" for line in lines))


def report_missing(jobs: "Sequence[Rendered | str]", states: "Sequence[JobState]") -> bool:
    """Report the jobs that are not in the cluster. Return True if there are any."""
    from mlgen.live.logs import not_found

    options = written_options()
    files = ["" if isinstance(job, str) else job.file for job in jobs]
    missing = [pair for pair in zip(files, states, strict=True) if pair[1].phase == "NotFound"]
    report(not_found(file, state, options) for file, state in missing)
    return bool(missing)


def exit_as(
    cluster: "Cluster", jobs: "Sequence[Rendered | str]", timeout: float | None = None
) -> NoReturn:
    """Wait until jobs have ended, print each change on stderr, and exit with their status."""
    from mlgen.client import name_of
    from mlgen.live.watch import wait

    names = list(map(name_of, jobs))
    states, status = checked(lambda: wait(cluster.poll(jobs, timeout), names, tell))
    if states:
        report_missing(jobs, states)
    sys.exit(status)
