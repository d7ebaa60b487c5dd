"""No command prints control characters from a file to a terminal."""

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main
from mlgen.output.next_steps import next_steps
from mlgen.output.terminal import UNSAFE

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
    "validate --problems sarif",
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
