"""Print the output and the problems of a command, and exit with its status."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from mlgen.problems import Problem
    from mlgen.result import Result

T = TypeVar("T")


def report(problems: "Iterable[Problem]") -> None:
    """Print problems on stderr, one per line."""
    for problem in problems:
        click.echo(str(problem), err=True)


def checked(action: Callable[[], T], warnings: "Callable[[T], Iterable[Problem]]") -> T:
    """Return the result of an action, and print its warnings.

    If it raises MlgenError, print all problems and exit with status 1.

    Args:
        action: the work of the command.
        warnings: returns the warnings in a result.
    """
    from mlgen.problems import MlgenError

    try:
        result = action()
    except MlgenError as error:
        report(error.problems)
        sys.exit(1)
    report(warnings(result))
    return result


def report_others(result: "Result") -> None:
    """Print on stderr how many jobs and other objects there are, if there are others."""
    if result.others:
        from mlgen.output.summary import counts

        click.echo(counts(result), err=True)


def refuse_inputs(outputs: Iterable[str | Path], files: Iterable[str]) -> None:
    """Check that no output is an input; `-` is stdout.

    Raises:
        UsageError: one of them is, or would become one.
    """
    paths = [Path(output) for output in outputs if output != "-"]
    if not paths:
        return
    from mlgen.output.files import conflict

    reason = conflict(paths, files)
    if reason:
        raise click.UsageError(reason)


def write(output: str, text: str) -> None:
    """Write a text to a file, or to stdout if the output is `-`.

    Raises:
        ClickException: the file cannot be written.
    """
    if output == "-":
        click.echo(text.encode(), nl=False)  # bytes do not depend on the locale
        return
    from mlgen.output.files import write as write_file

    try:
        write_file(output, text)
    except OSError as error:
        raise click.ClickException(f"{output}: cannot be written: {error.strerror}") from None
