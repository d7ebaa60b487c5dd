"""The text of a ResourceList → its items, each with its span in the text.

A ResourceList is what kustomize and kpt pass to a KRM function, and expect back:
https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md

Spans let `output.resource_list` keep the text of items that it does not replace. YAML readers
differ: `defaultMode: 0644` is 420 to Kubernetes, and 644 in YAML 1.2.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlgen.documents.events import walk
from mlgen.documents.files import Text
from mlgen.documents.list_reading import (
    ANNOTATIONS,
    ITEMS,
    LENGTH,
    LOCAL,
    MAPPING,
    PATHS,
    RESULTS,
    Part,
    Reading,
)
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import Key
from mlgen.problems import MlgenError, Place, Problem

CONFIG = "functionConfig"

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Item:
    """An item of the list, or the functionConfig.

    Attributes:
        source: the text of the list.
        start: the offset of its own text in the list.
        end: the offset of the end of that.
        margin: the column at which its lines start; 0 in flow style: `{…}`.
        version: its apiVersion.
        kind: its kind.
        name: metadata.name, or "".
        namespace: metadata.namespace, or "".
        path: the path of its file, or "".
        local: it is not to be applied to a cluster.
    """

    source: str
    start: int
    end: int
    margin: int
    version: str
    kind: str
    name: str
    namespace: str
    path: str
    local: bool

    @property
    def text(self) -> str:
        """Its text as a document of its own."""
        return " " * self.margin + self.source[self.start : self.end]

    @property
    def origin(self) -> str:
        """Its name in messages: the path of its file, else its kind and name."""
        return self.path or f"{self.kind}/{self.name}"

    @property
    def key(self) -> Key:
        """Its identity in a cluster."""
        return (group_of(self.version), self.kind, self.namespace, self.name)


@dataclass(frozen=True)
class Field:
    """A field of the list: its name, and the offsets of its key, its value, and the end of that."""

    name: str
    key: int
    start: int
    end: int


@dataclass(frozen=True)
class Lines:
    """Where whole lines can be replaced, in a list that is written as kustomize and kpt do it.

    Attributes:
        items: the offset of the line of each item, and of the line after the last one.
        item_column: the column of their dashes.
        results: the start and end of each field `results` of an earlier function.
        column: the column of the list's own fields.
        end: the offset at which the field `results` can be inserted.
    """

    items: tuple[int, ...]
    item_column: int
    results: tuple[tuple[int, int], ...]
    column: int
    end: int


@dataclass(frozen=True)
class ResourceList:
    """A ResourceList.

    Attributes:
        text: the whole list.
        items: the items in their order.
        config: the functionConfig.
        fields: those of the list in their order.
        lines: None if the list is written in any other way than by kustomize and kpt.
        flow: it is written as `{…}`, such as JSON, and nothing is around that.
    """

    text: str
    items: tuple[Item, ...]
    config: Item | None
    fields: tuple[Field, ...]
    lines: Lines | None
    flow: bool


def read(text: Text) -> ResourceList:
    """Return the ResourceList in a text.

    Raises:
        MlgenError: the text is not valid YAML, or not a ResourceList; or an alias stands for a
            value of another item, so that items cannot be replaced one by one.
    """
    import yaml

    if text.problem:
        raise MlgenError([text.problem])
    source = text.text.lstrip(BYTE_ORDER_MARK)
    reading = Reading(text.name)
    try:
        for step in walk(source, LENGTH):
            reading.add(step)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = Place(text.name, mark.line + 1, mark.column + 1) if mark else Place(text.name)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        problem = Problem((), f"is not valid YAML: {reason}", "not-yaml", place=place)
        raise MlgenError([problem]) from None
    root = reading.check()
    items = tuple(_item(source, part) for part in reading.items)
    config = reading.fields.get(CONFIG)
    return ResourceList(
        text=source,
        items=items,
        config=_item(source, config) if config and config.kind == MAPPING else None,
        fields=tuple(Field(name, p.key, p.start, p.end) for name, p in reading.values),
        lines=_lines(source, root, reading),
        flow=root.flow and source.strip() == source[root.start : root.end],
    )


def _item(text: str, part: Part) -> Item:
    """Return the item that a part is."""
    words = part.words
    paths = (words.get((*ANNOTATIONS, name), "") for name in PATHS)
    return Item(
        source=text,
        start=part.start,
        end=part.end,
        margin=0 if part.flow else part.place[1],
        version=words.get(("apiVersion",), ""),
        kind=words.get(("kind",), ""),
        name=words.get(("metadata", "name"), ""),
        namespace=words.get(("metadata", "namespace"), ""),
        path=next(filter(None, paths), ""),
        local=words.get((*ANNOTATIONS, LOCAL)) == "true",
    )


def _lines(text: str, root: Part, reading: Reading) -> Lines | None:
    """Return the lines of a list; None unless each field and item starts a line of its own.

    A text without a newline at its end has no line after the last one; and if a block of lines is
    the last value, a newline would change it.
    """
    if root.flow or reading.fields[ITEMS].flow or not text.endswith("\n") or "\r" in text:
        return None
    offsets = [*(part.key for _, part in reading.values), root.end]
    starts = [_line(text, offset) for offset in offsets]
    dashes = [_line_of_dash(text, part.start) for part in reading.items]
    if -1 in (*starts, *dashes):
        return None
    spans = [
        (name, *span) for (name, _), span in zip(reading.values, pairwise(starts), strict=True)
    ]
    (after,) = (end for name, _, end in spans if name == ITEMS)
    return Lines(
        items=(*dashes, after),
        item_column=text.index("-", dashes[0]) - dashes[0],
        results=tuple((start, end) for name, start, end in spans if name == RESULTS),
        column=offsets[0] - starts[0],
        end=starts[-1],
    )


def _line(text: str, index: int) -> int:
    """Return the offset of the line of a value; -1 if more than spaces is before the value."""
    start = text.rfind("\n", 0, index) + 1
    return -1 if text[start:index].strip(" ") else start


def _line_of_dash(text: str, index: int) -> int:
    """Return the offset of the line of an item's dash; -1 if more than spaces is before the dash.

    Between the dash and the item, there are only comments and empty lines.

    Args:
        text: the list.
        index: the offset of the item.
    """
    start = text.rfind("\n", 0, index) + 1
    before = text[start:index].strip(" ")
    while start and (not before or before.startswith("#")):
        end = start - 1
        start = text.rfind("\n", 0, end) + 1
        before = text[start:end].strip(" ")
    after_dash = before.removeprefix("-").strip(" ")
    return start if before.startswith("-") and after_dash[:1] in ("", "#") else -1
