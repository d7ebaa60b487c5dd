"""The events of a ResourceList → where its fields and items are, and the strings that matter."""

from dataclasses import dataclass, field
from typing import Any

from mlgen.bounds import DEPTH, DOCUMENTS
from mlgen.documents.events import Step
from mlgen.problems import Code, MlgenError, Place, Problem, ValuePath

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
"""The paths of the strings that are kept of an item."""

LENGTH = 5
"""Steps of the longest of them within the list, which is that of an annotation of an item."""

HINT = "run this as a function of kustomize or kpt, or pass manifests to mlgen render -"

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


@dataclass(slots=True)
class Part:
    """The list, the value of one of its fields, or an item.

    Attributes:
        kind: mapping, list, scalar or alias.
        flow: it is written as `{…}` or `[…]`.
        start: the offset of its first character.
        end: the offset of its end; in block style, that is the start of what follows.
        place: its line and column, from 0.
        key: the offset of the key of a field.
        words: the strings of `WORDS` and of a scalar itself, by path.
    """

    kind: str
    flow: bool
    start: int
    end: int
    place: tuple[int, int]
    key: int = 0
    words: dict[ValuePath, str] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """What has been read of a list.

    Attributes:
        name: of the text, in messages.
        root: the list; None before it starts.
        fields: the value of each field.
        values: each name with its value, in their order; `results` can be there several times.
        items: the items.
        homes: the item or field that has each anchor.
        problem: the first one that is reported if the text is a ResourceList.
    """

    name: str
    root: Part | None = None
    fields: dict[str, Part] = field(default_factory=dict)
    values: list[tuple[str, Part]] = field(default_factory=list)
    items: list[Part] = field(default_factory=list)
    homes: dict[str, ValuePath] = field(default_factory=dict)
    problem: Problem | None = None
    _key: int = 0
    _open: list[Part | None] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Read an event.

        Raises:
            MlgenError: there is more than one document, or too much of something.
        """
        event, path = step.event, step.path
        if step.depth >= DEPTH + ITEM and hasattr(event, "flow_style"):
            raise self._error(f"has more than {DEPTH} levels", event, code="too-large")
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

    def _start(self, step: Step) -> Part | None:
        """Return the list, field or item that an event starts; None for all else, which is read.

        Raises:
            MlgenError: there is more than one document.
        """
        event = step.event
        if step.depth == 0:
            if self.root:
                raise self._error(f"expected one {KIND} alone", event, HINT)
            self.root = _part(event)
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
        # There is no value yet within a key that is a mapping itself.
        if part and inner in WORDS and step.depth == len(step.path):
            part.words.setdefault(inner, getattr(step.event, "value", ""))

    def _start_field(self, event: Any, name: str) -> None:
        self._key = event.start_mark.index
        if name in self.fields and name != RESULTS:
            self._report(f'duplicate key "{name}"', event)

    def _field(self, event: Any, name: str) -> Part:
        part = self.fields[name] = _part(event)
        part.key = self._key
        self.values.append((name, part))
        if name == ITEMS and part.kind != LIST:
            self._report("items: expected a list", event)
        return part

    def _item(self, event: Any) -> Part:
        part = _part(event)
        self.items.append(part)
        if part.kind != MAPPING:
            self._report(f"items: expected an object, got a {part.kind}", event)
        return part

    def _check_alias(self, event: Any, home: ValuePath) -> None:
        """Report an alias of a value in another item, which may be replaced."""
        if type(event).__name__ != "AliasEvent":
            if event.anchor:
                self.homes[event.anchor] = home
        elif self.homes.get(event.anchor) != home:
            self._report(f"the anchor of *{event.anchor} is not in the same item", event)

    def _report(self, message: str, event: Any) -> None:
        """Keep the first problem."""
        if not self.problem:
            (self.problem,) = self._error(message, event).problems

    def _error(
        self, message: str, event: Any, hint: str = "", code: Code = "resource-list"
    ) -> MlgenError:
        """Return an error at the place of an event."""
        mark = event.start_mark
        place = Place(self.name, mark.line + 1, mark.column + 1)
        return MlgenError([Problem((), message, code, hint, place=place)])

    def check(self) -> Part:
        """Return the list.

        Raises:
            MlgenError: what was read is not a ResourceList.
        """
        if not self.root:
            place = Place(self.name)
            problem = Problem((), "the file contains no documents", "empty", HINT, place=place)
            raise MlgenError([problem])
        words = {name: part.words.get((), "") for name, part in self.fields.items()}
        version, kind = words.get("apiVersion", ""), words.get("kind", "")
        row, column = self.root.place
        place = Place(self.name, row + 1, column + 1)
        if kind != KIND or version not in VERSIONS:
            actual = f"{version} {kind}".strip() if kind else "a document without kind"
            message = f"expected a {VERSIONS[0]} {KIND}, got {actual}"
            raise MlgenError([Problem((), message, "resource-list", HINT, place=place)])
        if ITEMS not in self.fields:
            message = "items: expected a list"
            raise MlgenError([Problem((), message, "resource-list", place=place)])
        if self.problem:
            raise MlgenError([self.problem])
        return self.root


def _part(event: Any) -> Part:
    """Return the value that an event starts."""
    start, end = event.start_mark, event.end_mark
    part = Part(
        kind=KINDS[type(event).__name__],
        flow=bool(getattr(event, "flow_style", False)),
        start=start.index,
        end=end.index,
        place=(start.line, start.column),
    )
    if part.kind == SCALAR:
        part.words[()] = event.value
    return part
