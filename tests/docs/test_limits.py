"""The bounds in docs/limits.md equal the bounds in mlgen/input_limits.py."""

import re
from pathlib import Path

from mlgen import input_limits as bounds

PAGE = Path(__file__).parent.parent.parent / "docs/limits.md"

UNLISTED = {
    *("CHOICES", "COMPARED", "DIFF_LINES", "EXPANDED", "FAILED_BYTES", "MESSAGE", "WORD"),
}
"""Bounds that only make messages or pages shorter, or fewer."""

UNITS = {"": 0, " KiB": 10, " MiB": 20}


def test_the_page_lists_every_bound():
    section = PAGE.read_text().partition("## Bounds\n")[2].partition("\n## ")[0]
    listed = re.findall(r"\| ([\d,]+)( [KM]iB)? \|", section)
    figures = [int(text.replace(",", "")) << UNITS[unit] for text, unit in listed]
    constants = [
        value for name, value in vars(bounds).items() if name.isupper() and name not in UNLISTED
    ]
    assert sorted(figures) == sorted(constants)
