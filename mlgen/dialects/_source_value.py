"""A value of a custom resource, with its path."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mlgen.problems import ValuePath


class SourceValue(NamedTuple):
    """A value of a custom resource and its path there; false if the value is None (not set)."""

    value: Any
    path: ValuePath = ()

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "SourceValue":
        """Return a value within this one; its value is None if it does not exist."""
        value = self.value
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                value = None
        return SourceValue(value, (*self.path, *steps))

    def fields(self) -> Iterator[tuple[str, "SourceValue"]]:
        """Yield the fields of a mapping with their names; nothing if the value is None."""
        return ((name, self.get(name)) for name in self.value or {})

    def items(self) -> Iterator["SourceValue"]:
        """Yield the items of a list; nothing if the value is None."""
        return (self.get(i) for i in range(len(self.value or [])))
