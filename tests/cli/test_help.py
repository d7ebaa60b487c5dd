"""Help texts: one sentence per command, an imperative per option, and commands in the docs."""

import re
from inspect import cleandoc

import click
import pytest
from support import ROOT

from mlgen.cli import COMMANDS, main

IMPERATIVES = {
    "Add", "Compare", "Omit", "Override", "Print", "Render", "Retry", "Set", "Show", "Target",
    "Wait", "Write",
}  # fmt: skip
"""The verbs with which the help of an option starts."""

CONTEXT = click.Context(main)


def command(name):
    return main.get_command(CONTEXT, name)


def commands(name):
    """A command, and its subcommands."""
    yield command(name)
    yield from getattr(command(name), "commands", {}).values()


OPTIONS = {
    f"{item.name} {option.opts[-1]}": option
    for name in COMMANDS
    for item in commands(name)
    for option in item.params
    if isinstance(option, click.Option)
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_sentence_of_each_help(name):
    first = cleandoc(command(name).help).partition("\n\n")[0]

    assert first.replace("\n", " ") == COMMANDS[name]
    assert command(name).name == name


def test_every_file_is_a_command():
    files = {path.stem for path in (ROOT / "mlgen/cli").glob("[!_]*.py")}

    assert files == {name.replace("-", "_") for name in COMMANDS}


def test_commands_are_listed_by_name():
    assert list(COMMANDS) == sorted(COMMANDS) == main.list_commands(CONTEXT)
    assert command("no-such-command") is None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name):
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]

    assert any(re.search(rf"\bmlgen {name}\b", page.read_text()) for page in pages)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_help_of_an_option_is_a_sentence_in_the_imperative(name):
    text = OPTIONS[name].help

    assert text.split()[0] in IMPERATIVES
    assert text.endswith(".")


@pytest.mark.parametrize(
    "item",
    [item for name in COMMANDS for item in commands(name)],
    ids=lambda item: item.name,
)
def test_a_command_is_described_by_a_sentence(item):
    first = cleandoc(item.help).partition("\n\n")[0]

    assert re.fullmatch(r"[A-Z][a-z]+ [^.]*\.", first.replace("\n", " "))
    assert len(first) <= 80  # not cut in a list of commands
