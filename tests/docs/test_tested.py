"""The page of tested versions lists the programs of the tests, as the project pins them."""

import re

from support import ROOT

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs/contributing/tested.md").read_text().splitlines()
    if line.startswith("| ")
][2:]

BUILT = re.findall(r"^built (\w\S+?)\d? \S+@v(\S+)", (ROOT / ".ci/tools").read_text(), re.MULTILINE)
LINT = re.findall(r"^(checkov)==(\S+)", (ROOT / ".ci/pins/lint.txt").read_text(), re.MULTILINE)


def test_the_tests_of_every_row_exist():
    places = [place for *_, cell in ROWS for place in re.findall(r"`(.+?)`", cell)]

    assert len(places) >= len(ROWS)
    assert [] == [place for place in places if not (ROOT / place).exists()]


def test_every_folder_of_parts_has_a_row():
    folders = {f"tests/parts/{path.parent.name}" for path in ROOT.glob("tests/parts/*/test_*.py")}
    listed = {place for *_, cell in ROWS for place in re.findall(r"`(tests/parts/\w+)`", cell)}

    assert folders == listed


def test_a_row_has_the_version_that_is_built():
    rows = [*BUILT, *LINT]

    for name, version in rows:
        (row,) = (row for row in ROWS if f"[{name}]" in row[0].lower())

        assert version in row[0]
