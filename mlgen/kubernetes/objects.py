"""What holds for every object of Kubernetes: its identity, and fields that are null."""

from collections.abc import Iterable, Mapping
from typing import Any

from mlgen.kubernetes.groups import group_of

Key = tuple[str, str, str, str]
"""API group, kind, namespace and name, which no two objects of a cluster share."""


def keys(objects: Iterable[Mapping[str, Any]]) -> list[Key]:
    """Return the identity of each object; a List, or an object without a name, has none."""
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
    """Return data without its nulls; to the API server a null field is a missing one."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
