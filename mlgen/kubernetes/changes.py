"""Paths of fields in an object, and the change of one field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FieldPath = tuple[str, ...]
"""The path of a field: names, and `[key]` for an item of a list or of a mapping with free keys."""


@dataclass(frozen=True)
class Change:
    """A field that changes.

    Attributes:
        path: the path of the field.
        old: its old value; None if it is not set.
        new: its new value; None if it is not set.
        implied: "old" or "new" if that value is a default of the API server, else "".
        order: only the order of a list's items changes; the values are the items' keys.
    """

    path: FieldPath
    old: Any
    new: Any
    implied: str = ""
    order: bool = False


def dotted(path: FieldPath) -> str:
    """Return a path as people write it: `spec.template.spec.containers[main].image`."""
    return ".".join(path).replace(".[", "[")


def at(value: Any, path: Iterable[str]) -> Any:
    """Return the value at a path of names, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
