"""The program exits with the status of its command."""

import os
import sys

import pytest

from mlgen import __main__ as program
from mlgen import __version__


@pytest.mark.parametrize(
    ("words", "status", "out"),
    [
        (["--version"], 0, f"mlgen, version {__version__}"),
        (["frameworks", "--no-such"], 2, ""),
        (["completion", "--help"], 0, "Usage: "),
    ],
)
def test_it_exits_with_the_status_of_the_command(words, status, out, monkeypatch, capsys):
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/mlgen", *words])

    with pytest.raises(SystemExit) as end:
        program.main()

    assert (status, out) == (end.value.code, capsys.readouterr().out[: len(out) or None])


def test_an_interrupt_of_the_start_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr("mlgen.cli.main", interrupted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with pytest.raises(SystemExit) as end:
        program.main()

    assert (130, "\n") == (end.value.code, capsys.readouterr().err)
