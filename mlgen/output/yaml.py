"""Objects → YAML documents, with the same bytes on every run, which all readers read alike.

Kubernetes uses sigs.k8s.io/yaml, which reads more words as numbers and booleans (`1e-5`, `08`, `y`,
`-_1`) than other writers quote. So a string is unquoted only if every reader reads it as a string.

Replicas with their own Jobs differ in names and indices. The text of such an object is copied from
an earlier one, with these values replaced. Parts that the objects share (see
`mlgen.objects.workload`) are not compared.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlgen.documents.files import is_marked, without_marker
from mlgen.kubernetes.objects import Notes
from mlgen.output.terminal import safe

PLAIN = re.compile(
    r"(?:"
    r"(?:-?-?[A-Za-z]|(?:--)?_|/|\$\()[A-Za-z0-9_./$()=-]*(?::[A-Za-z0-9_./$()=-]+)*"
    r"|[0-9]+(?:\.[0-9]+)?(?:m|k|[KMGTP]i?)"  # amounts: 50m, 64Mi
    r")\Z"
)
RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])

LINE, LEAVES = 88, 4
"""A list or mapping of at most `LINE` characters is written on one line, `{drop: [ALL]}`, unless it
is a list of mappings, or a mapping of more than `LEAVES` values."""

GAP = "\0"
"""A placeholder. Texts never contain it, because it is escaped."""

MODES = frozenset(["defaultMode", "mode"])
"""Fields with file permissions, which are written in octal."""

KEY_MAX = 128
"""The size in bytes above which a key is written as `? key`, as in libyaml."""

BREAKS = "\n\r\x85\u2028\u2029"
"""The line breaks of YAML 1.1."""

ESCAPED = (
    r'["\\]|[^ -~\xa0-\u061b\u061d-\u200a\u2010-\u2027\u202f-\u205f\u206a-\ud7ff'
    r"\ue000-\ufefe\uff00-\ufffd]"
)
"""A pattern of the characters that are escaped in double quotes.

These are the characters that libyaml escapes, and characters that hide or reorder text, so that a
reviewer sees the value.
"""

ESCAPES = dict(zip('\0\a\b\t\n\v\f\r\x1b"\\\x85\u2028\u2029', '0abtnvfre"\\NLP', strict=True))
"""The characters with a short escape in double quotes → the letter of the escape."""


NO_NOTES: Notes = {}


def style(text: str) -> str | None:
    r"""Return the YAML style of a string: None for unquoted, `'`, `"`, or `|` for a block."""
    if PLAIN.match(text) and text.lower() not in RESERVED:
        return None
    # Characters beyond U+FFFF take two units of UTF-16, and libyaml escapes them.
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    # A block keeps tabs and spaces at the ends of lines, but its first line starts with neither.
    blanks = "\n\t" if "\n" in text else "\n"
    if units > len(text) or not text.translate(dict.fromkeys(map(ord, blanks))).isprintable():
        return '"'
    if "\n" in text:
        # With blank lines at either end, `|` needs indicators.
        return '"' if text[0] in " \n\t" or text.endswith("\n\n") else "|"
    return '"' if "'" in text and not set(text) & {'"', "\\"} else "'"


class Inline(NamedTuple):
    """A value on one line.

    Attributes:
        text: the value as YAML; "" for a string that is written as a block of lines.
        flow: its text within a list or mapping on the same line, where a colon needs quotes.
        width: its length before characters are escaped. A block of lines is too wide for any line.
        leaves: the number of its scalars, without the keys of mappings.
    """

    text: str
    flow: str
    width: int
    leaves: int


class Gap(NamedTuple):
    """A value that is inserted into the text later, in place of `GAP`.

    After `GAP`, an `f` means that `Inline.flow` is inserted, and a `t` means `Inline.text`.
    """

    value: Any


class Writer:
    """Writes values as YAML, and caches their texts.

    The cache identifies a list or mapping by its identity, so do not modify them in between.

    Attributes:
        strings: the text of each string so far.
        starts: each key so far with its colon; "" if the key is too long for `key: value`.
        collections: each list and mapping so far, by identity; None if it takes several lines.
        blocks: the texts of several lines, by identity and margin. A text is kept when it occurs
            for the second time, because most occur once.
    """

    def __init__(self) -> None:
        self.strings: dict[str, Inline] = {}
        self.starts: dict[str, str] = {}
        self.collections: dict[int, Inline | None] = {}
        self.blocks: dict[tuple[int, str], str | None] = {}

    def document(self, value: Any, notes: Notes = NO_NOTES) -> str:
        """Return a document as YAML: on several lines, unless it is a scalar or empty."""
        several = value and type(value) in (dict, list)
        return self._block(value, "", notes) if several else self._node(value, "")

    def _node(self, value: Any, margin: str, notes: Notes = NO_NOTES) -> str:
        """Return a value as YAML.

        Args:
            value: the value.
            margin: the spaces before each of its lines, except the first.
            notes: the comments on its values.
        """
        inline = self.inline(value)
        if inline is None:
            return self._block(value, margin, notes)
        return inline.text or _literal(value, margin or "  ")

    def _block(self, value: Any, margin: str, notes: Notes = NO_NOTES) -> str:
        """Return a list or mapping on several lines; see `_node`."""
        lines = self._items if type(value) is list else self._entries
        if notes:
            return f"\n{margin}".join(lines(value, margin, notes))
        key = id(value), margin
        text = self.blocks.get(key)
        if text is None:
            text = f"\n{margin}".join(lines(value, margin))
            self.blocks[key] = text if key in self.blocks else None
        return text

    def _items(self, items: Sequence[Any], margin: str, notes: Notes = NO_NOTES) -> Iterator[str]:
        inner = f"{margin}  "
        for number, item in enumerate(items):
            yield f"- {self._node(item, inner, notes.get(number, NO_NOTES))}"

    def _entries(
        self, data: Mapping[Any, Any], margin: str, notes: Notes = NO_NOTES
    ) -> Iterator[str]:
        inner = f"{margin}  "
        for key, value in data.items():
            start, inline = self._start(key), self.inline(value)
            if not start:
                yield f"? {self._node(key, inner)}\n{margin}: {self._node(value, inner)}"
            elif inline is not None:
                text = _mode(key, value) or inline.text or _literal(value, inner)
                note = notes.get(key) if notes else None
                yield f"{start} {text}  # {note}" if type(note) is str else f"{start} {text}"
            else:  # the items of a list are not indented
                below = margin if type(value) is list else inner
                block = self._block(value, below, notes.get(key, NO_NOTES))
                yield f"{start}\n{below}{block}"

    def _start(self, key: Any) -> str:
        """Return a key with its colon; "" if it is too long."""
        start = self.starts.get(key)
        if start is None:
            inline = self.inline(key)
            text = key if type(key) is str else ""
            is_long = len(text.encode()) > KEY_MAX or any(end in text for end in BREAKS)
            start = "" if inline is None or is_long else f"{inline.text}:"
            if type(key) is str:
                self.starts[key] = start
        return start

    def inline(self, value: Any) -> Inline | None:
        """Return a value on one line; None for a list or mapping that takes several lines."""
        kind = type(value)
        if kind is str:
            inline = self.strings.get(value)
            if inline is None:
                inline = self.strings[value] = _string(value)
            return inline
        if kind is Gap:
            inline = self.inline(value.value)
            return inline and inline._replace(text=f"{GAP}t", flow=f"{GAP}f")
        if kind is not dict and kind is not list:
            text = _constant(value)
            return Inline(text, text, len(text), 1)
        key = id(value)
        if key not in self.collections:
            self.collections[key] = self._list(value) if kind is list else self._mapping(value)
        return self.collections[key]

    def _list(self, items: Sequence[Any]) -> Inline | None:
        """Return a short list of scalars, or any list of integers, on one line."""
        numbers = all(type(item) is int for item in items)
        width, texts = 0, []
        for item in items:
            inline = None if type(item) in (dict, list) else self.inline(item)
            if inline is None:
                return None
            width += inline.width + 2
            if width > LINE and not numbers:
                return None
            texts.append(inline.flow)
        text = f"[{', '.join(texts)}]"
        return Inline(text, text, width, len(texts))

    def _mapping(self, data: Mapping[Any, Any]) -> Inline | None:
        """Return a short mapping on one line."""
        width, leaves, texts = 0, 0, []
        for key, value in data.items():
            name, inline = self.inline(key), self.inline(value)
            if name is None or inline is None:
                return None
            width += name.width + inline.width + 4
            leaves += inline.leaves
            if width > LINE or leaves > LEAVES:
                return None
            text = _mode(key, value) or inline.flow
            texts.append(f"{name.flow}: {text}" if self._start(key) else f"? {name.flow} : {text}")
        text = f"{{{', '.join(texts)}}}"
        return Inline(text, text, width, leaves)


def _string(text: str) -> Inline:
    """Return a string as YAML."""
    mark = style(text)
    if mark is None:
        # Within brackets, `a:b` may be read as a mapping.
        return Inline(text, f"'{text}'" if ":" in text else text, len(text), 1)
    if mark == "'":
        quoted = "'" + text.replace("'", "''") + "'"
        return Inline(quoted, quoted, len(text) + 2, 1)
    if mark == "|":
        return Inline("", "", LINE, 1)
    quoted = f'"{re.sub(ESCAPED, _escaped, text)}"'
    return Inline(quoted, quoted, len(text) + 2, 1)


def _literal(text: str, margin: str) -> str:
    """Return a string of several lines as a block without a margin on empty lines."""
    end = "" if text.endswith("\n") else "-"
    lines = re.sub(r"\n(?=[^\n])", f"\n{margin}", text.removesuffix("\n"))
    return f"|{end}\n{margin}{lines}"


def _constant(value: Any) -> str:
    """Return a number, a boolean or None as YAML.

    Raises:
        TypeError: the value is of another type.
    """
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    if type(value) is not float:
        raise TypeError(f"cannot write {type(value).__name__} as YAML")
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 reads `1e-07` as a string.
    return text.replace("e", ".0e", 1) if "." not in text else text


def _mode(key: Any, value: Any) -> str:
    """Return the permissions of a file in octal; "" for any other value."""
    return f"0{value:o}" if key in MODES and type(value) is int and value >= 0 else ""


def _escaped(match: re.Match[str]) -> str:
    """Return the escape of one character in double quotes."""
    char = match[0]
    if char in ESCAPES:
        return f"\\{ESCAPES[char]}"
    code = ord(char)
    letter, digits = ("x", 2) if code < 1 << 8 else ("u", 4) if code < 1 << 16 else ("U", 8)
    return f"\\{letter}{code:0{digits}X}"


START = "---\n"
"""The line before each document."""

MANY = 20
"""Above this number, objects are checked for repetitions."""


Annotate = Callable[[Any], Notes]
"""Returns the comments on an object."""


def unexplained(_: Any) -> Notes:
    """Return no comments."""
    return NO_NOTES


def yaml_text(objects: Sequence[Any], comment: str = "", notes: Annotate = unexplained) -> str:
    """Return objects as YAML documents, with a comment (without `#`) above the first one.

    Args:
        objects: mappings with strings as keys, lists, strings, numbers, booleans and None.
        comment: lines of text.
        notes: returns the comments at the ends of lines of an object.

    Raises:
        TypeError: a value is of another type.
    """
    return "".join(yaml_texts(objects, comment, notes))


def yaml_texts(
    objects: Sequence[Any], comment: str = "", notes: Annotate = unexplained
) -> Iterator[str]:
    """Yield the text of each object, as `yaml_text` returns them."""
    heading = commented(comment)
    writer = Writer()
    write = Repeats(writer).text if len(objects) > MANY else writer.document
    for item in objects:
        yield f"{START}{heading}{write(item, notes(item))}\n"
        heading = ""


def commented(text: str) -> str:
    """Return a text as lines of a comment."""
    lines = text.split("\n") if text else []
    return "".join(f"# {safe(line)}".rstrip() + "\n" for line in lines)


def verbatim(text: str, data: Mapping[str, Any]) -> str:
    """Return a document as written, with `---` before and a newline after it.

    Args:
        text: its text; "" for an item of a List, which is written from its data.
        data: its content.
    """
    if not text:
        return yaml_text([data])
    # A line such as `--- {…}` starts a document in YAML, but not for kubectl.
    document = text if is_marked(text) else f"---\n{without_marker(text)}"
    return document if document.endswith("\n") else f"{document}\n"


Change = tuple[int, Any, Any]
"""A list or mapping of an earlier object (its identity), an index or key in it, and a value."""


class Repeats:
    """Writes objects, and reuses the texts of similar objects.

    Attributes:
        writer: writes objects, and values on one line.
        models: the last object of each kind that was not similar to the one before it.
        patterns: the texts around the values that differ, by model, positions and widths, because a
            mapping may fit on a line or not. A pattern is created for the second similar object. It
            keeps a reference to its object, because `write` identifies lists and mappings by
            identity.
    """

    def __init__(self, writer: Writer) -> None:
        self.write, self.inline = writer.document, writer.inline
        self.models: dict[str, Any] = {}
        self.patterns: dict[tuple[Any, ...], tuple[Any, list[str]] | None] = {}

    def text(self, item: Any, notes: Notes = NO_NOTES) -> str:
        """Return an object as YAML, with comments."""
        kind = str(item.get("kind"))
        model, changes = self.models.get(kind), list[Change]()
        if model is None or not _compare(model, item, changes):
            self.models[kind] = item
            return self.write(item, notes)
        values = [value for *_, text in changes if (value := self.inline(text)) and value.text]
        if len(values) < len(changes):
            return self.write(item, notes)
        places = [
            (at, step, each.width) for (at, step, _), each in zip(changes, values, strict=True)
        ]
        key = (id(model), repr(notes), *places)
        pattern = self.patterns.get(key)
        if pattern is None:
            if key in self.patterns:
                gapped = _gapped(model, item, {change[:2] for change in changes})
                self.patterns[key] = gapped, self.write(gapped, notes).split(GAP)
            else:
                self.patterns[key] = None
            return self.write(item, notes)
        texts = pattern[1]
        parts = [texts[0]]
        for value, text in zip(values, texts[1:], strict=True):
            # The text begins with the style of the gap before it.
            parts += value.flow if text[0] == "f" else value.text, text[1:]
        return "".join(parts)


def _compare(model: Any, item: Any, changes: list[Change]) -> bool:
    """Return True if two mappings or two lists differ only in strings and numbers.

    Args:
        model: a mapping or list.
        item: another mapping or list.
        changes: a list to which the differences are added.
    """
    if len(model) != len(item):
        return False
    is_mapping = type(model) is dict
    pairs: Iterable[Any] = zip(enumerate(model), enumerate(item), strict=True)
    if is_mapping:
        pairs = zip(model.items(), item.items(), strict=True)
    for (step, old), (other, new) in pairs:
        if old is new and step == other:
            continue
        kind = type(old)
        if step != other or kind is not type(new):
            return False
        if kind is dict or kind is list:
            if not _compare(old, new, changes):
                return False
        elif old != new:
            if kind is not str and (kind is not int or step in MODES or not is_mapping):
                return False
            changes.append((id(model), step, new))
    return True


def _gapped(model: Any, item: Any, places: set[tuple[int, Any]]) -> Any:
    """Return a copy of an object with gaps where it differs from its model."""
    if model is item or type(model) not in (dict, list):
        return item
    copy = item.copy()
    for step in model if type(model) is dict else range(len(model)):
        is_place = (id(model), step) in places
        copy[step] = Gap(item[step]) if is_place else _gapped(model[step], item[step], places)
    return copy
