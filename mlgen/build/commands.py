"""What click says of the command line, for `mlgen.quick`: help, and what a shell completes."""

from collections.abc import Iterator
from typing import Any

import click

from mlgen.cli import COMMANDS, main
from mlgen.quick import PROGRAM
from mlgen.quick.help_text import WIDTHS

MARGIN = 2
"""The columns of a terminal that click leaves free."""

OTHER = "/"
"""Written for a value: no choice starts with it, and a file may."""


def files() -> dict[str, str]:
    """Return the modules `help_texts` and `completion`."""
    texts = {
        width: {name: _context(name, width).get_help() + "\n" for name in ("", *COMMANDS)}
        for width in WIDTHS
    }
    parameters = {name: tuple(_parameters(_context(name))) for name in ("", *COMMANDS)}
    words = tuple((item.value, item.help or "") for item in main.shell_complete(_context(""), ""))
    return {
        "help_texts.py": f"TEXTS = {texts!r}\n",
        "completion.py": f"COMMANDS = {words!r}\nPARAMETERS = {parameters!r}\n",
    }


def _context(name: str, width: int = WIDTHS[0]) -> click.Context:
    """Return click's context of a command, or of mlgen itself, on a terminal of a width."""
    program = main.make_context(PROGRAM, [], resilient_parsing=True, terminal_width=width - MARGIN)
    command = main.get_command(program, name)
    if command is None:
        return program
    return command.make_context(name, [], parent=program, resilient_parsing=True)


def _parameters(context: click.Context) -> Iterator[tuple[Any, ...]]:
    """Yield the parameters of a command as `mlgen.quick.completion` reads them."""
    for parameter in context.command.get_params(context):
        values = _values(context, parameter)
        if isinstance(parameter, click.Option):
            options = (*parameter.opts, *parameter.secondary_opts)
            count = 0 if parameter.is_flag else parameter.nargs
            yield options, count, parameter.multiple, parameter.help or "", values
        else:
            yield (), parameter.nargs, False, "", values


def _values(context: click.Context, parameter: click.Parameter) -> str | tuple[str, ...] | None:
    """Return the choices of a parameter, `file` or `dir`; None if others may complete it."""
    if isinstance(parameter.type, click.Choice):
        return tuple(item.value for item in parameter.shell_complete(context, ""))
    kinds = [item.type for item in parameter.shell_complete(context, OTHER)]
    return kinds[0] if kinds in (["file"], ["dir"]) else None
