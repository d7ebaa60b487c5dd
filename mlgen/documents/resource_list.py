"""A ResourceList: text → its items, and some of them replaced → text.

What kustomize and kpt hand to a function, and want back:
https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md

What is not replaced is not written anew, as readers of YAML differ: `defaultMode: 0644` is 420 for
Kubernetes, and 644 for YAML 1.2.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from mlgen.documents.files import Text
from mlgen.problems import MlgenError, Place, Problem

Object = dict[str, Any]

KIND = "ResourceList"
VERSIONS = tuple(f"config.kubernetes.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))

PATHS = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
"""Annotations with the file that holds an item: kustomize, kyaml/kio/kioutil."""

LOCAL = "config.kubernetes.io/local-config"
"""An annotation of what is never applied, such as the functionConfig that kustomize lists again."""

HINT = "kustomize and kpt hand over a ResourceList; a stream of manifests is for mlgen render -"

DASH = re.compile(r"(?:\s|#[^\n]*)*-")
"""What stands between two items of a list, up to the dash of the second."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the list, or the functionConfig.

    Attributes:
        start: where its text begins in the list, with the line of its dash in block style.
        end: where it ends.
        text: all of it, as a document of its own.
        path: of the file that holds it, or "".
        local: it is nothing to apply.
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
        """What a user knows it by."""
        return self.path or f"{self.kind}/{self.name}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies it in a cluster, as in `checks.Key`."""
        return (self.version.rpartition("/")[0], self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ResourceList:
    """A ResourceList: its text, and where what is added to it goes.

    Attributes:
        config: the functionConfig.
        column: of the items' dashes; None in flow style: `[{…}, {…}]`.
        margin: of the list's own fields; None in flow style.
        more: where another item may stand.
        results: where results may stand.
    """

    text: str
    items: tuple[Item, ...]
    config: Item | None
    column: int | None
    margin: int | None
    more: int
    results: int


def read(text: Text) -> ResourceList:
    """Find the items of a ResourceList in its text.

    Results of a function before this one are left out.

    Raises:
        MlgenError: it is not YAML, or no ResourceList.
    """
    root = _root(text)
    version, kind = _word(root, "apiVersion"), _word(root, "kind")
    if kind != KIND or version not in VERSIONS:
        what = f"this is a {version} {kind}, and" if kind else "this is"
        raise _error(text, f"{what} no {VERSIONS[0]} {KIND}", root, HINT)
    old = _results(root)
    if old:
        return read(replace(text, text=text.text[: old[0]] + text.text[old[1] :]))
    nodes, config = _field(root, "items"), _field(root, "functionConfig")
    if nodes is None or nodes.kind != "sequence":
        raise _error(text, "its items are no list", nodes or root)
    for node in nodes.parts:
        if node.kind != "mapping":
            raise _error(text, "one of its items is no object", node)
    whole = text.text if text.text.endswith("\n") else f"{text.text}\n"
    spans = _spans(whole, nodes)
    items = tuple(_item(whole, node, span) for node, span in zip(nodes.parts, spans, strict=True))
    end = root.parts[-1].end.index if root.flow else root.end.index
    return ResourceList(
        text=whole,
        items=items,
        config=_item(whole, config, (0, 0)) if config and config.kind == "mapping" else None,
        column=None if nodes.flow else nodes.start.column,
        margin=None if root.flow else root.start.column,
        more=items[-1].end if items else nodes.end.index - 1,
        results=end if root.flow else _line(whole, end),
    )


@dataclass(slots=True)
class _Node:
    """A value in the text.

    PyYAML's own composer refuses an anchor that two items have, and a deep nesting is its end.

    Attributes:
        kind: mapping, sequence, scalar or alias.
        parts: the items of a sequence, and of a mapping key, value, key, value.
    """

    kind: str
    start: Any
    end: Any
    flow: bool = False
    text: str = ""
    parts: list["_Node"] = field(default_factory=list)

    @property
    def fields(self) -> list[tuple["_Node", "_Node"]]:
        parts = self.parts if self.kind == "mapping" else []
        return list(zip(parts[::2], parts[1::2], strict=True))


def _root(text: Text) -> _Node:
    """The one document of a text.

    Raises:
        MlgenError: there is none, or it is not YAML.
    """
    import yaml

    if text.problem:
        raise MlgenError([text.problem])
    try:
        documents = _documents(text.text)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = Place(text.name, mark.line + 1, mark.column + 1) if mark else Place(text.name)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        problem = Problem((), f"is not YAML: {what}", "not-yaml", place=place)
        raise MlgenError([problem]) from None
    if not documents:
        raise MlgenError([Problem((), "the file is empty", "empty", HINT, place=Place(text.name))])
    if len(documents) > 1:
        what = f"these are {len(documents)} documents, and no {KIND}"
        raise _error(text, what, documents[1], HINT)
    return documents[0]


def _documents(text: str) -> list[_Node]:
    import yaml

    # libyaml's is ten times as fast, and its marks are the same.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[_Node] = []
    around: list[_Node] = []
    for event in yaml.parse(text, loader):
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            around.pop().end = event.end_mark
            continue
        kind = KINDS[type(event).__name__]
        style = bool(getattr(event, "flow_style", False))
        node = _Node(kind, event.start_mark, event.end_mark, style, getattr(event, "value", ""))
        (around[-1].parts if around else found).append(node)
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(node)
    return found


KINDS = {
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "sequence",
    "ScalarEvent": "scalar",
    "AliasEvent": "alias",
}


def _error(text: Text, message: str, node: _Node, hint: str = "") -> MlgenError:
    place = Place(text.name, node.start.line + 1, node.start.column + 1)
    return MlgenError([Problem((), message, "resource-list", hint, place=place)])


def _field(node: _Node | None, *names: str) -> _Node | None:
    """The node at the end of a path of keys, or None."""
    for name in names:
        fields = node.fields if node else []
        node = next((value for key, value in fields if key.text == name), None)
    return node


def _word(node: _Node | None, *names: str) -> str:
    """The text at the end of a path of keys, or ""."""
    found = _field(node, *names)
    return found.text if found else ""


def _item(text: str, node: _Node, span: tuple[int, int]) -> Item:
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
    """Where the text of each item begins and ends: in block style whole lines."""
    if items.flow:
        return [(node.start.index, node.end.index) for node in items.parts]
    starts, end = [], items.start.index
    for node in items.parts:
        dash = DASH.match(text, end)
        starts.append(_line(text, dash.end() if dash else end))
        end = node.end.index
    return pairwise([*starts, _line(text, items.end.index)])


def _line(text: str, index: int) -> int:
    """Where the line begins in which something stands; of what ends the text, its end."""
    return text.rfind("\n", 0, index) + 1


def _results(root: _Node) -> tuple[int, int] | None:
    """Where the field begins and ends in which an earlier function left its results."""
    fields = root.fields
    for number, (key, value) in enumerate(fields):
        if key.text == "results" and number + 1 < len(fields):
            return key.start.index, fields[number + 1][0].start.index
        if key.text == "results":  # with the comma before it
            return fields[number - 1][1].end.index, value.end.index
    return None
