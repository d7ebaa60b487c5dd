"""Objects → YAML documents, with the same bytes on every run.

Replicas with their own Jobs differ in names and indices. The text of such an object is copied from
an earlier one, with these values replaced. Parts that the objects share (see
`mlgen.objects.workload`) are not compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.documents.files import is_marked, without_marker
from mlgen.kubernetes.objects import Notes
from mlgen.output.nodes import GAP, MODES, NO_NOTES, Gap, Writer
from mlgen.output.terminal import safe

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
