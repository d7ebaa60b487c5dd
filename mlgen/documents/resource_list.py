"""Parses the text of a ResourceList to its items, each with its span in the text.

A ResourceList is the input and output of a KRM function, in kustomize and kpt:
https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md

Spans let `output.resource_list` keep the text of items that it does not replace. YAML readers
differ: `defaultMode: 0644` is 420 in Kubernetes, and 644 in YAML 1.2. Events and items are read one
after the other and then dropped, so memory does not depend on the content of the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import yaml

from mlgen.bounds import DEPTH, DOCUMENTS
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import LOADER, TOO_DEEP, ambiguous, read_document
from mlgen.kubernetes.objects import Key, group_of
from mlgen.kubernetes.values import value_at
from mlgen.problems import Code, MlgenError, Place, Problem, ValuePath

CONFIG = "functionConfig"

BYTE_ORDER_MARK = "\ufeff"

KIND = "ResourceList"
VERSIONS = tuple(f"config.kubernetes.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))

ITEMS, RESULTS = "items", "results"

PATHS = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
"""Annotations with the path of an item's file: kustomize, kyaml/kio/kioutil/kioutil.go."""

LOCAL = "config.kubernetes.io/local-config"
"""The annotation of items that are not applied, such as kustomize's copy of the functionConfig."""

ANNOTATIONS: ValuePath = ("metadata", "annotations")

WORDS: frozenset[ValuePath] = frozenset(
    [
        ("apiVersion",),
        ("kind",),
        ("metadata", "name"),
        ("metadata", "namespace"),
        *((*ANNOTATIONS, name) for name in (*PATHS, LOCAL)),
    ]
)
"""The paths of an item's strings that are kept."""

LENGTH = 5
"""The length of the longest path in WORDS within the list: an annotation of an item."""

HINT = "run mlgen krm from kustomize or kpt; for manifests, run mlgen render -"

ITEM = 2
"""The number of lists and mappings around an item."""

MAPPING, LIST, SCALAR, ALIAS = "mapping", "list", "scalar", "alias"
KINDS = {
    "MappingStartEvent": MAPPING,
    "SequenceStartEvent": LIST,
    "ScalarEvent": SCALAR,
    "AliasEvent": ALIAS,
}
"""The kinds of values, by PyYAML's events."""


class Step(NamedTuple):
    """An event of PyYAML and its position.

    Attributes:
        role: of the event: a key, the start of a value, or the end of a list or mapping.
        event: of PyYAML.
        path: of the value, or of the key's value, cut to a maximum length.
        depth: the number of lists and mappings around it.
    """

    role: Literal["key", "value", "end"]
    event: Any
    path: ValuePath
    depth: int


class _Collection:
    """A list or mapping that is being read: its path, and the path of the current value."""

    def __init__(self, path: ValuePath, *, is_mapping: bool) -> None:
        self.path, self.current, self.is_mapping = path, path, is_mapping
        self.count = 0

    def enter(self, key: str, length: int) -> Literal["key", "value"]:
        """Advance to the next key or value.

        Args:
            key: the text of the value if it is a key.
            length: the maximum length of paths.
        """
        is_key = self.is_mapping and self.count % 2 == 0
        if len(self.path) < length and (is_key or not self.is_mapping):
            self.current = (*self.path, key if is_key else self.count)
        self.count += 1
        return "key" if is_key else "value"


def walk(text: str, length: int, parser: Any = LOADER) -> Iterator[Step]:
    """Yield the keys and values of all documents of a text, and the ends of lists and mappings.

    PyYAML's own composer rejects an anchor that two items use, and fails on deep nesting.

    Args:
        text: must not start with a byte order mark, which libyaml does not count.
        length: the maximum length of paths.
        parser: of PyYAML.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    around: list[_Collection] = []
    for event in yaml.parse(text, parser):
        if isinstance(event, yaml.CollectionEndEvent):
            yield Step("end", event, around.pop().path, len(around))
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        key = event.value if isinstance(event, yaml.ScalarEvent) else ""
        role = around[-1].enter(key, length) if around else "value"
        path = around[-1].current if around else ()
        yield Step(role, event, path, len(around))
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            around.append(_Collection(path, is_mapping=is_mapping))


@dataclass(slots=True)
class Item:
    """The list, the value of one of its fields, such as the functionConfig, or an item.

    Attributes:
        source: the text of the list.
        node: mapping, list, scalar or alias.
        flow: True if it is written as `{…}` or `[…]`.
        start: the offset of its first character.
        end: the offset of its end; in block style, the start of the following text.
        place: its line and column, from 0.
        owner: the name of its field, or "".
        before: the offset of the key of that field.
        words: the texts of the scalars at the paths in `WORDS`, and of a scalar itself, by path.
        problems: its own, as the reader of documents reports them.
    """

    source: str
    node: str
    flow: bool
    start: int
    end: int
    place: tuple[int, int]
    owner: str = ""
    before: int = 0
    words: dict[ValuePath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> None:
        """Read the item as a document. If that is not possible, its words stay as they are."""
        document = read_document(self.origin, 0, self.text)
        if not isinstance(document, Document):
            self.problems = document
            return
        self.problems = document.problems
        self.words = {}
        for path in WORDS:
            value = value_at(document.data, path)
            if not isinstance(value, dict | list | None):
                self.words[path] = document.texts.get(path, str(value))

    @property
    def text(self) -> str:
        """Its text as a separate document."""
        margin = 0 if self.flow else self.place[1]
        return " " * margin + self.source[self.start : self.end]

    @property
    def version(self) -> str:
        """Its apiVersion, or ""."""
        return self.words.get(("apiVersion",), "")

    @property
    def kind(self) -> str:
        """Its kind, or ""."""
        return self.words.get(("kind",), "")

    @property
    def name(self) -> str:
        """metadata.name, or ""."""
        return self.words.get(("metadata", "name"), "")

    @property
    def namespace(self) -> str:
        """metadata.namespace, or ""."""
        return self.words.get(("metadata", "namespace"), "")

    @property
    def path(self) -> str:
        """The path of its file, or ""."""
        paths = (self.words.get((*ANNOTATIONS, name), "") for name in PATHS)
        return next(filter(None, paths), "")

    @property
    def local(self) -> bool:
        """True if it is not to be applied to a cluster."""
        return self.words.get((*ANNOTATIONS, LOCAL)) == "true"

    @property
    def origin(self) -> str:
        """Its name in messages: the path of its file, else its kind and name."""
        return self.path or f"{self.kind}/{self.name}"

    @property
    def key(self) -> Key:
        """Its identity in a cluster."""
        return (group_of(self.version), self.kind, self.namespace, self.name)


@dataclass(slots=True)
class Reading:
    """The parts of a list that have been read.

    Attributes:
        name: of the text, in messages.
        source: the text.
        root: the list; None before it starts.
        fields: the value of each field.
        values: the values of all fields in order. `results` can occur several times.
        items: the items.
        homes: the item or field that contains each anchor.
        problem: the first problem, which is reported only if the text is a ResourceList.
    """

    name: str
    source: str
    root: Item | None = None
    fields: dict[str, Item] = field(default_factory=dict)
    values: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    homes: dict[str, ValuePath] = field(default_factory=dict)
    problem: MlgenError | None = None
    _key: int = 0
    _open: list[Item | None] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Read an event.

        Raises:
            MlgenError: there is more than one document, or a limit is exceeded.
        """
        event, path = step.event, step.path
        if step.depth >= DEPTH + ITEM and hasattr(event, "flow_style"):
            raise self._error(f"is nested more than {DEPTH} levels deep", event, code="too-large")
        if len(self.items) > DOCUMENTS:
            raise self._error(f"has more than {DOCUMENTS:,} items", event, code="too-large")
        if step.role == "end":
            part = self._open.pop()
            if part:
                part.end = event.end_mark.index
            return
        self._check_alias(event, path[:2] if path[:1] == (ITEMS,) else path[:1])
        part = self._start(step)
        if hasattr(event, "flow_style"):
            self._open.append(part)

    def _start(self, step: Step) -> Item | None:
        """Read an event, and return the list, field or item that it starts, or None.

        Raises:
            MlgenError: there is more than one document.
        """
        event = step.event
        if step.depth == 0:
            if self.root:
                raise self._error(f"expected a single {KIND}", event, HINT)
            self.root = self._part(event)
            return self.root
        if step.role == "key":
            if step.depth == 1:
                self._start_field(event, str(step.path[0]))
            return None
        if step.depth == 1:
            return self._field(event, str(step.path[0]))
        if step.depth == ITEM and step.path[0] == ITEMS:
            return self._item(event)
        self._add_word(step)
        return None

    def _add_word(self, step: Step) -> None:
        """Keep a string of an item, or of the functionConfig."""
        in_item = step.path[0] == ITEMS
        part = self.items[-1] if in_item and self.items else self.fields.get(str(step.path[0]))
        inner = step.path[ITEM if in_item else 1 :]
        # Within a key that is a mapping itself, there is no value yet.
        if part and inner in WORDS and step.depth == len(step.path):
            part.words[inner] = getattr(step.event, "value", "")

    def _start_field(self, event: Any, name: str) -> None:
        self._key = event.start_mark.index
        if type(event) is yaml.AliasEvent or name == "<<":
            self._report("expected a string as key", event)
        if name in self.fields and name != RESULTS:
            self._report(f'duplicate key "{name}"', event)

    def _field(self, event: Any, name: str) -> Item:
        part = self.fields[name] = self._part(event)
        part.owner, part.before = name, self._key
        self.values.append(part)
        if name == ITEMS and part.node != LIST:
            self._report("items: expected a list", event)
        return part

    def _item(self, event: Any) -> Item:
        part = self._part(event)
        self.items.append(part)
        if part.node != MAPPING:
            self._report(f"items: expected an object, got a {part.node}", event)
        return part

    def _check_alias(self, event: Any, home: ValuePath) -> None:
        """Report an alias of a value in another item, because that item may be replaced."""
        if type(event).__name__ != "AliasEvent":
            if event.anchor:
                self.homes[event.anchor] = home
        elif self.homes.get(event.anchor) != home:
            self._report(f"the anchor of *{event.anchor} is not in the same item", event)

    def _report(self, message: str, event: Any) -> None:
        """Keep the first problem."""
        self.problem = self.problem or self._error(message, event)

    def _error(
        self, message: str, event: Any, hint: str = "", code: Code = "resource-list"
    ) -> MlgenError:
        """Return an error at the place of an event."""
        mark = event.start_mark
        return _failed(message, Place(self.name, mark.line + 1, mark.column + 1), hint, code)

    def check(self) -> Item:
        """Return the list.

        Raises:
            MlgenError: the text is not a ResourceList.
        """
        if not self.root:
            raise _failed("the file contains no documents", Place(self.name), HINT, "empty")
        words = {name: part.words.get((), "") for name, part in self.fields.items()}
        version, kind = words.get("apiVersion", ""), words.get("kind", "")
        row, column = self.root.place
        place = Place(self.name, row + 1, column + 1)
        if kind != KIND or version not in VERSIONS:
            actual = f"{version} {kind}".strip() if kind else "a document without kind"
            raise _failed(f"expected a {VERSIONS[0]} {KIND}, got {actual}", place, HINT)
        if ITEMS not in self.fields:
            raise _failed("items: expected a list", place)
        if self.problem:
            raise self.problem
        return self.root

    def _part(self, event: Any) -> Item:
        """Return the value that an event starts."""
        start, node = event.start_mark, KINDS[type(event).__name__]
        return Item(
            source=self.source,
            node=node,
            flow=bool(getattr(event, "flow_style", False)),
            start=start.index,
            end=event.end_mark.index,
            place=(start.line, start.column),
            words={(): event.value} if node == SCALAR else {},
        )


def _failed(message: str, place: Place, hint: str = "", code: Code = "resource-list") -> MlgenError:
    """Return the error of one problem."""
    return MlgenError([Problem((), message, code, hint, place=place)])


@dataclass(frozen=True)
class Lines:
    """Offsets for replacing whole lines in a list in the format of kustomize and kpt.

    Attributes:
        items: the offset of the line of each item, and of the line after the last one.
        item_column: the column of the items' dashes.
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
        fields: the values of its fields in their order.
        lines: None if the list is not in the format of kustomize and kpt.
        flow: True if the whole text is a mapping in flow style (`{…}`), such as JSON.
    """

    text: str
    items: tuple[Item, ...]
    config: Item | None
    fields: tuple[Item, ...]
    lines: Lines | None
    flow: bool


def read(text: Text) -> ResourceList:
    """Return the ResourceList in a text.

    Raises:
        MlgenError: the text is not valid YAML or not a ResourceList, or an alias repeats a value of
            another item. Items can then not be replaced one by one.
    """
    if text.problem:
        raise MlgenError([text.problem])
    source = text.text.lstrip(BYTE_ORDER_MARK)
    if problem := ambiguous(text.name, source):
        raise MlgenError([problem])
    try:
        reading = _reading(text.name, source, LOADER)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = Place(text.name, mark.line + 1, mark.column + 1) if mark else Place(text.name)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise _failed(f"is not valid YAML: {reason}", place, code="not-yaml") from None
    root = reading.check()
    config = reading.fields.get(CONFIG)
    config = config if config and config.node == MAPPING else None
    for item in [*reading.items, *([config] if config else [])]:
        item.read()
    return ResourceList(
        text=source,
        items=tuple(reading.items),
        config=config,
        fields=tuple(reading.values),
        lines=_lines(source, root, reading),
        flow=root.flow and source.strip() == source[root.start : root.end],
    )


def _reading(name: str, source: str, parser: Any) -> Reading:
    """Return the parts of a list.

    libyaml stops at deep nesting before it yields the first levels. PyYAML's own parser continues.

    Raises:
        MlgenError: there is more than one document, or a limit is exceeded.
        yaml.YAMLError: the text is not valid YAML.
    """
    reading = Reading(name, source)
    try:
        for step in walk(source, LENGTH, parser):
            reading.add(step)
    except yaml.MarkedYAMLError as error:
        if error.problem != TOO_DEEP or parser is yaml.SafeLoader:
            raise
        return _reading(name, source, yaml.SafeLoader)
    return reading


def _lines(text: str, root: Item, reading: Reading) -> Lines | None:
    """Return the lines of a list; None unless each field and item starts on its own line.

    None also if the text does not end with a newline. Lines cannot be appended then, because adding
    a newline would change a block scalar at the end.
    """
    if root.flow or reading.fields[ITEMS].flow or not text.endswith("\n") or "\r" in text:
        return None
    offsets = [*(part.before for part in reading.values), root.end]
    starts = [_line(text, offset) for offset in offsets]
    dashes = [_line_of_dash(text, part.start) for part in reading.items]
    if -1 in (*starts, *dashes):
        return None
    spans = [
        (part.owner, *span) for part, span in zip(reading.values, pairwise(starts), strict=True)
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
    """Return the offset of the line of a value; -1 if anything but spaces precedes it there."""
    start = text.rfind("\n", 0, index) + 1
    return -1 if text[start:index].strip(" ") else start


def _line_of_dash(text: str, index: int) -> int:
    """Return the offset of the line of an item's dash; -1 if the line does not start with it.

    Between the dash and the item, there may be comments and empty lines.

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
