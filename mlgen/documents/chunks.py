"""Splits the lines of a YAML stream into the texts of its documents."""

import io
from collections.abc import Iterable, Iterator
from typing import AnyStr

MARKERS = ("---", b"---")

AFTER = ("", " ", "\t", "\n", "\r", b"", b" ", b"\t", b"\n", b"\r")
"""Characters after a `---` that starts a document.

https://yaml.org/spec/1.2.2/#912-document-markers
"""

IGNORED = ("", "#", b"", b"#")
"""The first characters of lines without content."""

VERSION = ("%YAML 1.2", b"%YAML 1.2")
"""The directive that has no effect."""


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
    """Split a text into documents, as `chunks` splits lines."""
    if "\r" in text:
        yield from chunks(io.StringIO(text, newline=""))
        return
    start = line = 0
    end = text.find("\n---")
    while end >= 0:
        if text[end + 4 : end + 5] in AFTER:
            yield line, text[start : end + 1]
            line += text.count("\n", start, end + 1)
            start = end + 1
        end = text.find("\n---", end + 1)
    if text[start:]:
        yield line, text[start:]


def is_blank(chunk: AnyStr) -> bool:
    """Return True if a document contains only its `---`, comments and `%YAML 1.2`.

    As in kubectl, a comment also ends at the line breaks of YAML 1.1, such as U+2028, and only
    spaces and tabs are blanks (go-yaml, yamlprivateh.go, is_break and is_blank).
    """
    text = chunk if isinstance(chunk, str) else chunk.decode(errors="replace")
    rows = without_marker(text).splitlines()
    return all(row.lstrip(" \t")[:1] in IGNORED or row[:9] in VERSION for row in rows)


def without_marker(chunk: AnyStr) -> AnyStr:
    """Return a document with its `---` replaced by spaces.

    The rest of that line belongs to the document, and keeps its columns.
    """
    if not _starts_with_marker(chunk):
        return chunk
    return f"   {chunk[3:]}" if isinstance(chunk, str) else b"   " + chunk[3:]


def is_marked(chunk: str) -> bool:
    """Return True if a document starts with a line of `---`, alone or before a comment.

    kubectl and YAML agree on these lines. kubectl does not see `--- {}` or `---` before a lone
    carriage return.
    """
    line, end, _ = chunk.partition("\n")
    rest = line[3:].removesuffix("\r" if end else "")
    return _starts_with_marker(chunk) and "\r" not in rest and rest.lstrip(" \t")[:1] in ("", "#")


def _starts_with_marker(text: AnyStr) -> bool:
    """Return True if a text is `---`, or starts with `---` and white space."""
    return text[:3] in MARKERS and text[3:4] in AFTER
