"""The identity of objects, and data without null fields."""

from collections.abc import Iterable, Mapping
from typing import Any

from mlgen.kubernetes.groups import group_of

Key = tuple[str, str, str, str]
"""API group, kind, namespace and name, which together are unique in a cluster."""


def keys(objects: Iterable[Mapping[str, Any]]) -> list[Key]:
    """Return the identity of each object, except for objects without a name, such as a List."""
    identities = []
    for item in objects:
        meta = item.get("metadata")
        if isinstance(meta, dict) and isinstance(meta.get("name"), str) and meta["name"]:
            space = meta.get("namespace")
            namespace = space if isinstance(space, str) else ""
            group = group_of(item["apiVersion"])
            identities.append((group, item["kind"], namespace, meta["name"]))
    return identities


def without_nulls(value: Any) -> Any:
    """Return data without null fields, which the API server treats as omitted; list items stay."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
