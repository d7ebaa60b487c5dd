"""Texts for people: columns as in kubectl, lists of names, numbers and durations."""

from collections.abc import Iterable, Sequence

from mlgen.output.terminal import safe
from mlgen.problems import listed

GAP = "   "
"""The spaces between two columns, as in `kubectl get`."""


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return one line per row, with columns that are as wide as their longest texts.

    Characters that would break the table are escaped; see `terminal.safe`.
    """
    rows = [[safe(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            indent + GAP.join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def named(names: Iterable[str]) -> str:
    """Return names as in a sentence: `a`, `a and b`, `a, b and c`; "" if there are none."""
    return listed([*names], "and")


def some(names: Sequence[str], most: int) -> str:
    """Return names separated by commas. If there are more than `most`, it ends in `and N more`."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join([*names[: most - 1], f"and {len(names) - most + 1} more"])


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: int) -> str:
    """Return a duration in kubectl's format for ages: `45s`, `10m`, `7d`, `1d12h`."""
    parts, rest = [], seconds
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
