r"""The help of a click command in parts, and as a manual page in roff.

click-man also writes such pages, but only to a folder, and it joins the lines of examples. Macros
are described in man(7): https://man.openbsd.org/man.7. A line of text must not start with a dot or
a quote. `\` and `-` are escaped, so that you can copy them from the page.
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import wrap

import click

from mlgen.output import pages
from mlgen.resources import table

VERBATIM = "\b\n"
"""Marks a paragraph whose line breaks click keeps."""

EXAMPLES = "Examples:\n"


@dataclass(frozen=True)
class Manual:
    """The help of a command.

    Attributes:
        name: name including the program: `mlgen render`.
        usage: synopsis.
        summary: first paragraph of the help.
        paragraphs: other paragraphs. Some have line breaks, which must be kept.
        examples: commands, one per line; "" for none.
        options: pairs of synopsis and help.
        commands: subcommands.
        shared: options that it shares with other commands, by name in `commands.json`.
    """

    name: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    examples: str
    options: tuple[tuple[str, str], ...]
    commands: tuple["Manual", ...]
    shared: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def own_options(self) -> tuple[tuple[str, str], ...]:
        """The options, without --help."""
        return tuple(option for option in self.options if not option[0].endswith("--help"))

    @property
    def unshared_options(self) -> tuple[tuple[str, str], ...]:
        """The options that it shares with no other command."""
        return tuple(each for each in self.own_options if each not in self.shared.values())

    @property
    def shared_sets(self) -> dict[str, list[str]]:
        """The shared options that the command has, by the title of their set."""
        return {
            title: shared
            for title, keys in option_sets().items()
            if (shared := [self.shared[key][0] for key in keys if key in self.shared])
        }

    def grouped(self, groups: Mapping[str, Collection[str]]) -> dict[str, list["Manual"]]:
        """Return the subcommands by title. `groups` contains their names by title."""
        by_name = {command.name.rpartition(" ")[2]: command for command in self.commands}
        return {title: [by_name[name] for name in names] for title, names in groups.items()}


def manual(command: click.Command, context: click.Context) -> Manual:
    """Return the help of a command.

    Args:
        command: mlgen, or one of its commands.
        context: context of the command. Its path becomes the name.
    """
    summary, *rest = _paragraphs(command.help or "")
    examples = [text.removeprefix(EXAMPLES) for text in rest if text.startswith(EXAMPLES)]
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    pairs = [(option, option.get_help_record(context)) for option in options]
    records = [(option, record) for option, record in pairs if record]
    return Manual(
        name=context.command_path,
        usage=" ".join((context.command_path, *command.collect_usage_pieces(context))),
        summary=summary,
        paragraphs=tuple(text for text in rest if not text.startswith(EXAMPLES)),
        examples="\n".join(map(inspect.cleandoc, examples)),
        options=tuple(record for _, record in records),
        commands=tuple(_subcommands(command, context)),
        shared=dict(_shared(records)),
    )


def option_sets() -> dict[str, list[str]]:
    """Return the names of options that several commands share, by the title of their set."""
    rows = table("commands")
    titled = {
        f"{name if name == 'kubectl' else name.capitalize()} options": keys
        for name, keys in rows["sets"].items()
    }
    listed = {key for keys in titled.values() for key in keys}
    uses = [key for items in rows["commands"].values() for key in items if isinstance(key, str)]
    others = [
        key
        for key, row in rows["shared"].items()
        if key not in listed and uses.count(key) > 1 and row["names"][0].startswith("-")
    ]
    return {**titled, "Other common options": others}


def _shared(
    options: Iterable[tuple[click.Option, tuple[str, str]]],
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the options with a shared help: name in `commands.json`, synopsis and help."""
    rows = table("commands")["shared"]
    names = {row["help"]: name for name, row in rows.items() if "help" in row}
    for option, record in options:
        if option.help in names:
            yield names[option.help], record


def _subcommands(command: click.Command, context: click.Context) -> Iterator[Manual]:
    """Yield the help of each subcommand."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield manual(inner, click.Context(inner, parent=context, info_name=name))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text, each in one line or verbatim."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        verbatim = paragraph.startswith(VERBATIM)
        lines = paragraph.removeprefix(VERBATIM).rstrip()
        yield lines if verbatim else lines.replace("\n", " ")


def page(manual: Manual, version: str, groups: Mapping[str, Collection[str]] | None = None) -> str:
    """Return the manual page of a command.

    Args:
        manual: help of the command.
        version: version of mlgen.
        groups: names of the subcommands, by the title of their section.
    """
    return pages.page(
        "reference/command.roff",
        manual=manual,
        title=manual.name.replace(" ", "-"),
        version=version,
        groups=manual.grouped(groups) if groups else {"Commands": manual.commands},
        filled=_filled,
        escaped=_escaped,
    )


def _filled(text: str) -> str:
    """Return a paragraph, escaped and wrapped at 72 columns."""
    lines = wrap(text, 72, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(_escaped, lines))


def _escaped(line: str) -> str:
    """Return a line of text, escaped."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
