"""Generate docs/reference/commands.md from the help of the commands."""

import inspect
import re
from html import escape

import click
from reference.markdown import cell

from mlgen.cli import COMMANDS, GROUPS, main
from mlgen.cli._options import SharedOption

VERBATIM, EXAMPLES = "\b\n", "Examples:\n"
"""The start of a paragraph whose line breaks click keeps, and of the examples."""

CODE = re.compile(
    r"('[^' ]*[=*][^']*'|(?<![\w-])--?[a-z][\w-]*(?: DIR\b)?|\bspec\.[\w.=]+\w|\.mlgen/[\w.]+\w)"
)
"""Code in the help of an option: a quoted value, an option or a path."""

SECTIONS = {
    "Reporting options": (
        "These options control how mlgen prints problems. [Problems](problems/index.md#formats)"
        " describes the formats."
    ),
    "Rendering options": (
        "These options change the rendered jobs. [mlgen.toml](config.md) sets defaults for them."
    ),
    "kubectl options": "These options select the cluster.",
}
"""The introduction to each section of options that several commands share."""

INTRO = """\
# Commands: CLI reference

<!-- Written by .ci/reference; do not edit. -->

This page describes all commands and options of `mlgen`. `mlgen COMMAND --help` prints the help of
one command.
"""


def commands_page():
    """Return the page of all commands."""
    root = click.Context(main, info_name="mlgen", **main.context_settings)
    contexts = {name: _context(main.get_command(root, name), root, name) for name in COMMANDS}
    every = [inner for context in contexts.values() for inner in _with_subcommands(context)]
    every.sort(key=lambda context: context.info_name != "render")  # it has all in their order
    parts = [INTRO, *(_list_of(title, commands) for title, commands in GROUPS.items())]
    parts += ["## Common options\n"]
    for title, introduction in SECTIONS.items():
        rows = dict(record for context in every for record in _records(context, title))
        parts += [f"### {title}\n", f"{introduction}\n", _table(rows.items())]
    for title, commands in GROUPS.items():
        parts += [f"## {title}\n", *(_section(contexts[name], "###") for name in commands)]
    return "\n".join(parts)


def _context(command, parent, name):
    return click.Context(command, parent=parent, info_name=name)


def _with_subcommands(context):
    """Yield the context of a command, and those of its subcommands."""
    yield context
    for name, command in getattr(context.command, "commands", {}).items():
        yield _context(command, context, name)


def _records(context, title=""):
    """Return the names and help of a command's options in a section, or of its own options."""
    return [
        option.get_help_record(context)
        for option in context.command.params
        if isinstance(option, click.Option)
        and title == (option.section if isinstance(option, SharedOption) else "")
    ]


def _link(context, title):
    """Return a link to a section of shared options, or "" if a command has none of them.

    Commands have all options of a section, except for the rendering options.
    """
    names = [re.search(r"--[\w-]+", names)[0] for names, _ in _records(context, title)]
    short, _, _ = title.partition(" options")
    link = f"[{short[:1].lower()}{short[1:]}](#{title.lower().replace(' ', '-')})"
    shown = f": {', '.join(map(cell, names))}" if short == "Rendering" else ""
    return link + shown if names else ""


def _list_of(title, commands):
    """Return the table of a group of commands."""
    rows = [f"| [{name}](#mlgen-{name}) | {_prose(text)} |" for name, text in commands.items()]
    return "\n".join([f"| {title} | |", "| --- | --- |", *rows, ""])


def _table(records):
    """Return the table of options."""
    rows = [f"| {cell(names)} | {_help(text)} |" for names, text in records]
    return "\n".join(["| Option | Description |", "| --- | --- |", *rows, ""])


def _section(context, level):
    """Return the section of a command, with its subcommands."""
    command = context.command
    summary, *rest = _paragraphs(command.help)
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    parts = [f"{level} {context.command_path}\n", f"{_prose(summary)}\n", _block(usage)]
    examples = [text.removeprefix(EXAMPLES) for text in rest if text.startswith(EXAMPLES)]
    others = [text for text in rest if not text.startswith(EXAMPLES)]
    parts += [_block(text) if "\n" in text else f"{_prose(text)}\n" for text in others]
    if _records(context):
        parts.append(_table(_records(context)))
    shared = [_link(context, title) for title in sorted(SECTIONS, key="Rendering options".__eq__)]
    if any(shared):
        parts.append(f"Common options: {', '.join(filter(None, shared))}.\n")
    parts += [_block(inspect.cleandoc(text)) for text in examples]
    _, *inner = _with_subcommands(context)
    return "\n".join([*parts, *(_section(each, f"{level}#") for each in inner)])


def _paragraphs(text):
    """Return the paragraphs of a help text, each in one line or verbatim."""
    return [
        part.removeprefix(VERBATIM).rstrip()
        if part.startswith(VERBATIM)
        else part.rstrip().replace("\n", " ")
        for part in inspect.cleandoc(text).split("\n\n")
    ]


def _block(text):
    return f"```text\n{text}\n```\n"


def _prose(text):
    return escape(text, quote=False)


def _help(text):
    """Return the help of an option for a table cell, with code marked up."""
    text = re.sub(r"\s+\[x>=(\d+)\]$", r" Minimum: \1.", text)
    text, _, default = text.removesuffix("]").partition("  [default: ")
    words = CODE.split(_prose(text))
    words[1::2] = map(cell, CODE.findall(text))
    shown = "".join(words)
    return f"{shown} Default: {cell(default)}." if default else shown
