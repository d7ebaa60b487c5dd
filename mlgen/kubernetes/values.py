"""Values within plain data, such as a manifest, in which any value can have a wrong type.

A value of a wrong type counts as missing, because the checks of the structure report it.
"""

from collections.abc import Iterable, Iterator
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


def number(value: Any, *path: str | int) -> int | None:
    """Return the integer at a path; None if there is none."""
    found = value_at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
