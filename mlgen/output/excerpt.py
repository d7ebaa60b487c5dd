"""A place in a text → its line, with the value marked, as a terminal shows it."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from mlgen.documents.files import Text
from mlgen.output.terminal import safe
from mlgen.problems import Place

MAX_WIDTH = 100
"""The characters of a longer line that are shown, around the value."""

BEFORE = 30
"""The characters of a longer line that are shown before the value."""

LINE_BREAK = re.compile(r"\r\n|\n|\r")

QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\'\'|[^\'])*\'')
PLAIN = re.compile(r".+?(?=:(?:\s|$)|\s+#|\s*$)")
PLAIN_IN_FLOW = re.compile(r".+?(?=:(?:\s|$)|\s+#|\s*[,\[\]{}]|\s*$)")
BRACKETS = {"{": "}", "[": "]"}


def excerpt(place: Place, sources: Sequence[Text]) -> tuple[str, str]:
    """Return the line of a place, and spaces and carets that mark the value in it.

    Both are "" if the line is not known: the place is no text that was read, or not in a line.
    """
    source = next((source for source in sources if source.name == place.file), None)
    if source is None:
        return "", ""
    rows, number = _rows(source.text), place.line - source.line - 1
    if not 0 <= number < len(rows) or not rows[number].strip():
        return "", ""
    return _marked(rows[number], place.column - 1)


@lru_cache(maxsize=1)
def _rows(text: str) -> list[str]:
    """Return the lines of a text; most problems in a row are in one text."""
    return LINE_BREAK.split(text)


def _marked(row: str, start: int) -> tuple[str, str]:
    """Return a line, shortened if it is long, and what marks the value at an index of it."""
    start = min(start, len(row))
    length = width(row, start)
    if len(row) > MAX_WIDTH:
        first = max(0, min(start - BEFORE, len(row) - MAX_WIDTH))
        last = first + MAX_WIDTH
        head, tail = "…" if first else "", "…" if last < len(row) else ""
        length = min(length, last - start)
        row, start = f"{head}{row[first:last]}{tail}", start - first + len(head)
    before, value = safe(row[:start]), safe(row[start : start + length])
    return safe(row).rstrip(), " " * _columns(before) + "^" * max(1, _columns(value))


def width(row: str, start: int) -> int:
    """Return the number of characters of the key or value that starts at an index of a line."""
    rest = row[start:]
    quoted = QUOTED.match(rest)
    if quoted:
        return quoted.end()
    if rest[:1] in BRACKETS:
        return _flow(rest)
    plain = (PLAIN_IN_FLOW if _is_in_flow(row[:start]) else PLAIN).match(rest)
    return plain.end() if plain else 1


def _flow(text: str) -> int:
    """Return the length of a list or mapping in flow style, up to the end of its line."""
    ends: list[str] = []
    index = 0
    while index < len(text):
        quoted = QUOTED.match(text, index) if text[index] in "\"'" else None
        if quoted:
            index = quoted.end()
            continue
        if text[index] in BRACKETS:
            ends.append(BRACKETS[text[index]])
        elif ends and text[index] == ends[-1]:
            ends.pop()
            if not ends:
                return index + 1
        index += 1
    return len(text.rstrip())


def _is_in_flow(before: str) -> bool:
    """Return whether a bracket is open before a value; one in a plain scalar does not count."""
    text = QUOTED.sub("", before)
    return len(re.findall(r"(?:^|(?<=[\s\[{,]))[\[{]", text)) > len(re.findall(r"[\]}]", text))


def _columns(text: str) -> int:
    """Return the number of columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
