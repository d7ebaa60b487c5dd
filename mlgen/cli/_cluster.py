"""What the commands share that work through kubectl."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlgen.cli._report import rendered
from mlgen.live.kubectl import Kubectl
from mlgen.output.terminal import safe

if TYPE_CHECKING:
    from mlgen.result import Rendered

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT = click.option(
    "--context", default="", help="Use this context of the kubeconfig, instead of the current one."
)

KUBECONFIG = click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Use this kubeconfig, instead of the one that kubectl finds.",
)


def through_kubectl(function: F) -> F:
    """Decorate a command that runs kubectl with the options that say which cluster it means."""
    for option in (KUBECONFIG, CONTEXT):
        function = option(function)
    return function


def cluster(values: dict[str, Any]) -> "Kubectl":
    """Return kubectl for the cluster of a command's options, which are taken out of them."""
    return Kubectl(context=values.pop("context"), kubeconfig=values.pop("kubeconfig"))


def jobs_in(files: Sequence[str], values: dict[str, Any]) -> "list[Rendered]":
    """Return the rendered jobs of files; exit with status 1 if there is an error, or no job.

    Warnings are for `render` and `validate`.
    """
    jobs = rendered(files, values, totals=False, warnings=False).jobs
    if not jobs:
        raise click.UsageError("there is no job in FILES")
    return jobs


def tell(text: str) -> None:
    """Print a line on stderr: what is waited for."""
    click.echo(safe(text), err=True)
