"""The text of a ResourceList → its items, each with its span in the text.

A ResourceList is what kustomize and kpt pass to a KRM function, and expect back:
https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md

Spans let `output.resource_list` keep the text of items that it does not replace. YAML readers
differ: `defaultMode: 0644` is 420 to Kubernetes, and 644 in YAML 1.2.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlgen.documents.files import Text
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import Key
from mlgen.problems import MlgenError, Place, Problem
from mlgen.records import record, replace

Object = dict[str, Any]

KIND = "ResourceList"
VERSIONS = tuple(f"config.kubernetes.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))

PATHS = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
"""Annotations with the path of an item's file: kustomize, kyaml/kio/kioutil/kioutil.go."""

LOCAL = "config.kubernetes.io/local-config"
"""The annotation of items that are not applied, such as kustomize's copy of the functionConfig."""

HINT = "run this as a function of kustomize or kpt, or pass manifests to mlgen render -"

DASH = re.compile(r"(?:\s|#[^\n]*)*-")
"""Comments and white space between two items of a list, up to the dash of the second."""


@record
class Item:
    """An item of the list, or the functionConfig.

    Attributes:
        start: the offset of its text in the list; in block style, of the line of its dash.
        end: the offset of the end of its text.
        text: its text as a document of its own.
        version: its apiVersion.
        kind: its kind.
        name: metadata.name, or "".
        namespace: metadata.namespace, or "".
        path: the path of its file, or "".
        local: it is not to be applied to a cluster.
    """

    start: int
    end: int
    text: str
    version: str
    kind: str
    name: str
    namespace: str
    path: str
    local: bool

    @property
    def origin(self) -> str:
        """Its name in messages: the path of its file, else its kind and name."""
        return self.path or f"{self.kind}/{self.name}"

    @property
    def key(self) -> Key:
        """Its identity in a cluster."""
        return (group_of(self.version), self.kind, self.namespace, self.name)


@record
class ResourceList:
    """A ResourceList: its text, its items, and where text can be inserted.

    Attributes:
        text: the whole list, with a newline at its end.
        items: the items in their order.
        config: the functionConfig.
        item_column: the column of the items' dashes; None in flow style: `[{…}, {…}]`.
        column: the column of the list's own fields; None in flow style.
        append_at: the offset at which another item can be inserted.
        results_at: the offset at which the field `results` can be inserted.
    """

    text: str
    items: tuple[Item, ...]
    config: Item | None
    item_column: int | None
    column: int | None
    append_at: int
    results_at: int


def read(text: Text) -> ResourceList:
    """Return the ResourceList in a text, without the results of earlier functions.

    Raises:
        MlgenError: the text is not valid YAML, or not a ResourceList.
    """
    root = _root(text)
    version, kind = _word(root, "apiVersion"), _word(root, "kind")
    if kind != KIND or version not in VERSIONS:
        actual = f"{version} {kind}".strip() if kind else "a document without kind"
        raise _error(text, f"expected a {VERSIONS[0]} {KIND}, got {actual}", root, HINT)
    results = _results(root)
    if results:
        start, end = results
        return read(replace(text, text=text.text[:start] + text.text[end:]))
    nodes, config = _field(root, "items"), _field(root, "functionConfig")
    if nodes is None or nodes.kind != "list":
        raise _error(text, "items: expected a list", nodes or root)
    for node in nodes.parts:
        if node.kind != "mapping":
            raise _error(text, f"items: expected an object, got a {node.kind}", node)
    whole = text.text if text.text.endswith("\n") else f"{text.text}\n"
    spans = _spans(whole, nodes)
    items = tuple(_item(whole, node, span) for node, span in zip(nodes.parts, spans, strict=True))
    end = root.parts[-1].end.index if root.flow else root.end.index
    return ResourceList(
        text=whole,
        items=items,
        config=_item(whole, config, (0, 0)) if config and config.kind == "mapping" else None,
        item_column=None if nodes.flow else nodes.start.column,
        column=None if root.flow else root.start.column,
        append_at=items[-1].end if items else nodes.end.index - 1,
        results_at=end if root.flow else _line_start(whole, end),
    )


@dataclass(slots=True)
class _Node:
    """A value in the text.

    PyYAML's own composer rejects an anchor that two items use, and fails on deep nesting.

    Attributes:
        kind: mapping, list, scalar or alias.
        start: PyYAML's mark of its first character.
        end: PyYAML's mark of the end.
        flow: it is written as `{…}` or `[…]`.
        text: the text of a scalar.
        parts: the items of a list; the keys and values of a mapping, alternating.
    """

    kind: str
    start: Any
    end: Any
    flow: bool = False
    text: str = ""
    parts: list["_Node"] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple["_Node", "_Node"]]:
        """The keys of a mapping with their values; nothing for another kind."""
        parts = self.parts if self.kind == "mapping" else []
        return list(zip(parts[::2], parts[1::2], strict=True))


def _root(text: Text) -> _Node:
    """Return the only document of a text.

    Raises:
        MlgenError: the text is not valid YAML, or does not have exactly one document.
    """
    import yaml

    if text.problem:
        raise MlgenError([text.problem])
    try:
        documents = _documents(text.text)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = Place(text.name, mark.line + 1, mark.column + 1) if mark else Place(text.name)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        problem = Problem((), f"is not valid YAML: {reason}", "not-yaml", place=place)
        raise MlgenError([problem]) from None
    if not documents:
        raise MlgenError(
            [Problem((), "the file contains no documents", "empty", HINT, place=Place(text.name))]
        )
    if len(documents) > 1:
        message = f"expected one {KIND}, got {len(documents)} documents"
        raise _error(text, message, documents[1], HINT)
    return documents[0]


def _documents(text: str) -> list[_Node]:
    """Return the documents of a text.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    import yaml

    # libyaml's parser is ten times as fast, with the same marks.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: list[_Node] = []
    ancestors: list[_Node] = []
    for event in yaml.parse(text, loader):
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            ancestors.pop().end = event.end_mark
            continue
        kind = KINDS[type(event).__name__]
        flow = bool(getattr(event, "flow_style", False))
        node = _Node(kind, event.start_mark, event.end_mark, flow, getattr(event, "value", ""))
        (ancestors[-1].parts if ancestors else documents).append(node)
        if isinstance(event, yaml.CollectionStartEvent):
            ancestors.append(node)
    return documents


KINDS = {
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "list",
    "ScalarEvent": "scalar",
    "AliasEvent": "alias",
}
"""The kinds of nodes, by PyYAML's events."""


def _error(text: Text, message: str, node: _Node, hint: str = "") -> MlgenError:
    """Return an error at the place of a node."""
    place = Place(text.name, node.start.line + 1, node.start.column + 1)
    return MlgenError([Problem((), message, "resource-list", hint, place=place)])


def _field(node: _Node | None, *names: str) -> _Node | None:
    """Return the node at a path of keys, or None."""
    for name in names:
        fields = node.fields if node else []
        node = next((value for key, value in fields if key.text == name), None)
    return node


def _word(node: _Node | None, *names: str) -> str:
    """Return the text at a path of keys, or ""."""
    scalar = _field(node, *names)
    return scalar.text if scalar else ""


def _item(text: str, node: _Node, span: tuple[int, int]) -> Item:
    """Return the item at a node; its span may be wider than the node."""
    annotations = _field(node, "metadata", "annotations")
    start, end = node.start, node.end
    return Item(
        *span,
        text=" " * start.column + text[start.index : end.index],
        version=_word(node, "apiVersion"),
        kind=_word(node, "kind"),
        name=_word(node, "metadata", "name"),
        namespace=_word(node, "metadata", "namespace"),
        path=next(filter(None, (_word(annotations, name) for name in PATHS)), ""),
        local=_word(annotations, LOCAL) == "true",
    )


def _spans(text: str, items: _Node) -> Iterable[tuple[int, int]]:
    """Return the start and end offset of each item; in block style, items are whole lines."""
    if items.flow:
        return [(node.start.index, node.end.index) for node in items.parts]
    starts, end = [], items.start.index
    for node in items.parts:
        dash = DASH.match(text, end)
        starts.append(_line_start(text, dash.end() if dash else end))
        end = node.end.index
    return pairwise([*starts, _line_start(text, items.end.index)])


def _line_start(text: str, index: int) -> int:
    """Return the offset of the start of the line that contains an offset."""
    return text.rfind("\n", 0, index) + 1


def _results(root: _Node) -> tuple[int, int] | None:
    """Return the start and end offset of the field `results` of an earlier function, or None."""
    fields = root.fields
    for number, (key, value) in enumerate(fields):
        if key.text == "results" and number + 1 < len(fields):
            return key.start.index, fields[number + 1][0].start.index
        if key.text == "results":
            # In flow style, the comma before the field goes too.
            return fields[number - 1][1].end.index, value.end.index
    return None
