"""Two states of one object → the fields that the API server would see change.

Absent, null and a default are the same to it; so are two ways to write an amount. Lists that
`kubectl apply` merges are held against each other by their keys, and others as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes import quantity
from mlgen.kubernetes.changes import Change, FieldPath
from mlgen.kubernetes.defaults import DEFAULTS, Always
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.labels import LAST_APPLIED
from mlgen.kubernetes.merge import KEYS

Object = dict[str, Any]

MAPPINGS = (
    "annotations",
    "binaryData",
    "data",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "requests",
    "stringData",
)
"""Mappings whose keys anybody may choose; where there is none, it is an empty one."""

AMOUNTS = ("divisor", "limits", "minResources", "requests", "sizeLimit")
"""Fields that are amounts, or hold nothing else."""

NO_CONTENT = ("apiVersion", "kind", "metadata", "status")


def changes(old: Object, new: Object) -> list[Change]:
    """Return what differs between two states of an object, in the order of the new one."""
    tree = {"metadata": Always(), **DEFAULTS.get(group_kind(new), {})}
    return list(_mapping(_content(old), _content(new), tree, ()))


def _content(item: Object) -> Object:
    """What a user decides of an object that has its name: labels, annotations, and the rest."""
    written = item.get("metadata") or {}
    meta = {name: written[name] for name in ("labels", "annotations") if written.get(name)}
    if LAST_APPLIED in meta.get("annotations", {}):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != LAST_APPLIED}
    rest = {name: value for name, value in item.items() if name not in NO_CONTENT}
    return {"metadata": meta, **rest}


def _mapping(old: Object, new: Object, tree: Any, path: FieldPath) -> Iterator[Change]:
    free = bool(path) and path[-1] in MAPPINGS
    for name in dict.fromkeys([*new, *old]):
        below = (*path, f"[{name}]" if free or "." in name or "/" in name else name)
        sub = tree.get(name) if isinstance(tree, Mapping) else None
        yield from _field((old, new), name, sub, below)


def _field(around: tuple[Object, Object], name: str, sub: Any, path: FieldPath) -> Iterator[Change]:
    written = [side.get(name) for side in around]
    if written[0] is None and written[1] is None:
        return
    old, new = (
        _default(side, name, sub) if value is None else value
        for side, value in zip(around, written, strict=True)
    )
    found = list(_value(old, new, sub, path))
    implied = "old" if written[0] is None and old is not None else ""
    implied = "new" if written[1] is None and new is not None else implied
    for change in found:
        same = implied and change.path == path and not isinstance(sub, Mapping)
        yield Change(path, change.old, change.new, implied) if same else change


def _default(around: Object, name: str, sub: Any) -> Any:
    if isinstance(sub, Always) or (sub is None and name in MAPPINGS):
        return {}
    if isinstance(sub, Callable):  # type: ignore[arg-type]
        return sub(around)
    return None if isinstance(sub, (Mapping, list)) else sub


def _value(old: Any, new: Any, sub: Any, path: FieldPath) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _mapping(old, new, sub, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list(old, new, sub[0] if isinstance(sub, list) else None, path)
    elif not _same(old, new, path) and not (_nothing(old, path) and _nothing(new, path)):
        yield Change(path, old, new)


def _nothing(value: Any, path: FieldPath) -> bool:
    return value is None or value == [] or (value == {} and path[-1] in MAPPINGS)


def _same(old: Any, new: Any, path: FieldPath) -> bool:
    if old is None or new is None or isinstance(old, (dict, list)):
        return bool(old == new)
    if set(path[-2:]) & set(AMOUNTS):
        try:
            return quantity.parse(old) == quantity.parse(new)
        except ValueError:
            return bool(old == new)
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _list(old: Sequence[Any], new: Sequence[Any], sub: Any, path: FieldPath) -> Iterator[Change]:
    before, after = keyed(old, path[-1]), keyed(new, path[-1])
    if before is not None and after is not None:
        for key in dict.fromkeys([*after, *before]):
            yield from _value(before.get(key), after.get(key), sub, (*path, f"[{key}]"))
        common = ([k for k in before if k in after], [k for k in after if k in before])
        if common[0] != common[1]:
            yield Change(path, *common, order=True)
        return
    if len(old) == len(new) and all(isinstance(item, dict) for item in (*old, *new)):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _mapping(one, other, sub, (*path, f"[{index}]"))
    elif old != new:
        yield Change(path, old, new)


def keyed(items: Sequence[Any], name: str) -> dict[Any, Any] | None:
    """Return the items of a list that merges by their keys; None for any other list.

    Args:
        items: what it holds.
        name: of the field that holds it; a Service has its ports by another key than a container.
    """
    if not all(isinstance(item, dict) for item in items):
        return None
    key = KEYS.get(name)
    if name == "ports" and items and "port" in items[0]:
        key = "port"
    if key is None or not all(isinstance(item.get(key), (str, int)) for item in items):
        return None
    found = {item[key]: item for item in items}
    return found if len(found) == len(items) else None


def named(value: Any, shape: Any, name: str = "") -> Any:
    """Return what a shape names of a value: of an object in the cluster, what a manifest says of.

    Args:
        value: as the cluster has it, with defaults and what others have written.
        shape: as the manifest has it.
        name: the field that holds both.
    """
    if isinstance(value, dict) and isinstance(shape, dict):
        return {key: named(value[key], shape[key], key) for key in shape if key in value}
    if not (isinstance(value, list) and isinstance(shape, list)):
        return value
    there, asked = keyed(value, name), keyed(shape, name)
    if there is not None and asked is not None:
        return [named(item, asked[key]) for key, item in there.items() if key in asked]
    if len(value) == len(shape):
        return [named(item, part) for item, part in zip(value, shape, strict=True)]
    return value
