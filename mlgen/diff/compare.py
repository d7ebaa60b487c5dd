"""Old and new objects → which object each new one updates, and the fields that differ.

Like the API server, the comparison treats absent, null and default values as equal, and two
spellings of one quantity as equal. Lists that `kubectl apply` merges by a key are compared by that
key, other lists as a whole.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlgen.kubernetes import quantity
from mlgen.kubernetes.names import LAST_APPLIED
from mlgen.kubernetes.objects import Key, Object, group_kind
from mlgen.kubernetes.updates import Always, Change, FieldPath, defaults
from mlgen.kubernetes.values import KEYS, mapping, merged
from mlgen.objects.labels import INSTANCE, JOB, MANAGED_BY, SUPERVISES

JobKey = tuple[str, str]
"""The namespace and the name of a job; each is "" if there is none."""


class Pairing(NamedTuple):
    """The updated, created and removed objects.

    Attributes:
        pairs: each new object with the old object that it updates; None if it is created.
        removed: old objects without a new object.
        new_jobs: the created objects of each job without old objects.
        removed_jobs: the removed objects of each job without new objects.
    """

    pairs: tuple[tuple[Object | None, Object], ...]
    removed: tuple[Object, ...]
    new_jobs: Mapping[JobKey, Sequence[Object]]
    removed_jobs: Mapping[JobKey, Sequence[Object]]


def pair(before: Sequence[Object], after: Sequence[Object]) -> Pairing:
    """Return each new object with the old object that it updates, and the removed objects."""
    pairs = tuple(_pairs(before, after))
    matched = [old for old, _ in pairs if old is not None]
    matched_ids = {id(old) for old in matched}
    removed = tuple(old for old in before if id(old) not in matched_ids)
    return Pairing(
        pairs,
        removed,
        _jobs_without(matched, (new for old, new in pairs if old is None)),
        _jobs_without(after, removed),
    )


def job_name(item: Object) -> str:
    """Return the name of an object's job; "" if it belongs to no job.

    The ConfigMap of a job's status and its claims lack the job's label, so that a cleanup by label
    keeps them. Claims, and objects of earlier versions, are identified by recommended labels.
    """
    labels = mapping(item["metadata"], "labels")
    is_ours = labels.get(MANAGED_BY) == "mlgen"
    own = labels.get(JOB) or labels.get(SUPERVISES)
    return str(own or (is_ours and labels.get(INSTANCE)) or "")


def job_key(item: Object) -> JobKey:
    """Return the namespace and the name of an object's job."""
    return item["metadata"].get("namespace") or "", job_name(item)


def _pairs(
    before: Sequence[Object], after: Sequence[Object]
) -> Iterator[tuple[Object | None, Object]]:
    """Yield each new object with the old object of the same identity.

    Objects from a cluster always have a namespace, but manifests may omit it. If one of the two is
    from a cluster, a missing namespace matches any namespace.
    """
    by_key = {_key(item): item for item in before}
    live = {_key(item, namespace=False): item for item in before if "uid" in item["metadata"]}
    for new in after:
        candidate = live.get(_key(new, namespace=False))
        namespaces = [item["metadata"].get("namespace") for item in (candidate, new) if item]
        yield by_key.get(_key(new)) or (None if all(namespaces) else candidate), new


def _key(item: Object, *, namespace: bool = True) -> Key:
    """Return the identity of an object in a cluster, with or without its namespace."""
    metadata = item["metadata"]
    return (*group_kind(item), (namespace and metadata.get("namespace")) or "", metadata["name"])


def _jobs_without(
    others: Iterable[Object], objects: Iterable[Object]
) -> dict[JobKey, list[Object]]:
    """Return the objects of each job that has none of the other objects, by job."""
    other_jobs = {job_key(item) for item in others}
    jobs: dict[JobKey, list[Object]] = {}
    for item in objects:
        if job_name(item) and job_key(item) not in other_jobs:
            jobs.setdefault(job_key(item), []).append(item)
    return jobs


MAPPINGS = (
    *("annotations", "binaryData", "data", "labels", "limits"),
    *("matchLabels", "nodeSelector", "requests", "stringData"),
)
"""Mappings with arbitrary keys. A missing mapping equals an empty one."""

QUANTITIES = ("divisor", "limits", "minResources", "requests", "sizeLimit")
"""Fields whose values are quantities, or mappings of quantities."""

NOT_COMPARED = ("apiVersion", "kind", "metadata", "status")
"""Top-level fields that are not compared, except for labels and annotations in the metadata."""


def changes(old: Object, new: Object) -> list[Change]:
    """Return the differences between two versions of an object, in the order of the new one."""
    tree = {"metadata": Always(), **defaults(*group_kind(new))}
    return list(_mapping_changes(_compared(old), _compared(new), tree, ()))


def _compared(item: Object) -> Object:
    """Return the fields of an object that are compared."""
    metadata = item.get("metadata") or {}
    fields = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    if LAST_APPLIED in fields.get("annotations", {}):
        annotations = fields["annotations"].items()
        fields["annotations"] = {name: v for name, v in annotations if name != LAST_APPLIED}
    rest = {name: value for name, value in item.items() if name not in NOT_COMPARED}
    return {"metadata": fields, **rest}


def _mapping_changes(old: Object, new: Object, tree: Any, path: FieldPath) -> Iterator[Change]:
    """Return the differences between two mappings.

    Args:
        old: the first mapping.
        new: the second mapping.
        tree: the fields' defaults, shaped as in `mlgen.kubernetes.updates`; None if there are
            none.
        path: the path of the mappings.
    """
    has_free_keys = bool(path) and path[-1] in MAPPINGS
    for name in dict.fromkeys([*new, *old]):
        in_brackets = has_free_keys or "." in name or "/" in name
        field_path = (*path, f"[{name}]" if in_brackets else name)
        default = tree.get(name) if isinstance(tree, Mapping) else None
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


def _value_changes(old: Any, new: Any, tree: Any, path: FieldPath) -> Iterator[Change]:
    """Return the differences between two values of any type."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _mapping_changes(old, new, tree, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(old, new, tree[0] if isinstance(tree, list) else None, path)
    elif not _equal(old, new, path) and not (_is_empty(old, path) and _is_empty(new, path)):
        yield Change(path, old, new)


def _is_empty(value: Any, path: FieldPath) -> bool:
    """Return True if the API server treats a value as absent."""
    return value is None or value == [] or (value == {} and path[-1] in MAPPINGS)


def _equal(old: Any, new: Any, path: FieldPath) -> bool:
    """Return True if two values are equal. Quantities are compared by amount, and True is not 1."""
    if old is None or new is None or isinstance(old, (dict, list)):
        return bool(old == new)
    if set(path[-2:]) & set(QUANTITIES):
        try:
            return quantity.parse(old) == quantity.parse(new)
        except ValueError:
            return bool(old == new)
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _list_changes(
    old: Sequence[Any], new: Sequence[Any], tree: Any, path: FieldPath
) -> Iterator[Change]:
    """Return the differences between two lists; `tree` contains the defaults of each item."""
    before, after = by_merge_key(old, path[-1]), by_merge_key(new, path[-1])
    if before is not None and after is not None:
        for key in dict.fromkeys([*after, *before]):
            yield from _value_changes(before.get(key), after.get(key), tree, (*path, f"[{key}]"))
        common = ([k for k in before if k in after], [k for k in after if k in before])
        if common[0] != common[1]:
            yield Change(path, *common, order=True)
        return
    if len(old) == len(new) and all(isinstance(item, dict) for item in (*old, *new)):
        for index, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            yield from _mapping_changes(old_item, new_item, tree, (*path, f"[{index}]"))
    elif old != new:
        yield Change(path, old, new)


def by_merge_key(items: Sequence[Any], name: str) -> dict[Any, Any] | None:
    """Return the items of a list by their merge key; None if the list is not merged by a key.

    Args:
        items: the items of the list.
        name: the field's name. `ports` has different merge keys in a Service and in a container.
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
    """Return the fields of a value that a shape also has, such as a manifest's fields of an object.

    Args:
        value: the value in the cluster, with defaults and the fields of other writers.
        shape: the value in the manifest.
        name: the name of the field with the value.
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


def three_way_fields(live: Object, new: Object) -> Object:
    """Return the fields of a live object that kubectl's three-way merge considers.

    These are the fields of the new manifest, and the fields of the last applied manifest, which are
    removed unless the new manifest contains them. Server-side apply does not store the last
    manifest, so removals are not detected. An object that is not from a cluster is returned
    unchanged.
    """
    if "uid" not in live["metadata"]:
        return live
    annotations = live["metadata"].get("annotations") or {}
    try:
        last_applied = json.loads(annotations.get(LAST_APPLIED, "{}"))
    except (RecursionError, ValueError):
        last_applied = {}
    fields: Object = select(live, merged(last_applied, new))
    return fields
