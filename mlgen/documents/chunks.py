"""Lines of a YAML stream → the text of each of its documents."""

import io
from collections.abc import Iterable, Iterator
from typing import AnyStr

MARKERS = ("---", b"---")


def chunks(lines: Iterable[AnyStr]) -> Iterator[tuple[int, AnyStr]]:
    """Split a stream before each `---` line.

    Args:
        lines: str or bytes, with their line endings.

    Returns:
        For each document, the number of its first line (from 0) and its text. The texts add up to
        the stream.
    """
    start = 0
    document: list[AnyStr] = []
    for number, line in enumerate(lines):
        if line[:3] in MARKERS and document and _starts_with_marker(line):
            yield start, document[0][:0].join(document)
            start, document = number, [line]
        else:
            document.append(line)
    if document:
        yield start, document[0][:0].join(document)


def split(text: str) -> Iterator[tuple[int, str]]:
    """Split a text as `chunks` does its lines."""
    if "\r" in text:
        yield from chunks(io.StringIO(text, newline=""))
        return
    start = line = 0
    end = text.find("\n---")
    while end >= 0:
        if not text[end + 4 : end + 5].strip():
            yield line, text[start : end + 1]
            line += text.count("\n", start, end + 1)
            start = end + 1
        end = text.find("\n---", end + 1)
    if text[start:]:
        yield line, text[start:]


def is_blank(chunk: AnyStr) -> bool:
    """Return whether a document has nothing but its `---`, comments and directives."""
    ignored = ("", "#", "%") if isinstance(chunk, str) else (b"", b"#", b"%")
    rows = without_marker(chunk).splitlines()
    return all(row.lstrip()[:1] in ignored for row in rows)


def without_marker(chunk: AnyStr) -> AnyStr:
    """Return a document with spaces in place of its `---`.

    The rest of that line belongs to the document, and keeps its columns.
    """
    if not _starts_with_marker(chunk):
        return chunk
    return f"   {chunk[3:]}" if isinstance(chunk, str) else b"   " + chunk[3:]


def _starts_with_marker(text: AnyStr) -> bool:
    """Return whether a text starts with `---`, followed by white space or nothing."""
    marker = "---" if isinstance(text, str) else b"---"
    return text.startswith(marker) and not text[3:4].strip()
