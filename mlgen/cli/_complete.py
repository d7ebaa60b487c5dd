"""What the shell completes: functions for `shell_complete` of arguments and options."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def files(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the name of a file."""
    return _of_type(incomplete, "file")


def folders(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the name of a folder."""
    return _of_type(incomplete, "dir")


def frameworks(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the name of a framework."""
    from mlgen.frameworks import names

    return _starting(incomplete, names())


def kinds(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the kind of a custom resource."""
    from mlgen import dialects

    return _starting(incomplete, sorted({kind for _, kind in dialects.kinds()}))


def roles(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete a role of the jobs that are named on the command line."""
    from mlgen.reference import suggestions

    return _starting(incomplete, suggestions.roles(_named(context)))


def commands(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the name of a command."""
    from mlgen.cli import COMMANDS

    return _starting(incomplete, COMMANDS)


def topics(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete a topic of `mlgen explain`."""
    from mlgen.reference import suggestions

    return _starting(incomplete, suggestions.topics(incomplete))


def settings(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete PATH or VALUE of --set PATH=VALUE."""
    from mlgen.reference import suggestions

    return _starting(incomplete, suggestions.settings(incomplete, _named(context)))


def _named(context: click.Context) -> tuple[str, ...]:
    """Return the files that the command line names so far.

    If it ends with an option whose value is completed, click leaves them among the arguments.
    """
    values = (context.params.get(name) for name in ("files", "file", "sides"))
    for value in values:
        if value:
            return (value,) if isinstance(value, str) else tuple(value)
    return tuple(word for word in context.args if not word.startswith("-"))


def _of_type(incomplete: str, kind: str) -> "list[CompletionItem]":
    """Return an item that tells the shell to complete files (`file`) or folders (`dir`)."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def _starting(incomplete: str, words: Iterable[str]) -> "list[CompletionItem]":
    """Return the words that start with what is written so far."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
