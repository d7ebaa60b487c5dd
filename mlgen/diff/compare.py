"""Two versions of an object → the fields whose values differ for the API server.

Absent, null and the default are equal to it, as are two spellings of one quantity. Lists that
`kubectl apply` merges by a key are compared by that key, other lists as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes import quantity
from mlgen.kubernetes.changes import Change, FieldPath
from mlgen.kubernetes.defaults import DEFAULTS, Always
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.labels import LAST_APPLIED
from mlgen.kubernetes.merge import KEYS
from mlgen.kubernetes.objects import Object

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
"""Mappings with free keys. A missing one equals an empty one."""

QUANTITIES = ("divisor", "limits", "minResources", "requests", "sizeLimit")
"""Fields that are quantities, or mappings of nothing else."""

NOT_COMPARED = ("apiVersion", "kind", "metadata", "status")
"""Top-level fields that are not compared; of the metadata, labels and annotations are."""


def changes(old: Object, new: Object) -> list[Change]:
    """Return the differences between two versions of an object, in the order of the new one."""
    defaults = {"metadata": Always(), **DEFAULTS.get(group_kind(new), {})}
    return list(_mapping_changes(_compared(old), _compared(new), defaults, ()))


def _compared(item: Object) -> Object:
    """Return the fields of an object that are compared."""
    metadata = item.get("metadata") or {}
    fields = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    if LAST_APPLIED in fields.get("annotations", {}):
        annotations = fields["annotations"].items()
        fields["annotations"] = {name: v for name, v in annotations if name != LAST_APPLIED}
    rest = {name: value for name, value in item.items() if name not in NOT_COMPARED}
    return {"metadata": fields, **rest}


def _mapping_changes(old: Object, new: Object, defaults: Any, path: FieldPath) -> Iterator[Change]:
    """Return the differences between two mappings.

    Args:
        old: the first mapping.
        new: the second mapping.
        defaults: a mapping of the fields' defaults, shaped as in `DEFAULTS`, or None.
        path: of the mappings.
    """
    has_free_keys = bool(path) and path[-1] in MAPPINGS
    for name in dict.fromkeys([*new, *old]):
        in_brackets = has_free_keys or "." in name or "/" in name
        field_path = (*path, f"[{name}]" if in_brackets else name)
        default = defaults.get(name) if isinstance(defaults, Mapping) else None
        yield from _field_changes((old, new), name, default, field_path)


def _field_changes(
    parents: tuple[Object, Object], name: str, default: Any, path: FieldPath
) -> Iterator[Change]:
    """Return the differences in one field of two mappings, with defaults filled in."""
    written = [parent.get(name) for parent in parents]
    if written[0] is None and written[1] is None:
        return
    old, new = (
        _default_value(parent, name, default) if value is None else value
        for parent, value in zip(parents, written, strict=True)
    )
    implied = "old" if written[0] is None and old is not None else ""
    implied = "new" if written[1] is None and new is not None else implied
    for change in _value_changes(old, new, default, path):
        is_implied = implied and change.path == path and not isinstance(default, Mapping)
        yield Change(path, change.old, change.new, implied) if is_implied else change


def _default_value(parent: Object, name: str, default: Any) -> Any:
    """Return the value that the API server sets for a field that is missing in its parent."""
    if isinstance(default, Always) or (default is None and name in MAPPINGS):
        return {}
    if isinstance(default, Callable):  # type: ignore[arg-type]
        return default(parent)
    return None if isinstance(default, (Mapping, list)) else default


def _value_changes(old: Any, new: Any, defaults: Any, path: FieldPath) -> Iterator[Change]:
    """Return the differences between two values of any type."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _mapping_changes(old, new, defaults, path)
    elif isinstance(old, list) and isinstance(new, list):
        item_defaults = defaults[0] if isinstance(defaults, list) else None
        yield from _list_changes(old, new, item_defaults, path)
    elif not _equal(old, new, path) and not (_is_empty(old, path) and _is_empty(new, path)):
        yield Change(path, old, new)


def _is_empty(value: Any, path: FieldPath) -> bool:
    """Return whether the API server treats a value as absent."""
    return value is None or value == [] or (value == {} and path[-1] in MAPPINGS)


def _equal(old: Any, new: Any, path: FieldPath) -> bool:
    """Return whether two values are equal; quantities by amount, and True is not 1."""
    if old is None or new is None or isinstance(old, (dict, list)):
        return bool(old == new)
    if set(path[-2:]) & set(QUANTITIES):
        try:
            return quantity.parse(old) == quantity.parse(new)
        except ValueError:
            return bool(old == new)
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _list_changes(
    old: Sequence[Any], new: Sequence[Any], defaults: Any, path: FieldPath
) -> Iterator[Change]:
    """Return the differences between two lists; `defaults` are those of each item."""
    before, after = by_merge_key(old, path[-1]), by_merge_key(new, path[-1])
    if before is not None and after is not None:
        for key in dict.fromkeys([*after, *before]):
            item_path = (*path, f"[{key}]")
            yield from _value_changes(before.get(key), after.get(key), defaults, item_path)
        common = ([k for k in before if k in after], [k for k in after if k in before])
        if common[0] != common[1]:
            yield Change(path, *common, order=True)
        return
    if len(old) == len(new) and all(isinstance(item, dict) for item in (*old, *new)):
        for index, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            yield from _mapping_changes(old_item, new_item, defaults, (*path, f"[{index}]"))
    elif old != new:
        yield Change(path, old, new)


def by_merge_key(items: Sequence[Any], name: str) -> dict[Any, Any] | None:
    """Return the items of a list by their merge key; None if the list is not merged by a key.

    Args:
        items: those of the list.
        name: of the field. `ports` has one merge key in a Service and another in a container.
    """
    if not all(isinstance(item, dict) for item in items):
        return None
    key = KEYS.get(name)
    if name == "ports" and items and "port" in items[0]:
        key = "port"
    if key is None or not all(isinstance(item.get(key), (str, int)) for item in items):
        return None
    by_key = {item[key]: item for item in items}
    return by_key if len(by_key) == len(items) else None


def select(value: Any, shape: Any, name: str = "") -> Any:
    """Return the parts of a value that a shape has too: of a live object, those of its manifest.

    Args:
        value: as in the cluster, with defaults and the fields of other writers.
        shape: as in the manifest.
        name: the field that holds both.
    """
    if isinstance(value, dict) and isinstance(shape, dict):
        return {key: select(value[key], shape[key], key) for key in shape if key in value}
    if not (isinstance(value, list) and isinstance(shape, list)):
        return value
    items, shapes = by_merge_key(value, name), by_merge_key(shape, name)
    if items is not None and shapes is not None:
        return [select(item, shapes[key]) for key, item in items.items() if key in shapes]
    if len(value) == len(shape):
        return [select(item, part) for item, part in zip(value, shape, strict=True)]
    return value
