"""Parses the text of a ResourceList to its items, each with its span in the text.

A ResourceList is the input and output of a KRM function, in kustomize and kpt:
https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md

Spans let `output.resource_list` keep the text of items that it does not replace. YAML readers
differ: `defaultMode: 0644` is 420 in Kubernetes, and 644 in YAML 1.2. Events and items are read one
after the other and then dropped, so memory does not depend on the content of the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import LOADER, TOO_DEEP, ambiguous, read_document
from mlgen.input_limits import DEPTH, DOCUMENTS
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

HINT = "run mlgen krm from kustomize or kpt; for manifests, run mlgen render -"

ITEM = 2
"""The number of lists and mappings around an item."""

NOT_OBJECTS = {
    yaml.SequenceStartEvent: "list",
    yaml.ScalarEvent: "scalar",
    yaml.AliasEvent: "alias",
}
"""The kinds of values that are not mappings, by PyYAML's events."""


@dataclass(slots=True)
class Node:
    """A key or a value in a text.

    Attributes:
        event: the event of PyYAML that starts it.
        path: of the value, or of the key's value.
        depth: the number of lists and mappings around it.
        is_key: True for a key of a mapping.
        end: the event that ends a list or mapping; None for others, and until it has been read.
        count: the number of keys and values that are directly in it, so far.
        current: the path of the last of them.
    """

    event: Any
    path: ValuePath = ()
    depth: int = 0
    is_key: bool = False
    end: Any = None
    count: int = 0
    current: ValuePath = ()

    @property
    def last(self) -> Any:
        """The last event that has been read."""
        return self.end or self.event

    def inner(self, event: Any) -> "Node":
        """Return the next key or value in this list or mapping."""
        is_mapping = isinstance(self.event, yaml.MappingStartEvent)
        is_key = is_mapping and self.count % 2 == 0
        if is_key or not is_mapping:
            step = getattr(event, "value", "") if is_key else self.count
            self.current = (*self.path, step)
        self.count += 1
        return Node(event, self.current, self.depth + 1, is_key)


def walk(text: str, parser: Any = LOADER) -> Iterator[Node]:
    """Yield the keys and values of all documents of a text; lists and mappings also at their end.

    PyYAML's own composer rejects an anchor that two items use, and fails on deep nesting.

    Args:
        text: must not start with a byte order mark, which libyaml does not count.
        parser: of PyYAML.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    around: list[Node] = []
    for event in yaml.parse(text, parser):
        if isinstance(event, yaml.CollectionEndEvent):
            node = around.pop()
            node.end = event
            yield node
        elif isinstance(event, yaml.NodeEvent):
            node = around[-1].inner(event) if around else Node(event)
            yield node
            if isinstance(event, yaml.CollectionStartEvent):
                around.append(node)


@dataclass(slots=True)
class Item:
    """The list, the value of one of its fields, such as the functionConfig, or an item.

    Attributes:
        source: the text of the list.
        start: the offset of its first character.
        end: the offset of its end; in block style, the start of the following text.
        column: of its start, from 0.
        flow: True if it is written as `{…}` or `[…]`.
        owner: the name of its field, or "".
        before: the offset of the key of that field.
        words: the texts of the scalars at the paths in `WORDS`, by path.
        problems: its own, without places.
    """

    source: str
    start: int
    end: int
    column: int
    flow: bool
    owner: str = ""
    before: int = 0
    words: dict[ValuePath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> None:
        """Read the item as a document, or if that is not possible, only its words."""
        document = read_document("", 0, self.text)
        if isinstance(document, Document):
            problems = document.problems
            for path in WORDS:
                value = value_at(document.data, path)
                if not isinstance(value, dict | list | None):
                    self.words[path] = document.texts.get(path, str(value))
        else:
            problems = document
            for node in walk(self.text):
                # Within a key that is a mapping itself, there is no value yet.
                if not node.is_key and node.depth == len(node.path) and node.path in WORDS:
                    self.words[node.path] = getattr(node.event, "value", "")
        self.problems = [replace(problem, place=None) for problem in problems]

    @property
    def text(self) -> str:
        """Its text as a separate document."""
        margin = 0 if self.flow else self.column
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


class Lines(NamedTuple):
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


@dataclass
class ResourceList:
    """A ResourceList, or the parts of it that have been read.

    Attributes:
        name: of the text, in messages.
        text: the whole list.
        root: the list itself; None until it has been read.
        fields: the values of its fields in their order. `results` can occur several times.
        items: the items in their order.
        config: the functionConfig, if it is a mapping.
    """

    name: str
    text: str
    root: Item | None = None
    fields: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    config: Item | None = None
    _words: dict[str, str] = field(default_factory=dict)
    _homes: dict[str, ValuePath] = field(default_factory=dict)
    _start: Any = None
    _key: int = 0
    _problem: MlgenError | None = None

    @property
    def flow(self) -> bool:
        """True if the whole text is a mapping in flow style (`{…}`), such as JSON."""
        root = self.root
        return bool(root and root.flow and self.text.strip() == self.text[root.start : root.end])

    def add(self, node: Node) -> None:
        """Read a key or value, or the end of a list or mapping.

        Raises:
            MlgenError: there is more than one document, or a limit is exceeded.
        """
        if not node.end:
            self._check_alias(node)
            self._check(node)
        if node.is_key or isinstance(node.last, yaml.CollectionStartEvent):
            return
        if node.depth > ITEM or (node.depth == ITEM and node.path[0] != ITEMS):
            return
        start, is_flow = node.event.start_mark, bool(getattr(node.event, "flow_style", False))
        part = Item(self.text, start.index, node.last.end_mark.index, start.column, is_flow)
        if node.depth == ITEM:
            self.items.append(part)
        elif node.depth == 0:
            self.root = part
        else:
            part.owner, part.before = str(node.path[0]), self._key
            self.fields.append(part)
            if part.owner == CONFIG and isinstance(node.event, yaml.MappingStartEvent):
                self.config = part

    def _check(self, node: Node) -> None:
        """Check the start of a key or value."""
        event, path, mark = node.event, node.path, node.event.start_mark
        if node.depth >= DEPTH + ITEM and isinstance(event, yaml.CollectionStartEvent):
            message = f"is nested more than {DEPTH} levels deep"
            raise _error(self.name, mark, message, code="too-large")
        if node.depth == 0:
            if self._start:
                raise _error(self.name, mark, f"expected a single {KIND}", HINT)
            self._start = mark
        elif node.depth == 1 and node.is_key:
            self._check_key(event, str(path[0]))
        elif node.depth == 1:
            self._words[str(path[0])] = getattr(event, "value", "")
            if path == (ITEMS,) and not isinstance(event, yaml.SequenceStartEvent):
                self._report("items: expected a list", event)
        elif node.depth == ITEM and path[0] == ITEMS and not node.is_key:
            if len(self.items) >= DOCUMENTS:
                message = f"has more than {DOCUMENTS:,} items"
                raise _error(self.name, mark, message, code="too-large")
            if kind := NOT_OBJECTS.get(type(event)):
                self._report(f"items: expected an object, got a {kind}", event)

    def _check_key(self, event: Any, name: str) -> None:
        """Check a key of the list."""
        self._key = event.start_mark.index
        if type(event) is yaml.AliasEvent or name == "<<":
            self._report("expected a string as key", event)
        if name in self._words and name != RESULTS:
            self._report(f'duplicate key "{name}"', event)

    def _check_alias(self, node: Node) -> None:
        """Report an alias of a value in another item, because that item may be replaced."""
        anchor, home = node.event.anchor, node.path[: ITEM if node.path[:1] == (ITEMS,) else 1]
        if type(node.event) is not yaml.AliasEvent:
            if anchor:
                self._homes[anchor] = home
        elif self._homes.get(anchor) != home:
            self._report(f"the anchor of *{anchor} is not in the same item", node.event)

    def _report(self, message: str, event: Any) -> None:
        """Keep the first problem."""
        self._problem = self._problem or _error(self.name, event.start_mark, message)

    def check(self) -> None:
        """Check what has been read.

        Raises:
            MlgenError: the text is not a ResourceList.
        """
        if not self._start:
            raise _error(self.name, None, "the file contains no documents", HINT, "empty")
        version, kind = self._words.get("apiVersion", ""), self._words.get("kind", "")
        if kind != KIND or version not in VERSIONS:
            actual = f"{version} {kind}".strip() if kind else "a document without kind"
            message = f"expected a {VERSIONS[0]} {KIND}, got {actual}"
            raise _error(self.name, self._start, message, HINT)
        if ITEMS not in self._words:
            raise _error(self.name, self._start, "items: expected a list")
        if self._problem:
            raise self._problem

    @property
    def lines(self) -> Lines | None:
        """Where lines can be replaced; None unless each field and item starts on its own line.

        None also if the text does not end with a newline. Lines cannot be appended then, because
        adding a newline would change a block scalar at the end.
        """
        text, root = self.text, self.root
        items = next(part for part in self.fields if part.owner == ITEMS)
        if not root or root.flow or items.flow or not text.endswith("\n") or "\r" in text:
            return None
        offsets = [*(part.before for part in self.fields), root.end]
        starts = [_line(text, offset) for offset in offsets]
        dashes = [_line_of_dash(text, item.start) for item in self.items]
        if -1 in (*starts, *dashes):
            return None
        spans = [*zip(self.fields, pairwise(starts), strict=True)]
        (after,) = (end for part, (_, end) in spans if part is items)
        return Lines(
            items=(*dashes, after),
            item_column=text.index("-", dashes[0]) - dashes[0],
            results=tuple(span for part, span in spans if part.owner == RESULTS),
            column=offsets[0] - starts[0],
            end=starts[-1],
        )


def _error(
    name: str, mark: Any, message: str, hint: str = "", code: Code = "resource-list"
) -> MlgenError:
    """Return the error of one problem.

    Args:
        name: of the text, in messages.
        mark: of PyYAML; None if the place is not known.
        message: of the problem.
        hint: of the problem.
        code: of the problem.
    """
    place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name)
    return MlgenError([Problem((), message, code, hint, place=place)])


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
        found = _parsed(text.name, source, LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        message = f"is not valid YAML: {reason}"
        raise _error(text.name, mark, message, code="not-yaml") from None
    found.check()
    for item in [*found.items, *([found.config] if found.config else [])]:
        item.read()
    return found


def _parsed(name: str, source: str, parser: Any) -> ResourceList:
    """Return the parts of a list.

    libyaml stops at deep nesting before it yields the first levels. PyYAML's own parser continues.

    Raises:
        MlgenError: there is more than one document, or a limit is exceeded.
        yaml.YAMLError: the text is not valid YAML.
    """
    found = ResourceList(name, source)
    try:
        for node in walk(source, parser):
            found.add(node)
    except yaml.MarkedYAMLError as error:
        if error.problem != TOO_DEEP or parser is yaml.SafeLoader:
            raise
        return _parsed(name, source, yaml.SafeLoader)
    return found


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
