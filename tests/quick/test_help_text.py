"""Prepared help is that of click, at each width of a terminal for which there is some."""

import io
import os
import shutil

import pytest

from mlgen import quick
from mlgen.cli import COMMANDS, main
from mlgen.quick.help_text import columns

WIDTHS = {"": True, "0": True, "wide": True, "80": True, "100": True, "240": True,
          "20": False, "79": False, "99": False}  # fmt: skip
"""Values of COLUMNS, and whether a text is prepared for it."""


@pytest.fixture
def printed(capsys):
    """Function that returns the exit status and the output of click."""

    def printed(words):
        with pytest.raises(SystemExit) as end:
            main(words, prog_name="mlgen")
        return end.value.code, *capsys.readouterr()

    return printed


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.usefixtures("prepared")
def test_the_help_of_every_command(width, printed, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    for command in ([], *([name] for name in COMMANDS)):
        # click remembers the first context's names of the option at a command.
        words = [*command, "--help" if width or command else "-h"]

        shown = quick.run(["/usr/bin/mlgen", *words]), *capsys.readouterr()

        assert (printed(words) if WIDTHS[width] else (None, "", "")) == shown


def test_the_version_needs_no_prepared_text(printed, capsys):
    shown = quick.run(["mlgen", "--version"]), *capsys.readouterr()

    assert printed(["--version"]) == shown


@pytest.mark.parametrize(
    "words",
    [
        ["mlgen"],
        ["mlgen", "rendr", "--help"],
        ["mlgen", "-h", "--help"],
        ["mlgen", "render", "a.yaml", "--help"],
        ["mlgen", "--help", "render"],
        ["/usr/lib/mlgen/__main__.py", "--help"],  # its help says `python -m mlgen`
        ["/usr/bin/mlgen-0.2", "--version"],
    ],
)
@pytest.mark.usefixtures("prepared")
def test_all_else_is_left_to_click(words, capsys):
    assert quick.run(words) is None
    assert ("", "") == capsys.readouterr()


def test_so_is_everything_in_a_checkout():
    assert quick.run(["mlgen", "--help"]) is None


@pytest.mark.usefixtures("prepared")
def test_an_output_of_another_encoding_is_left_to_click(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))

    assert quick.run(["mlgen", "render", "--help"]) is None


@pytest.mark.parametrize("width", ["", "0", "-1", "x", "72"])
@pytest.mark.parametrize("terminal", [120, 0, None])
def test_the_width_is_that_which_click_asks_for(width, terminal, monkeypatch):
    def size(_descriptor):
        if terminal is None:
            raise OSError
        return os.terminal_size((terminal, 24))

    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setattr("os.get_terminal_size", size)

    assert shutil.get_terminal_size().columns == columns()
