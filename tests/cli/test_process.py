"""How a command ends that is interrupted, or whose output cannot be written; see test_terminal."""

import errno
import io
import sys

import click
import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import _progress, _report, main
from mlgen.cli._process import interruptible, output_checked
from mlgen.documents.files import Text
from mlgen.output.streams import INTERRUPTED

GOOD, BAD = "fixtures/tensorflow-single.yaml", "fixtures/invalid/unknown-role.yaml"


@pytest.fixture
def terminal(monkeypatch):
    """Every stream is taken for a terminal, and nothing is quick."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(_report, "_is_terminal", lambda stream: stream is not None)
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    monkeypatch.delenv("CI", raising=False)
    return lambda *words, **streams: CliRunner().invoke(
        main, list(map(str, words)), catch_exceptions=False, **streams
    )


def abort():
    """Interrupt a question as click does."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise click.Abort from None


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_interrupt_ends_the_line_of_a_terminal_only(is_terminal, monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)

    with pytest.raises(click.exceptions.Exit) as end, interruptible():
        raise KeyboardInterrupt

    assert (INTERRUPTED, "\n" * is_terminal) == (end.value.exit_code, stderr.getvalue())


def test_an_interrupted_question_is_an_interrupt():
    with pytest.raises(click.exceptions.Exit) as end, interruptible():
        abort()

    assert end.value.exit_code == INTERRUPTED


def test_a_question_without_an_answer_is_not_an_interrupt():
    with pytest.raises(click.Abort), interruptible():
        raise click.Abort


def test_an_output_that_cannot_be_written_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    with pytest.raises(SystemExit) as end, output_checked():
        raise OSError(errno.ENOSPC, "No space left on device")

    assert 1 == end.value.code
    line = "Error: cannot write to standard output: No space left on device\n"
    assert line == capsys.readouterr().err


def test_an_error_about_a_file_is_not_about_the_output():
    with pytest.raises(FileNotFoundError), output_checked():
        raise FileNotFoundError(errno.ENOENT, "No such file", "a.yaml")


def test_a_closed_output_cannot_be_written(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)

    with pytest.raises(SystemExit), output_checked():
        click.echo("manifests")

    assert capsys.readouterr().err == "Error: cannot write to standard output: it is closed\n"


def test_a_closed_input_is_a_problem(monkeypatch):
    from mlgen.documents.files import texts

    monkeypatch.setattr(sys, "stdin", None)

    (text,) = texts(("-",))

    assert "standard input is closed" in str(text.problem)


def test_what_only_a_person_is_told(terminal):
    rendered = terminal("render", GOOD, "-")

    assert rendered.stderr.startswith("reading standard input; end it with Ctrl-D\n")
    assert "for an example: mlgen explain empty\n" in rendered.stderr
    assert terminal("render", GOOD, "-n", "a").stderr == (
        f"next:\n  mlgen status {GOOD} --namespace a\n  mlgen logs {GOOD} --namespace a --follow\n"
    )
    assert terminal("render", GOOD, "-q").stderr == ""


def test_a_gitops_tool_applies_what_is_rendered_for_it(terminal, tmp_path):
    applied = terminal("render", GOOD, "-o", tmp_path / "a.yaml").stderr
    committed = terminal("render", GOOD, "-o", tmp_path / "a.yaml", "--for", "flux").stderr

    assert applied == committed.replace("next:", f"next:\n  kubectl apply -f {tmp_path}/a.yaml")


def test_a_build_has_no_next_command(terminal):
    assert terminal("render", GOOD, env={"CI": "true"}).stderr == ""


def test_standard_input_is_not_there_for_the_next_command(terminal):
    assert terminal("render", "-", input=(ROOT / GOOD).read_text()).stderr.count("\n") == 1


def test_progress_goes_on_to_the_end(terminal):
    shown = terminal("validate", GOOD, BAD, GOOD.replace("single", "ps")).stderr

    assert "checking" in shown
    assert "3 files, 3 jobs, 2 problems\n" in shown


def test_the_progress_bar_ends_if_the_work_fails(monkeypatch):
    monkeypatch.setattr(_report, "_is_terminal", lambda _: True)
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    stderr = io.StringIO()
    stderr.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stderr)

    def work():
        with _report.progress([Text("a", "x")] * 3, "reading", 3) as texts:
            for number, _ in enumerate(texts):
                if number == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()

    assert stderr.getvalue().endswith("\x1b[?25h\n")  # the cursor is visible again
