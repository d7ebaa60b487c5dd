"""Reads the comments of a YAML text by value, and inserts comments into another one.

`mlgen convert` moves values, and no Python library for YAML moves their comments along. Therefore,
comments are attached to values by line.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import LOADER, read_documents
from mlgen.problems import ValuePath

COMMENT = re.compile(r"(?:^|(?<=\s))#")
"""The start of a comment, outside of scalars."""

END: ValuePath = ("…",)
"""The path of comments below the last value."""


@dataclass(slots=True)
class Comment:
    """The comments on one value.

    Attributes:
        above: comments on lines of their own above the value, with their `#`.
        beside: the comment at the end of the value's line, with its `#`, or "".
    """

    above: list[str] = field(default_factory=list)
    beside: str = ""


def read(text: str) -> dict[ValuePath, Comment]:
    """Return the comments of one YAML document, by the path of the key or item."""
    values = _values_by_line(text)
    lines = sorted(values)
    comments: dict[ValuePath, Comment] = defaultdict(Comment)
    for number, on_own_line, comment in _comments(text):
        if on_own_line:
            after = bisect_right(lines, number)
            path = values[lines[after]][0] if after < len(lines) else END
            comments[path].above.append(comment)
        elif number in values:
            comments[values[number][1]].beside = comment
    return dict(comments)


def insert(text: str, comments: Mapping[ValuePath, Comment]) -> str:
    """Return a YAML document with comments inserted at their paths.

    Comments on paths that the document does not contain are dropped.
    """
    line_of = {
        path: line for line, paths in _values_by_line(text).items() for path in reversed(paths)
    }
    lines = text.splitlines()
    for path, comment in comments.items():
        number = line_of.get(path)
        if number is None:
            continue
        line = lines[number - 1]
        indent = line[: len(line) - len(line.lstrip())]
        with_comment = f"{line}  {comment.beside}" if comment.beside else line
        above = (f"{indent}{row}" for row in comment.above)
        lines[number - 1] = "\n".join([*above, with_comment])
    end = comments[END].above if END in comments else []
    return "".join(f"{line}\n" for line in [*lines, *end])


def _values_by_line(text: str) -> dict[int, tuple[ValuePath, ValuePath]]:
    """Return the keys and items that comments refer to, by line.

    Returns:
        For each line (from 1) on which a key or item starts, the path for comments above the line,
        which is the outermost path, and the path for a comment at the end of the line.
    """
    (document,) = read_documents(Text("", text))
    if not isinstance(document, Document):
        return {}
    starts: dict[int, list[tuple[int, int, ValuePath]]] = defaultdict(list)
    for path, mark in document.marks.walk():
        place = mark.place if _is_item(path) else mark.key
        if place:
            on_line = starts[place.line]
            on_line.append((place.column, len(path), path))
            # The first two are enough.
            on_line.sort(key=lambda value: value[:2])
            del on_line[2:]
    values = {}
    for line, (first, *rest) in starts.items():
        # In `- name: x  # …`, the comment is about the name. In `- {name: x}  # …`, about the item.
        inner = rest[0] if rest and _is_item(first[2]) and rest[0][0] == first[0] else first
        values[line] = (first[2], inner[2])
    return values


def _is_item(path: ValuePath) -> bool:
    """Return True if a path leads to an item of a list."""
    return bool(path) and isinstance(path[-1], int)


def _comments(text: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each comment: its line (from 1), True if alone on that line, and its text with `#`."""
    tokens = yaml.scan(text, LOADER)
    scalars = [
        (token.start_mark.index, token.end_mark.index)
        for token in tokens
        if isinstance(token, yaml.ScalarToken)
    ]
    starts = [start for start, _ in scalars]
    line_start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        for match in COMMENT.finditer(line):
            at = line_start + match.start()
            before = bisect_right(starts, at) - 1
            if before < 0 or scalars[before][1] <= at:
                comment = line[match.start() :].rstrip("\r\n")
                yield number, not line[: match.start()].strip(), comment
                break
        line_start += len(line)
