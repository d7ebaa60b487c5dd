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
    r"\s+\[x>=(\d+)\]$": "a help text of mlgen",
    r"('[^' ]*[=*][^']*'|(?<![\w-])--?[a-z][\w-]*(?: DIR\b)?|\bspec\.[\w.=]+\w|\.mlgen/[\w.]+\w)": (
        "a help text of mlgen"
    ),
    r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$': "a page of mlgen",
}
"""Expressions that are not linear, and why no text of the input makes them slow."""

USES, UNKNOWN = uses(local())
ROWS = [(row["pattern"], row["mode"], tuple(row["text"])) for row in json.loads(TABLE.read_text())]


def test_each_expression_can_be_evaluated():
    """An expression that the code composes from its input needs examples, in `local`."""
    assert UNKNOWN == []


def test_each_expression_has_a_row():
    rows = {(pattern, mode) for pattern, mode, _ in ROWS}
    assert rows == {(use.pattern, use.mode) for use in USES}, "run: python tests/patterns.py"


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.mode} {use.pattern}"[:60])
def test_its_steps_grow_with_the_text(use):
    """Also for the part that is repeated without its prefix and suffix."""
    texts = [text for pattern, mode, text in ROWS if (pattern, mode) == (use.pattern, use.mode)]
    texts = texts or [worst(use)]
    found = {text: growth(use, text, SIZE)[0] for text in texts if text[1]}
    slow = {text: factor for text, factor in found.items() if factor > LIMIT}
    assert not slow or use.pattern in EXCEPTIONS, f"{use.place}: {slow}"


def test_exceptions_are_used():
    assert {*EXCEPTIONS} <= {use.pattern for use in USES}


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
