"""Help texts: one sentence per command, an imperative per option, and commands in the docs."""

import re
import shlex
from inspect import cleandoc

import click
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import COMMANDS, FILES, GROUPS, main
from mlgen.cli._options import SharedOption

IMPERATIVES = {
    "Add", "Check", "Color", "Compare", "Delete", "Ignore", "Omit", "Override", "Overwrite",
    "Print", "Reject", "Render", "Retry", "Run", "Select", "Set", "Show", "Start", "Target", "Use",
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


def first_sentence(item):
    return cleandoc(item.help).partition("\n\n")[0].replace("\n", " ")


def test_the_list_of_commands_has_the_first_sentence_of_each_help():
    assert COMMANDS == {command(name).name: first_sentence(command(name)) for name in COMMANDS}


def test_every_file_has_the_commands_of_a_group():
    files = {path.stem for path in (ROOT / "mlgen/cli").glob("[!_]*.py")}

    assert files == {*FILES.values()}


def test_the_own_options_of_a_command_come_before_those_that_it_shares():
    text = CliRunner().invoke(main, ["wait", "--help"], terminal_width=60).stdout

    assert (
        text.partition("\nOptions:\n")[2]
        == """\
  --timeout DURATION  Wait at most this long, such as 90s,
                      30m, 8h or 1h30m.  [default: (no
                      limit)]
  -h, --help          Show this message and exit.

Selection options:
  -l, --selector SELECTOR  Select jobs in the cluster by
                           their labels, as for kubectl:
                           team=vision,tier!=test.
  -A, --all-namespaces     Select jobs of all namespaces of
                           the cluster.

kubectl options:
  --context TEXT     Use this kubeconfig context instead of
                     the current one.
  --kubeconfig FILE  Use this kubeconfig file instead of the
                     one that kubectl finds.

Rendering options, described by mlgen render --help:
  --kube-version, --namespace, --set, --matrix, --runtime,
  --no-config, --as

Reporting options, described by mlgen render --help:
  --problems, --color, --quiet, --verbose
"""
    )


def test_the_help_of_render_describes_what_the_help_of_others_refers_to():
    described = {option.name for option in command("render").params}

    assert {"Rendering options", "Reporting options"} == {
        option.section
        for option in OPTIONS.values()
        if isinstance(option, SharedOption) and option.name in described
    }
    assert {"context", "kubeconfig", "selector", "everywhere"} == {
        option.name
        for option in OPTIONS.values()
        if isinstance(option, SharedOption) and option.name not in described
    }


def test_commands_are_listed_in_groups():
    text = CliRunner().invoke(main, ["--help"]).stdout

    sections = [part.partition(":\n") for part in text.split("\n\n")]
    listed = {
        title: re.findall(r"^  (\S+)", lines, re.MULTILINE)
        for title, _, lines in sections
        if title in GROUPS
    }
    assert listed == {title: list(group) for title, group in GROUPS.items()}
    assert list(COMMANDS) == main.list_commands(CONTEXT)
    assert command("no-such-command") is None


def examples(text):
    """The lines of the examples in a help text."""
    block = text.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line for line in block.splitlines() if line.strip()]


def test_every_command_has_examples_that_fit_a_terminal():
    helps = {
        name: CliRunner().invoke(main, [name, "--help"], terminal_width=80).stdout
        for name in COMMANDS
    }

    assert [] == [name for name, text in helps.items() if not examples(text)]
    assert [] == [line for text in helps.values() for line in examples(text) if "mlgen" not in line]
    assert [] == [line for text in helps.values() for line in text.splitlines() if len(line) > 100]


def test_the_options_in_examples_exist():
    unknown = []
    for name in COMMANDS:
        for line in examples(cleandoc(command(name).help)):
            for part in re.split(r"[|&;>#(]+", line):
                if not part.strip().startswith("mlgen "):
                    continue
                _, called, *words = shlex.split(part.rstrip(' )"'))
                known = {
                    option
                    for item in commands(called)
                    for parameter in item.params
                    for option in (*parameter.opts, *parameter.secondary_opts)
                }
                options = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
                unknown += [f"{name}: {option} of {called}" for option in options - known]

    assert [] == unknown


def test_every_command_is_documented():
    """In a page other than the README, which lists all commands."""
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))

    assert [] == [name for name in COMMANDS if not re.search(rf"\bmlgen {name}\b", pages)]


def test_the_help_of_an_option_is_a_sentence_in_the_imperative():
    texts = {name: option.help for name, option in OPTIONS.items()}

    assert {} == {
        name: text
        for name, text in texts.items()
        if text.split()[0] not in IMPERATIVES or not text.endswith(".")
    }


def test_a_command_is_described_by_a_short_sentence():
    """A list of commands does not cut it."""
    firsts = [first_sentence(item) for name in COMMANDS for item in commands(name)]

    assert [] == [
        first
        for first in firsts
        if len(first) > 80 or not re.fullmatch(r"[A-Z][a-z]+ [^.]*\.", first)
    ]
