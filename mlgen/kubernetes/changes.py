"""A change of one field of an object, and the path of a field in an object."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FieldPath = tuple[str, ...]
"""The way to a field: names, and `[key]` for an item of a list or of a mapping with free keys."""


@dataclass(frozen=True, slots=True)
class Change:
    """A field that changes.

    Attributes:
        path: of the field.
        old: its value; None where there is none.
        new: likewise.
        implied: which of the two, `old` or `new`, nobody wrote: the API server sets it.
        order: the values are the keys of a list, whose items only change their places.
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
    """Return what stands at a path of names, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
