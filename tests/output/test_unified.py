"""A unified diff describes the second text, also if the texts are too long to compare."""

import re
from random import Random

import pytest

from mlgen.output import terminal
from mlgen.output.terminal import unified


def applied(old, diff):
    """Return the lines that a unified diff makes of a text."""
    lines, at = [], 0
    for line in diff:
        if line.startswith("@@"):
            start, count = re.match(r"@@ -(\d+)(?:,(\d+))?", line).groups()
            start = int(start) - (count != "0")
            lines += old[at:start]
            at = start
        elif line[0] in " -":
            assert old[at] == line[1:]
            lines += [line[1:]] if line[0] == " " else []
            at += 1
        else:
            lines.append(line[1:])
    return lines + old[at:]


@pytest.mark.parametrize("limit", [0, 3, 8, 100])
@pytest.mark.parametrize("context", [0, 1, 3])
def test_a_diff_of_any_size_can_be_applied(limit, context, monkeypatch):
    monkeypatch.setattr(terminal, "DIFF_LINES", limit)
    random = Random(limit)
    for _ in range(100):
        old = [random.choice("abc") for _ in range(random.randrange(20))]
        new = list(old)
        for _ in range(random.randrange(4)):
            at = random.randrange(len(new) + 1)
            new[at : at + random.randrange(3)] = [random.choice("abcd")] * random.randrange(3)
        assert applied(old, unified(old, new, context=context)) == new


def test_only_the_changed_lines_of_a_long_text_are_replaced(monkeypatch):
    monkeypatch.setattr(terminal, "DIFF_LINES", 1)
    old = [f"{number}\n" for number in range(9)]
    new = [*old[:4], "x\n", "y\n", *old[6:]]
    diff = "".join(unified(old, new, context=1))
    assert diff == "@@ -4,4 +4,4 @@\n 3\n-4\n-5\n+x\n+y\n 6\n"
