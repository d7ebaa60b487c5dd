"""A command of click → the parts of its help text, for manual pages and for the docs."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import click

VERBATIM = "\b\n"
"""What click expects before a paragraph that keeps its lines."""

EXAMPLES = "Examples:\n"


@dataclass(frozen=True)
class Manual:
    """The help of a command.

    Attributes:
        name: with the name of the program: `mlgen render`.
        usage: its synopsis.
        summary: its first sentence.
        paragraphs: the others; one with line breaks keeps its lines.
        examples: commands, one per line; "" if there are none.
        options: each as it is written, and its help.
        commands: its subcommands.
    """

    name: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    examples: str
    options: tuple[tuple[str, str], ...]
    commands: tuple["Manual", ...]

    @property
    def own_options(self) -> tuple[tuple[str, str], ...]:
        """The options without --help, which every command has."""
        return tuple(option for option in self.options if not option[0].endswith("--help"))


def manual(command: click.Command, context: click.Context) -> Manual:
    """Return the help of a command.

    Args:
        command: of mlgen, or mlgen itself.
        context: of the command; its path is the name.
    """
    summary, *rest = _paragraphs(command.help or "")
    examples = [text.removeprefix(EXAMPLES) for text in rest if text.startswith(EXAMPLES)]
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return Manual(
        name=context.command_path,
        usage=" ".join((context.command_path, *command.collect_usage_pieces(context))),
        summary=summary,
        paragraphs=tuple(text for text in rest if not text.startswith(EXAMPLES)),
        examples="\n".join(map(inspect.cleandoc, examples)),
        options=tuple(record for record in records if record),
        commands=tuple(_subcommands(command, context)),
    )


def _subcommands(command: click.Command, context: click.Context) -> Iterator[Manual]:
    """Yield the help of each subcommand."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield manual(inner, click.Context(inner, parent=context, info_name=name))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text: in one line, or verbatim."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        verbatim = paragraph.startswith(VERBATIM)
        lines = paragraph.removeprefix(VERBATIM).rstrip()
        yield lines if verbatim else lines.replace("\n", " ")
