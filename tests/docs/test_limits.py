"""The bounds in docs/limits.md equal the bounds in mlgen/bounds.py."""

import re
from pathlib import Path

from mlgen import bounds
from mlgen.variants import matrix

PAGE = Path(__file__).parent.parent.parent / "docs/limits.md"

UNLISTED = {"CHOICES", "COMPARED", "DIFF_LINES", "EXPANDED", "WORD"}
"""Bounds that only make a message or a page shorter."""


def test_the_page_lists_every_bound():
    section = PAGE.read_text().partition("## Bounds\n")[2].partition("\n## ")[0]
    listed = re.findall(r"\| ([\d,]+)( MiB)? \|", section)
    figures = [int(text.replace(",", "")) << (20 if unit else 0) for text, unit in listed]
    constants = [
        value for name, value in vars(bounds).items() if name.isupper() and name not in UNLISTED
    ]
    assert sorted(figures) == sorted([*constants, matrix.MAX])
