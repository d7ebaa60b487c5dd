"""Data and a user's YAML text → a text with the comments and quotes of the user.

`documents.reader` has accepted the user's text before ruamel.yaml reads it, so the limits of size
and depth hold. ruamel.yaml reads tokens only: the places of values are those of that reader.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, NamedTuple

from ruamel.yaml import (
    YAML,
    CommentToken,
    MappingNode,
    ScalarNode,
    ScalarToken,
    SequenceNode,
)
from ruamel.yaml.error import CommentMark, YAMLError

from mlgen.documents.document import Document
from mlgen.documents.reader import read_document
from mlgen.output.yaml import yaml_text
from mlgen.problems import ValuePath

END: ValuePath = ("…",)
"""The path of comments below the last value."""

QUOTES = ("'", '"')

BLOCK = ("|", ">")
"""The styles of strings that start on the next line."""

STRING = "tag:yaml.org,2002:str"

WIDTH = 1 << 30
"""A line width that prevents line folding."""


@dataclass(slots=True)
class Style:
    """How the user wrote a value.

    Attributes:
        above: comments on lines of their own above the value, with their `#`.
        beside: the comment at the end of the value's line, with its `#`, or "".
        quotes: the quotes of a string, or "".
    """

    above: list[str] = field(default_factory=list)
    beside: str = ""
    quotes: str = ""


@dataclass(slots=True)
class Line:
    """A line on which keys or items start.

    Attributes:
        outer: the path of its outermost key or item. Comments above the line are about it.
        inner: the path that a comment at the end of the line is about.
    """

    outer: ValuePath
    inner: ValuePath


def styles(text: str) -> dict[ValuePath, Style]:
    """Return the comments and quotes of one YAML document, by the path of the key or item."""
    document = read_document("", 0, text)
    found: dict[ValuePath, Style] = defaultdict(Style)
    if not isinstance(document, Document):
        return found
    lines = _lines(document)
    numbers = sorted(lines)
    quotes: dict[tuple[int, int], str] = {}
    for token in _tokens(text):
        if isinstance(token, ScalarToken):
            quotes[token.start_mark.line + 1, token.start_mark.column + 1] = token.style
        for number, is_alone, comment in _comments(token, text):
            if is_alone:
                after = bisect_right(numbers, number)
                path = lines[numbers[after]].outer if after < len(numbers) else END
                found[path].above.append(comment)
            elif number in lines:
                found[lines[number].inner].beside = comment
    for path, place in document.places.items():
        if (style := quotes.get((place.line, place.column))) in QUOTES:
            found[path].quotes = style
    return found


def _tokens(text: str) -> Iterator[Any]:
    """Yield the tokens of a text, up to the first that ruamel.yaml does not accept."""
    try:
        yield from YAML().scan(text)
    except YAMLError:
        return


def _comments(token: Any, text: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each comment of a token: its line (from 1), True if it is alone there, and its text."""
    for comment in _flat(token.comment):
        if not isinstance(comment, CommentToken):  # beside the `|` of a block scalar
            yield token.start_mark.line + 1, False, comment.strip()
            continue
        start = comment.start_mark
        before = text[text.rfind("\n", 0, start.index) + 1 : start.index]
        for number, row in enumerate(comment.value.strip().splitlines()):
            if row.strip():
                yield start.line + number + 1, bool(number or not before.strip()), row.strip()


def _flat(values: Any) -> Iterator[Any]:
    """Yield the values in nested lists, without None."""
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    elif values is not None:
        yield values


def _lines(document: Document) -> dict[int, Line]:
    """Return the lines on which a key or item starts, by number, from 1."""
    starts: dict[int, list[tuple[int, int, ValuePath]]] = defaultdict(list)
    for path, mark in document.marks.walk():
        place = mark.place if _is_item(path) else mark.key
        if place:
            on_line = starts[place.line]
            on_line.append((place.column, len(path), path))
            # The first two are enough.
            on_line.sort(key=lambda value: value[:2])
            del on_line[2:]
    lines = {}
    for number, (first, *rest) in starts.items():
        # In `- name: x  # …`, the comment is about the name. In `- {name: x}  # …`, about the item.
        inner = rest[0] if rest and _is_item(first[2]) and rest[0][0] == first[0] else first
        lines[number] = Line(first[2], inner[2])
    return lines


def _is_item(path: ValuePath) -> bool:
    """Return True if a path leads to an item of a list."""
    return bool(path) and isinstance(path[-1], int)


def styled_text(data: Mapping[str, Any], styles: Mapping[ValuePath, Style]) -> str:
    """Return data as a YAML document with comments and quotes.

    A list or mapping with a comment in it is written on several lines. Styles at paths that the
    data does not contain are dropped.
    """
    text = yaml_text([data])
    if not styles:
        return text
    commented = (path for path, style in styles.items() if style.above or style.beside)
    yaml = YAML()
    yaml.width = WIDTH
    yaml.explicit_start = True
    root, stream = yaml.compose(text), StringIO()
    around = {path[:length] for path in commented for length in range(len(path))}
    _Styler(styles, frozenset(around)).apply(root, (), 0)
    yaml.serialize(root, stream)
    end = styles[END].above if END in styles else []
    return stream.getvalue() + "".join(f"{comment}\n" for comment in end)


class _Styler(NamedTuple):
    """Sets comments and quotes in the nodes of ruamel.yaml.

    Attributes:
        styles: by path.
        around: the paths of lists and mappings with a comment in them.
    """

    styles: Mapping[ValuePath, Style]
    around: frozenset[ValuePath]

    def apply(self, node: Any, path: ValuePath, column: int) -> None:
        """Set the styles of the values in a list or mapping, whose keys are at a column."""
        if path in self.around:
            node.flow_style = False
        is_list = isinstance(node, SequenceNode)
        values = ((None, value) for value in node.value) if is_list else node.value
        for number, (key, value) in enumerate(values):
            inner = (*path, number if is_list else key.value)
            self._style(key, value, self.styles.get(inner, Style()), column)
            if not isinstance(value, ScalarNode):
                is_deeper = is_list or isinstance(value, MappingNode)
                self.apply(value, inner, column + 2 * is_deeper)

    def _style(self, key: Any, value: Any, style: Style, column: int) -> None:
        """Set the comments of a key or item, and the quotes of its value."""
        above, is_block = style.above, getattr(value, "style", "") in BLOCK
        if style.beside and is_block:
            above = [*above, style.beside]
        elif style.beside:
            value.comment = [_token(f" {style.beside}", 0), None]
        if above:
            target = value if key is None else key
            beside = target.comment[0] if target.comment else None
            target.comment = [beside, [_token(comment, column) for comment in above]]
        if style.quotes and value.tag == STRING and not is_block:
            value.style = style.quotes


def _token(comment: str, column: int) -> Any:
    """Return a comment of ruamel.yaml that ends its line."""
    return CommentToken(f"{comment}\n", CommentMark(column), None)
