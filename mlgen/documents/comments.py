"""The comments of a YAML document, by the values that they are about, and back into a document.

No YAML library of Python keeps comments where values move; so they are found by their lines.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.problems import ValuePath

MARK = re.compile(r"(?:^|(?<=\s))#.*")

END: ValuePath = ("…",)
"""Where comments are that stand below the last value."""


@dataclass(slots=True)
class Comment:
    """What is said of one value: in lines of their own above it, and at the end of its line."""

    above: list[str] = field(default_factory=list)
    beside: str = ""


def found(text: str) -> dict[ValuePath, Comment]:
    """Return the comments of one YAML document, each by the path of the key or item it is at."""
    values = _values(text)
    lines = sorted(values)
    comments: dict[ValuePath, Comment] = defaultdict(Comment)
    for number, alone, comment in _comments(text):
        if alone:
            after = bisect_right(lines, number)
            path = values[lines[after]][0] if after < len(lines) else END
            comments[path].above.append(comment)
        elif number in values:
            comments[values[number][1]].beside = comment
    return dict(comments)


def added(text: str, comments: Mapping[ValuePath, Comment]) -> str:
    """Return a YAML document with comments at the keys or items of these paths."""
    at = {path: line for line, paths in _values(text).items() for path in reversed(paths)}
    lines = text.splitlines()
    for path, comment in comments.items():
        line = at.get(path)
        if line is None:
            continue
        written = lines[line - 1]
        indent = written[: len(written) - len(written.lstrip())]
        beside = f"{written}  {comment.beside}" if comment.beside else written
        lines[line - 1] = "\n".join([*(f"{indent}{above}" for above in comment.above), beside])
    end = comments[END].above if END in comments else []
    return "".join(f"{line}\n" for line in [*lines, *end])


def _values(text: str) -> dict[int, tuple[ValuePath, ValuePath]]:
    """By line: the outermost key or item that begins on it, and the one a comment beside is of."""
    (document,) = read_documents(Text("", text))
    if not isinstance(document, Document):
        return {}
    begun: dict[int, list[tuple[int, int, ValuePath]]] = defaultdict(list)
    items = {path: place for path, place in document.places.items() if _is_item(path)}
    for path, place in (*document.keys.items(), *items.items()):
        begun[place.line].append((place.column, len(path), path))
    found = {}
    for line, values in begun.items():
        first, *rest = sorted(values, key=lambda value: value[:2])
        # Beside `- name: x` a comment is on the name, beside `- {name: x}` on the item.
        inner = rest[0] if rest and _is_item(first[2]) and rest[0][0] == first[0] else first
        found[line] = (first[2], inner[2])
    return found


def _is_item(path: ValuePath) -> bool:
    return bool(path) and isinstance(path[-1], int)


def _comments(text: str) -> Iterator[tuple[int, bool, str]]:
    """The comments of a text: the line (from 1), whether they have it for themselves, the words."""
    from ruamel.yaml import YAML

    tokens = YAML(typ="safe", pure=True).scan(text)
    spans = [(t.start_mark.index, t.end_mark.index) for t in tokens if hasattr(t, "value")]
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        for match in MARK.finditer(line.rstrip("\r\n")):
            at = start + match.start()
            if not any(first <= at < last for first, last in spans):
                yield number, not line[: match.start()].strip(), match.group()
                break
        start += len(line)
