"""YAML as almost everybody writes it → data, line by line.

To import a library for YAML takes longer than all else that renders a job. This reader needs none,
and only ever says yes. It knows mappings and lists in block style, plain and quoted scalars and
`{…}` and `[…]` that end on their line, texts below `|` and `>`, and comments. All else is
`Unusual`: what is wrong, what readers of YAML disagree about, tags, anchors, tabs, duplicate keys,
other values on several lines. What it reads, ruamel.yaml reads alike: tests/documents/test_lines.py
compares them.
"""

import re
from functools import lru_cache
from typing import Any

from mlgen.documents import _scalars

DOUBLE = r'"([^"\\]*(?:\\["\\/nt][^"\\]*)*)"'
SINGLE = r"'([^']*(?:''[^']*)*)'"
REST = r"(?:[^ :#]|:(?=[^ ])|(?<=[^ ])#| +(?=[^ :#]))*"
SCALAR = re.compile(rf"(?:{DOUBLE}|{SINGLE}|((?:[\w./$(+~^]|-(?=[^ ])){REST}))(?: *| +#.*)")
"""A scalar, and what may follow it on a line."""

KEY = re.compile(rf"(?:{DOUBLE}|{SINGLE}|((?!\.\.)[\w./]{REST})):(?: +|$)")

INNER = r"(?:[\w./$()+~@%=<>*;^-]|:(?=[\w/])| +(?=[\w./$(+~<>=-]))*"
IN_FLOW = re.compile(
    rf" *(?:{DOUBLE}|{SINGLE}|((?:[\w./$(+~]|-(?=[\w.-])){INNER})) *(:(?= )|[\]}},])"
)
"""A scalar in `{…}` or `[…]`, and what separates it from the next."""

OPENING = re.compile(r" *([\[{]) *([\]}]?)")
CLOSED = re.compile(r" *([\]},])")
END = re.compile(" *| +#.*")

ESCAPE = re.compile(r"\\(.)")
ESCAPES = {"n": "\n", "t": "\t"}

MAX_KEY = 255
"""The length of a key. YAML allows 1,024 characters."""

MAX_DEPTH = 32
"""The levels of nesting. Other readers bear some hundred."""

LONG = 160
"""The length from which on lines are not remembered, because few are repeated."""

NOTHING, VALUE, COLLECTION, TEXT = range(4)
"""What a line has after its dashes and key: nothing, a scalar, `{…}` or `[…]`, or `|` or `>`."""

Line = tuple[tuple[tuple[int, str | None], ...], int, Any]
"""The dashes (None) and the key of a line, each with its column; what follows; and its value, or
the header of a text. A blank line, or one with only a comment, has neither dashes nor key."""


class Unusual(Exception):  # noqa: N818 - the document may well be valid
    """A document has something that this reader does not know."""


def data(text: str) -> Any:
    """Return the data of a YAML document: dicts, lists, strings, numbers, booleans and None.

    Args:
        text: with spaces in place of its `---`.

    Raises:
        Unusual: only a thorough reader can tell what it means, and whether it is valid.
    """
    lines = (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")
    # This excludes tabs, byte order marks, surrogates, and the other line breaks of YAML 1.1.
    if not "".join(lines).isprintable():
        raise Unusual
    return _Reader(lines).data()


class _Reader:
    """Puts the value of each line into the collection at its column.

    Attributes:
        lines: without line ends; the last one is what follows the last line end.
        at: the number of the next line.
        columns: those of the open collections, the innermost last.
        holders: these collections; the outermost holds the document.
        holder: the collection that holds the last value.
        slot: the key or index of the last value.
        empty: the last value is omitted, or a collection on the next lines.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0
        self.holder: Any = [None]
        self.slot: Any = 0
        self.empty = True
        self.columns = [-1]
        self.holders: list[Any] = [self.holder]

    def data(self) -> Any:
        """Return the data of all lines."""
        while self.at < len(self.lines):
            text = self.lines[self.at]
            self.at += 1
            steps, kind, value = _remembered(text) if len(text) < LONG else _line(text)
            if not steps:
                continue
            for column, key in steps:
                self._step(column, key)
            if kind == COLLECTION:
                value = _copy(value)  # because the line is remembered
            elif kind == TEXT:
                value = self._text(value)
            self.holder[self.slot] = value
            self.empty = kind == NOTHING
        return self.holders[0][0]

    def _step(self, column: int, key: str | None) -> None:
        """Go to the collection at the column of a dash or key, and make room for its value."""
        columns, holders = self.columns, self.holders
        while column < columns[-1] or (
            # A list may be at the column of the key that it belongs to.
            column == columns[-1] and key is not None and type(holders[-1]) is list
        ):
            columns.pop()
            holders.pop()
            self.empty = False
        if column > columns[-1] or (key is None and type(holders[-1]) is dict):
            if not self.empty or len(columns) > MAX_DEPTH:
                raise Unusual
            inner: Any = [] if key is None else {}
            self.holder[self.slot] = inner
            columns.append(column)
            holders.append(inner)
        self.holder = holder = holders[-1]
        if key is None:
            self.slot = len(holder)
            holder.append(None)
        elif key in holder:
            raise Unusual
        else:
            self.slot = key
            holder[key] = None
        self.empty = True

    def _text(self, header: str) -> str:
        """Return the text below `|`, `|-`, `>` or `>-`."""
        lines, start = self.lines, self.at
        first = lines[start] if start < len(lines) else ""
        indent = len(first) - len(first.lstrip(" "))
        if indent <= self.columns[-1] or indent == len(first):
            raise Unusual
        while self.at < len(lines) and (
            lines[self.at].startswith(first[:indent]) or not lines[self.at].strip(" ")
        ):
            self.at += 1
        rows = [line[indent:] for line in lines[start : self.at]]
        has_line_end = self.at < len(lines) or not rows[-1]
        while not rows[-1]:
            rows.pop()
        if header[0] == ">" and any(row[:1] in ("", " ") for row in rows):
            raise Unusual
        text = ("\n" if header[0] == "|" else " ").join(rows)
        return f"{text}\n" if has_line_end and header[-1] != "-" else text


def _line(text: str) -> Line:
    """Return what a line says."""
    content = text.lstrip(" ")
    if not content or content[0] == "#":
        return (), NOTHING, None
    steps: list[tuple[int, str | None]] = []
    while content == "-" or content.startswith("- "):
        steps.append((len(text) - len(content), None))
        content = content[1:].lstrip(" ")
    key = KEY.match(content)
    if key:
        steps.append((len(text) - len(content), _key(key)))
        content = content[key.end() :]
    if not steps:
        raise Unusual
    if not content or content[0] == "#":
        return tuple(steps), NOTHING, None
    if content in ("|", "|-", ">", ">-"):
        return tuple(steps), TEXT, content
    if content[0] in "[{":
        return tuple(steps), COLLECTION, _collection(content)
    return tuple(steps), VALUE, _value(SCALAR.fullmatch(content))


_remembered = lru_cache(4096)(_line)
"""The same for lines that may be repeated, as those of manifests are."""


def _value(scalar: re.Match[str] | None) -> Any:
    """Return the value of a scalar."""
    if not scalar:
        raise Unusual
    if scalar[3] is None:
        return _unquoted(scalar)
    try:
        return _scalars.plain(scalar[3])
    except ValueError:
        raise Unusual from None


def _key(scalar: re.Match[str]) -> str:
    """Return a scalar as a key, which is always a string."""
    key = _unquoted(scalar) if scalar[3] is None else scalar[3]
    if len(key) > MAX_KEY:
        raise Unusual
    return key


def _unquoted(scalar: re.Match[str]) -> str:
    """Return the string in quotes."""
    if scalar[1] is None:
        return scalar[2].replace("''", "'")
    return ESCAPE.sub(lambda escape: ESCAPES.get(escape[1], escape[1]), scalar[1])


def _copy(value: Any) -> Any:
    """Return a value that can be changed without changing the original."""
    if type(value) is dict:
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(item) for item in value] if type(value) is list else value


def _collection(text: str) -> Any:
    """Return the `{…}` or `[…]` that a line ends with."""
    value, end = _in_flow(text, 0, 1)
    if not END.fullmatch(text, end):
        raise Unusual
    return value


def _in_flow(text: str, start: int, depth: int) -> tuple[Any, int]:
    """Return the `{…}` or `[…]` at an offset, and the offset of its end."""
    opening = OPENING.match(text, start)
    if not opening or depth > MAX_DEPTH:
        raise Unusual
    values: Any = [] if opening[1] == "[" else {}
    separator, at = opening[2] or ",", opening.end()
    while separator == ",":
        key = None
        if opening[1] == "{":
            scalar = IN_FLOW.match(text, at)
            if not scalar or scalar[4] != ":":
                raise Unusual
            key, at = _key(scalar), scalar.end()
        if OPENING.match(text, at):
            value, at = _in_flow(text, at, depth + 1)
            end = CLOSED.match(text, at)
        else:
            end = IN_FLOW.match(text, at)
            value = _value(end)
        if not end or (key and key in values):
            raise Unusual
        if key is None:
            values.append(value)
        else:
            values[key] = value
        separator, at = end[end.lastindex or 0], end.end()
    if separator != {"[": "]", "{": "}"}[opening[1]]:
        raise Unusual
    return values, at
