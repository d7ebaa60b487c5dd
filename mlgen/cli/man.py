"""mlgen man."""

import click

from mlgen import __version__
from mlgen.cli import COMMANDS, GROUPS, _complete, main
from mlgen.problems import did_you_mean
from mlgen.reference import man


@click.command("man")
@click.argument("name", metavar="COMMAND", required=False, shell_complete=_complete.commands)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """Print the manual page.

    It has all commands, or COMMAND alone, in the format that man reads.

    \b
    Examples:
      mlgen man | man -l -                                # read it
      mlgen man render > ~/.local/share/man/man1/mlgen-render.1
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    root = click.Context(main, info_name="mlgen", **main.context_settings)
    if name is None:
        text = man.page(man.manual(main, root), __version__, GROUPS)
    else:
        inner = main.get_command(root, name)
        if inner is None:
            hint = did_you_mean(name, COMMANDS) or "mlgen --help lists all"
            raise click.UsageError(f'there is no command "{name}"; {hint}', context)
        child = click.Context(inner, parent=root, info_name=name)
        text = man.page(man.manual(inner, child), __version__)
    click.echo(text.encode(), nl=False)
