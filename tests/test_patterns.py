"""No regular expression takes more than linear time, whatever the text.

`patterns.json` lists each expression with the text that costs it the most steps. `patterns.py`
writes that table.
"""

import json

import pytest
from patterns import LOCAL, SIZE, TABLE, growth, uses

LIMIT = 3
"""The largest growth of the steps: it is 2 if they are linear, and 4 if they are quadratic."""

BOUNDED = {}
"""Expressions whose text is limited before, with the limit."""

USES, UNKNOWN = uses(LOCAL)
ROWS = json.loads(TABLE.read_text())


def test_each_expression_is_known():
    """An expression that is built at run time needs a row in `LOCAL`."""
    assert UNKNOWN == []


def test_each_expression_has_a_row():
    assert {(use.pattern, use.mode) for use in USES} == {
        (row["pattern"], row["mode"]) for row in ROWS
    }, "run python tests/patterns.py"
