"""No command prints control characters from a file to a terminal."""

import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.output.manifests import next_steps
from mlgen.output.problems import Count, Style, github, json_text
from mlgen.output.problems import text as terminal_text
from mlgen.output.terminal import UNSAFE
from mlgen.problems import Place, Problem

TEXTS = ROOT / "fixtures/hostile/texts-for-a-terminal.yaml"

COMMANDS = [
    "render",
    "render --format json",
    "show",
    "show --replica worker-0",
    "show --defaults",
    "graph",
    "graph --format dot",
    "graph --format svg",
    "validate --color always",
    "validate --problems json",
    "validate --problems github",
    "argo",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_free_texts_are_printed_with_escapes(command, tool):
    if command.endswith("svg"):
        tool("dot")
    result = CliRunner().invoke(main, [*command.split(), str(TEXTS)], catch_exceptions=False)

    assert 0 == result.exit_code
    text = (result.stdout + result.stderr).replace("\x1b[0m", "").replace("\x1b[1", "")
    colors = text.replace("\x1b[36m", "").replace("\x1b;33m", "").replace("\n", "")
    assert len(result.stdout) > 80
    assert set(UNSAFE.findall(colors)) == set()


def commands(line):
    """Return the names of the commands that runners of CI find in a line.

    actions/runner, ActionCommand.cs. .NET ignores some invisible characters in a comparison.
    """
    visible = re.sub("[^ -~]", "", line)
    at_start = re.findall(r"^[ ]*::(.*?)::", visible)
    return at_start + re.findall(r"##[A-Za-z]*\[(.*?)\]", visible)


MARKS = ["##[error]", "##[stop-commands]x", "##vso[task.x]", "::error::", "::add-mask::a"]
MARKED = st.text(st.sampled_from("#[]: vsoa\xad\u034f\ufe0f\u200b\n\tx"), max_size=12)


@given(st.builds("".join, st.lists(st.one_of(MARKED, st.sampled_from(MARKS)), max_size=4)))
def test_no_line_of_a_message_is_a_command_of_ci(text):
    place = Place(text, 1, 1)
    problem = Problem((text,), text, "bad-value", text, place=place)
    sources = [Text(text, f"{text}: {text}\n")]
    count = Count(2, 2, (text,), (problem,))
    printed = [
        *(terminal_text([problem], sources, Style(source=source)) for source in (False, True)),
        *(json_text(count), str(count)),
    ]

    assert [] == [name for each in printed for line in each.split("\n") for name in commands(line)]
    assert ["error file"] == [name[:10] for name in commands(github([problem]).strip())]
    assert text == json.loads(json_text(count))["problems"][0]["message"]


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("render", "argo")])
def test_no_line_of_a_page_is_a_command_of_ci(command, tool):
    if command.endswith("svg"):
        tool("dot")
    result = CliRunner().invoke(main, [*command.split(), str(TEXTS)], catch_exceptions=False)

    lines = (result.stdout + result.stderr).splitlines()
    assert [] == [
        name
        for line in lines
        for name in commands(line)
        if not name.startswith(("warning title=mlgen", "warning file="))
    ]


def test_a_difference_is_printed_with_escapes(tmp_path):
    changed = tmp_path / "new.yaml"
    changed.write_text(TEXTS.read_text().replace('A: "', 'A: "changed '))

    result = CliRunner().invoke(main, ["diff", str(TEXTS), str(changed)], catch_exceptions=False)

    assert 3 == result.exit_code
    assert r"+changed \x9b31m" in result.stdout
    assert set(UNSAFE.findall(result.stdout)) == {"\n"}


def test_an_error_of_the_command_line_is_printed_with_escapes(tmp_path):
    (tmp_path / "\x1b[2J").mkdir()
    words = ["render", str(TEXTS), "-o", str(tmp_path / "\x1b[2J/a/b.yaml")]

    result = CliRunner().invoke(main, words, catch_exceptions=False)

    assert 1 == result.exit_code
    assert r"/\x1b[2J/a/b.yaml: cannot be written" in result.stderr


def test_no_line_of_a_page_is_forged():
    result = CliRunner().invoke(main, ["show", "--replica", "worker-0", str(TEXTS)])

    assert r"A='\x9b31m\n# forged: line'" in result.stdout


@pytest.mark.parametrize(
    ("file", "status"),
    [
        ("a b.yaml", "mlgen status 'a b.yaml'"),
        ("$(touch ran).yaml", "mlgen status '$(touch ran).yaml'"),
        ("it's.yaml", """mlgen status 'it'"'"'s.yaml'"""),
        ("--help", "mlgen status ./--help"),
        ("job.yaml", "mlgen status job.yaml"),
    ],
)
def test_a_shell_runs_nothing_in_the_name_of_a_file(file, status):
    lines = next_steps(1, [file], [], file).splitlines()

    assert f"  {status}" == lines[2]
    assert lines[1].endswith(status.removeprefix("mlgen status"))
