"""Values within plain data, such as a manifest, and strategic merges of such data.

Any value can have a wrong type. It counts as missing, because the checks of the structure report
it.

An object and a patch are merged as by `kubectl patch --type=strategic`. Mappings merge field by
field, and `null` removes a field. The lists in `KEYS` merge item by item: an item with the key of
an existing item is merged into it, any other item is appended. All other lists are replaced.
`$patch: replace`, `$patch: delete` and `$retainKeys` are supported. Unlike kubectl, which puts new
items first, this module appends them, because a variable must precede the variables that use it.

The keys are the patchMergeKey of the Go types:
https://github.com/kubernetes/api/blob/v0.34.0/core/v1/types.go
https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go
The directives:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any


def has(value: Any, step: str | int) -> bool:
    """Return True if a list or a mapping has an item."""
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


def value_at(value: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path; None if there is none."""
    for step in path:
        value = value[step] if has(value, step) else None
    return value


def mapping(value: Any, *path: str | int) -> dict[str, Any]:
    """Return the mapping at a path; {} if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, dict) else {}


def sequence(value: Any, *path: str | int) -> list[Any]:
    """Return the list at a path; [] if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, list) else []


def items(value: Any, *path: str | int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the mappings in the list at a path, each with its index. Null counts as {}."""
    for index, item in enumerate(sequence(value, *path)):
        if isinstance(item, dict) or item is None:
            yield index, item or {}


def text(value: Any, *path: str | int) -> str:
    """Return the string at a path; "" if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, str) else ""


def strings(value: Any, fields: Collection[str] = ()) -> Iterator[str]:
    """Yield the strings in a value, at any depth.

    Args:
        value: the value.
        fields: the names of the only fields in which to look; () for all.
    """
    if isinstance(value, str) and not fields:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, fields)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from strings(item, () if name in fields else fields)


def number(value: Any, *path: str | int) -> int | None:
    """Return the integer at a path; None if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


KEYS = {
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "replicatedJobs": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The merge key of a list's items, by the name of the list."""

DIRECTIVES = ("replace", "delete")
"""The values of `$patch`."""


def merged(base: Any, patch: Any, name: str = "") -> Any:
    """Return a value with a strategic merge patch applied. Does not change the arguments.

    Args:
        base: the value.
        patch: the patch.
        name: the name of the field that holds the value, which determines how lists merge.
    """
    if isinstance(patch, dict):
        return _mapping(base if isinstance(base, dict) else {}, patch)
    if isinstance(patch, list) and name in KEYS:
        return _items(base if isinstance(base, list) else [], patch, KEYS[name])
    return patch


def _mapping(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with a patch applied."""
    directive, retained = patch.get("$patch"), patch.get("$retainKeys")
    if directive == "delete":
        return {}
    result = {} if directive == "replace" else dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif name not in ("$patch", "$retainKeys"):
            result[name] = merged(result.get(name), value, name)
    return result if retained is None else {k: v for k, v in result.items() if k in retained}


def _items(base: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Return a list with a patch applied, item by item."""
    directives = [value_at(item, ("$patch",)) for item in patch]
    result = [] if "replace" in directives else list(base)
    places: dict[Any, list[int]] = {}
    for place, item in enumerate(result):
        places.setdefault(merge_key(item, key), []).append(place)
    deleted: set[int] = set()
    for item, directive in zip(patch, directives, strict=True):
        value = merge_key(item, key)
        if directive == "delete":
            deleted.update(places.pop(value, ()))
        elif directive is None and value is not None and value in places:
            first = places[value][0]
            result[first] = merged(result[first], item)
        elif directive is None:
            places.setdefault(value, []).append(len(result))
            result.append(merged({}, item))
    return [item for place, item in enumerate(result) if place not in deleted]


def merge_key(item: Any, key: str) -> Any:
    """Return the value of an item's key, or None if it is missing or has the wrong type."""
    value = value_at(item, (key,))
    return value if isinstance(value, str | int) else None
