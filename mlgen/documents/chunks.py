"""Lines of a YAML stream → its documents, as they are written."""

from collections.abc import Iterable, Iterator
from typing import AnyStr


def chunks(lines: Iterable[AnyStr]) -> Iterator[tuple[int, AnyStr]]:
    """Split lines, with their ends, before each `---`.

    Returns:
        For each document the number of the line (from 0) that it begins on, and what it holds,
        that is, the whole of it when they are joined.
    """
    start = 0
    found: list[AnyStr] = []
    for number, line in enumerate(lines):
        if found and _is_marked(line):
            yield start, found[0][:0].join(found)
            start, found = number, [line]
        else:
            found.append(line)
    if found:
        yield start, found[0][:0].join(found)


def is_blank(chunk: AnyStr) -> bool:
    """Whether a document, with its `---`, says nothing but comments and directives."""
    none = ("", "#", "%") if isinstance(chunk, str) else (b"", b"#", b"%")
    rows = without_marker(chunk).splitlines()
    return all(row.lstrip()[:1] in none for row in rows)


def _is_marked(chunk: AnyStr) -> bool:
    mark = "---" if isinstance(chunk, str) else b"---"
    return chunk.startswith(mark) and not chunk[3:4].strip()


def without_marker(chunk: AnyStr) -> AnyStr:
    """What follows the marker on its line belongs to the document; spaces keep its column."""
    if not _is_marked(chunk):
        return chunk
    return f"   {chunk[3:]}" if isinstance(chunk, str) else b"   " + chunk[3:]
