"""What a command prints, and how it ends when the input is wrong."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from mlgen.problems import Problem

T = TypeVar("T")


def report(problems: "Iterable[Problem]") -> None:
    """Print problems on standard error, one a line."""
    for problem in problems:
        click.echo(str(problem), err=True)


def checked(work: Callable[[], T], warnings: "Callable[[T], Iterable[Problem]]") -> T:
    """Do the work and print its warnings; on errors, print them all and exit with status 1."""
    from mlgen.problems import MlgenError

    try:
        value = work()
    except MlgenError as error:
        report(error.problems)
        sys.exit(1)
    report(warnings(value))
    return value


def write(output: str, text: str) -> None:
    """Print a text, or put it in the place of a file; `-` is standard output."""
    if output == "-":
        click.echo(text.encode(), nl=False)  # bytes: the same under every locale
        return
    from mlgen.output.files import write as write_file

    try:
        write_file(output, text)
    except OSError as error:
        raise click.ClickException(f"{output}: cannot be written: {error.strerror}") from None
