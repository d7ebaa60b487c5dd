"""A value of a custom resource, and where it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlgen.problems import ValuePath


@dataclass(frozen=True, slots=True)
class SourceValue:
    """A value of a custom resource, and the way to it; it is false where nothing is given."""

    value: Any
    path: ValuePath = ()

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "SourceValue":
        """Return a value within this one, given or not."""
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
        """Return the fields of a mapping by name; of nothing, none."""
        return ((name, self.get(name)) for name in self.value or {})

    def items(self) -> Iterator["SourceValue"]:
        """Return the items of a list; of nothing, none."""
        return (self.get(i) for i in range(len(self.value or [])))
