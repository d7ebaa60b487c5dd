r"""A command of click → the parts of its help, and a manual page in roff.

click-man writes such pages too, but into a folder, and it joins the lines of examples. The macros
are those of man(7): https://man.openbsd.org/man.7. Text must not start with a dot or a quote, and
has `\` and `-` escaped, so that they are copied as they are shown.
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import wrap

import click

from mlgen.output import pages
from mlgen.resources import table

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
        shared: the options that it shares with other commands, by name in `commands.json`.
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
        """The options without --help, which every command has."""
        return tuple(option for option in self.options if not option[0].endswith("--help"))

    @property
    def unshared_options(self) -> tuple[tuple[str, str], ...]:
        """The options that no other command shares."""
        return tuple(each for each in self.own_options if each not in self.shared.values())

    @property
    def shared_sets(self) -> dict[str, list[str]]:
        """The options that it shares, by the title of their set; [] for all of a set."""
        sets = {
            title: [k for k in keys if k in self.shared] for title, keys in option_sets().items()
        }
        return {
            title: [] if keys == option_sets()[title] else [self.shared[key][0] for key in keys]
            for title, keys in sets.items()
            if keys
        }

    def grouped(self, groups: Mapping[str, Collection[str]]) -> dict[str, list["Manual"]]:
        """Return the subcommands under the titles of groups, which have their names."""
        by_name = {command.name.rpartition(" ")[2]: command for command in self.commands}
        return {title: [by_name[name] for name in names] for title, names in groups.items()}


def manual(command: click.Command, context: click.Context) -> Manual:
    """Return the help of a command.

    Args:
        command: of mlgen, or mlgen itself.
        context: of the command; its path is the name.
    """
    summary, *rest = _paragraphs(command.help or "")
    examples = [text.removeprefix(EXAMPLES) for text in rest if text.startswith(EXAMPLES)]
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    pairs = [(option, option.get_help_record(context)) for option in options]
    records = [(option, record) for option, record in pairs if record]
    name = context.command_path.partition(" ")[2]
    return Manual(
        name=context.command_path,
        usage=" ".join((context.command_path, *command.collect_usage_pieces(context))),
        summary=summary,
        paragraphs=tuple(text for text in rest if not text.startswith(EXAMPLES)),
        examples="\n".join(map(inspect.cleandoc, examples)),
        options=tuple(record for _, record in records),
        commands=tuple(_subcommands(command, context)),
        shared=dict(_shared(name, records)),
    )


def option_sets() -> dict[str, list[str]]:
    """Return the names of the options that several commands share, by the title of their set."""
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
    command: str, options: Iterable[tuple[click.Option, tuple[str, str]]]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the options of a command that others share: name in the table, and its help."""
    rows = table("commands")
    items = [item for item in rows["commands"].get(command, ()) if isinstance(item, str)]
    keys = [key for item in items for key in rows["sets"].get(item, [item])]
    for key in keys:
        for option, record in options:
            if rows["shared"][key]["names"][0].partition("/")[0] in option.opts:
                yield key, record


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


def page(manual: Manual, version: str, groups: Mapping[str, Collection[str]] | None = None) -> str:
    """Return the manual page of a command.

    Args:
        manual: its help.
        version: of mlgen.
        groups: titles of the subcommands' sections, with the names of these.
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
    """Return a paragraph, escaped, in lines as short as a source of roff should have."""
    lines = wrap(text, 72, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(_escaped, lines))


def _escaped(line: str) -> str:
    """Return a line of text, escaped."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
