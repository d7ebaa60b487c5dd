"""Unified diffs of texts of any size."""

import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice

from mlgen.bounds import DIFF_LINES


def unified(
    old: Sequence[str], new: Sequence[str], end: str = "\n", context: int = 3
) -> Iterator[str]:
    """Yield the lines of a unified diff, as `difflib.unified_diff` does, without its header.

    The time of difflib grows with the square of the lines. In a longer text, only the lines from
    the first to the last change are compared. If these are too many, all of them are replaced.

    Args:
        old: the lines of the first text.
        new: the lines of the second text.
        end: the end of a line with line numbers.
        context: the number of equal lines around a change.
    """
    if _is_small(old, new):
        yield from islice(unified_diff(old, new, lineterm=end, n=context), 2, None)
        return
    head = _equal(old, new)
    tail = _equal(old[head:][::-1], new[head:][::-1])
    start, kept = max(0, head - context), max(0, tail - context)
    old, new = old[start : len(old) - kept], new[start : len(new) - kept]
    head, tail = head - start, tail - kept
    if _is_small(old, new):
        for line in islice(unified_diff(old, new, lineterm=end, n=context), 2, None):
            yield _moved(line, start) if line.startswith("@@ ") else line
        return
    yield f"@@ -{start + bool(old)},{len(old)} +{start + bool(new)},{len(new)} @@{end}"
    yield from (f" {line}" for line in old[:head])
    yield from (f"-{line}" for line in old[head : len(old) - tail])
    yield from (f"+{line}" for line in new[head : len(new) - tail])
    yield from (f" {line}" for line in old[len(old) - tail :])


def _moved(numbers: str, start: int) -> str:
    """Return `@@ -1,2 +1,3 @@` for lines that start after some number of other lines."""
    return re.sub(r"([-+])(\d+)", lambda match: f"{match[1]}{int(match[2]) + start}", numbers)


def _is_small(old: Sequence[str], new: Sequence[str]) -> bool:
    return len(old) * len(new) <= DIFF_LINES**2


def _equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the start of two texts."""
    pairs = zip(old, new, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new))
    )
