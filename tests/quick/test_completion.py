"""What is completed without click is what click completes."""

import random

import pytest
from click.shell_completion import get_completion_class
from support import ROOT

from mlgen import quick
from mlgen.cli import COMMANDS, main

SHELLS = ("bash", "fish", "zsh")

OPTIONS = (
    "--format", "--problems", "--color", "-o", "--output", "--check", "--no-supervisor", "-n",
    "--namespace=team", "--problems=json", "--set", "--role", "-q", "-qv", "-h", "--help", "--",
    "--no-such", "-", "--quiet=yes", "-o=a", "--format=",
)  # fmt: skip
WORDS = ("job.yaml", "fixtures/mars.yaml", "yaml", "team", "-", "spec.roles", "bash", "'a b'", "é")
LASTS = (
    "", "-", "--", "--n", "--form", "--format=", "--format=y", "=", "y", "j", "job", "a/b", ".",
    "a=b", "-o", '"', "v", "--supervisor", "-q",
)  # fmt: skip


@pytest.fixture
def completed(prepared, monkeypatch, capsys):  # noqa: ARG001 - puts it in place
    """Function that returns what both print for a command line; None is what is left to click."""
    monkeypatch.chdir(ROOT)

    def completed(shell, words, last):
        line = " ".join(["mlgen", *words, last])
        place = last if shell == "fish" else str(len(words) + 1)
        for name, value in {"WORDS": line, "CWORD": place}.items():
            monkeypatch.setenv(f"COMP_{name}", value)
        monkeypatch.setenv(quick.COMPLETE, f"{shell}_complete")
        status = quick.run(["mlgen"])
        out, err = capsys.readouterr()
        assert (status, err) in ((0, ""), (None, ""))
        by_click = get_completion_class(shell)(main, {}, "mlgen", quick.COMPLETE)
        return None if status is None else out, by_click

    return completed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", " ".join(COMMANDS)),
        ("re", "render"),
        ("--v", "--version"),
        ("render ", "<file>"),
        ("diff a.yaml b", "<file>"),
        ("render job.yaml --form", "--format"),
        ("render --format ", "yaml json"),
        ("render --check ", "<dir>"),
        ("render -q --quie", ""),
        ("render --set a=b --se", "--set"),
        ("completion p", "powershell"),
        ("logs job.yaml --fo", "--follow"),
        ("logs job.yaml more", ""),
    ],
)
def test_what_is_completed(line, words, completed):
    *before, last = line.split(" ")

    out, _ = completed("bash", before, last)

    items = [item.split(",") for item in out.splitlines() if item]
    assert words.split() == [name if kind == "plain" else f"<{kind}>" for kind, name in items]


def test_it_is_what_click_completes(completed):
    chance = random.Random(15)
    quickly = 0
    for _ in range(400):
        command = chance.choice([*COMMANDS, "render", "render", "diff", "no-such", "--version"])
        pool = OPTIONS + WORDS
        words = [command, *chance.choices(pool, k=chance.randrange(4))][chance.random() < 0.1 :]
        shell, last = chance.choice(SHELLS), chance.choice([*LASTS, *OPTIONS])

        out, click = completed(shell, words, last)

        quickly += out is not None
        assert out is None or out == click.complete() + "\n", (shell, words, last)
    assert quickly > 100


@pytest.mark.parametrize(
    ("shell", "words", "last"),
    [
        ("bash", ["render", "--set"], "spec."),  # needs the schema
        ("bash", ["logs", "job.yaml", "--role"], ""),  # needs the job
        ("bash", ["explain"], "spec."),
        ("bash", ["render", "--no-such"], ""),
        ("bash", ["render", "'a"], ""),
        ("powershell", ["render"], ""),
    ],
)
def test_all_else_is_left_to_click(shell, words, last, completed):
    assert completed(shell, words, last)[0] is None


def test_so_is_everything_in_a_checkout(monkeypatch):
    monkeypatch.setenv(quick.COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "mlgen ")
    monkeypatch.setenv("COMP_CWORD", "1")

    assert quick.run(["mlgen"]) is None


@pytest.mark.parametrize(
    ("asked", "place"),
    [("bash_source", "1"), ("bash", "1"), ("csh_complete", "1"), ("", "1"), ("bash_complete", "")],
)
@pytest.mark.usefixtures("prepared")
def test_so_are_other_questions_of_a_shell(asked, place, monkeypatch):
    monkeypatch.setenv(quick.COMPLETE, asked)
    monkeypatch.setenv("COMP_WORDS", "mlgen ")
    monkeypatch.setenv("COMP_CWORD", place)

    assert quick.run(["mlgen"]) is None
