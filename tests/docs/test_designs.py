"""The commands in the tables of docs/designs.md print the words that follow them."""

import re
import shlex

import pytest
from click.testing import CliRunner
from pages import DOCS
from support import ROOT

from mlgen.cli import main

ROWS = [
    line.split(" | ")[2]
    for line in (DOCS / "designs.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| the design ", "| --- "))
]
SHOWN = [re.findall(r"`([^`]+)`", cell) for cell in ROWS if "`mlgen " in cell]


def test_almost_every_row_has_a_command():
    assert len(SHOWN) > 0.85 * len(ROWS) > 40


@pytest.mark.usefixtures("codes_of_rules")
@pytest.mark.parametrize("command", sorted({command for command, *_ in SHOWN}))
def test_a_command_prints_its_words(command, monkeypatch):
    monkeypatch.chdir(ROOT / "fixtures/resources")
    program, *words = shlex.split(command)
    result = CliRunner().invoke(main, words, prog_name=program)
    expected = {word for first, *rest in SHOWN if first == command for word in rest}

    assert result.exit_code == ("/invalid/" in command), result.output
    assert [] == sorted(word for word in expected if word not in result.output)
