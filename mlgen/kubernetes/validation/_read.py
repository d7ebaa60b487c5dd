"""Reading of objects of any shape: a value of another type than expected counts as omitted.

The schema reports wrong types, so that the rules need not.
"""

from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.objects import Object


def mapping(value: Any, *keys: str) -> Object:
    """Return the mapping at the end of a path of keys; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Object, key: str) -> Iterator[tuple[int, Object]]:
    """Return the mappings in a list, each with its index; null is an empty one."""
    found = value.get(key)
    if isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(item, dict) or item is None:
                yield index, item or {}


def values(value: Object, key: str, zero: Any = "") -> list[Any]:
    """Return a list, an empty one if there is none, with the zero value of its type for null."""
    found = value.get(key)
    return [zero if item is None else item for item in found] if isinstance(found, list) else []


def text(value: Object, key: str) -> str:
    """Return a string; "" if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number(value: Object, key: str) -> int | None:
    """Return an integer; None if there is none."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def is_true(value: Object, key: str) -> bool:
    """Return whether a field is true."""
    return value.get(key) is True
