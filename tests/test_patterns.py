"""No regular expression needs more than linear time, whatever the text.

`patterns.json` lists each expression with the text that costs it the most steps. The text is given
as a prefix, a part that is repeated, and a suffix. `python tests/patterns.py` adds missing rows. It
tries several hundred texts for each, which takes a few seconds. These tests only count the steps
for that one text, in three sizes.
"""

import json

import pytest
from patterns import SIZE, TABLE, Use, growth, local, uses, worst

LIMIT = 3
"""The largest growth of the steps for twice the text: 2 is linear, 4 quadratic."""

EXCEPTIONS = {
    r"\$(?:\$|\(([^)]*)\))": "the text is cut after its last parenthesis, so each match ends",
    r"\[([^\]]+)\]\([^)]+\)": "a description of mlgen",
    r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$': "a page of mlgen",
}
"""Expressions that are not linear, and why no text of the input makes them slow."""


@pytest.fixture(scope="module")
def expressions():
    """All expressions of mlgen, and the places of those that cannot be evaluated."""
    return uses(local())


@pytest.mark.slow
def test_each_expression_can_be_evaluated(expressions):
    """An expression that the code composes from its input needs examples, in `local`."""
    assert [] == expressions[1]


@pytest.mark.slow
def test_each_expression_has_a_row(expressions):
    rows = {(row["pattern"], row["mode"]) for row in json.loads(TABLE.read_text())}
    assert rows == {(use.pattern, use.mode) for use in expressions[0]}, "run tests/patterns.py"


@pytest.mark.slow
def test_its_steps_grow_with_the_text(expressions):
    """An expression without a row is tried with several hundred texts."""
    rows = {(row["pattern"], row["mode"]): row["text"] for row in json.loads(TABLE.read_text())}
    texts = {use: rows.get((use.pattern, use.mode)) or worst(use) for use in expressions[0]}
    found = {use: growth(use, text, SIZE)[0] for use, text in texts.items() if text[1]}
    slow = {use.pattern: f"{use.place}: {texts[use]}" for use in found if found[use] > LIMIT}

    assert {} == {pattern: place for pattern, place in slow.items() if pattern not in EXCEPTIONS}
    assert {*EXCEPTIONS} <= {*slow}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "mode", "text"),
    [
        (r"\s*x", "search", ("", " ", "")),
        (r"(a|b)*c", "search", ("", "a", "")),
        (r"\w*e\w*", "fullmatch", ("", "e", "!")),
        (r"(a+)+", "fullmatch", ("", "a", "!")),
        (r"a(?=.*b)", "all", ("", "a", "")),
        (r"(['\"]).*\1x", "search", ("", "'", "")),
    ],
)
def test_a_slow_expression_is_found(pattern, mode, text):
    assert growth(Use(pattern, 0, mode, ""), text, SIZE)[0] > LIMIT


@pytest.mark.parametrize(
    ("pattern", "mode", "text"),
    [
        (r"x", "all", ("", "a", "")),
        (r"[a-z]+\d", "match", ("", "a", "")),
        (r"(?:a|b)*c", "match", ("", "ab", "")),
    ],
)
def test_a_linear_expression_is_accepted(pattern, mode, text):
    assert growth(Use(pattern, 0, mode, ""), text, SIZE)[0] < LIMIT
