"""A YAML document as plain data, with the place of each value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mlgen.problems import Place, Problem, ValuePath

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data, with the place of each value.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        places: the place of the value at each path.
        keys: the place of the key at each path.
        texts: how each value that is not a string is written in the file: `1e-5`, `08`, `~`.
        problems: errors in YAML that could be read nevertheless, such as a duplicate key.
        origins: in a document converted from a custom resource, the path there of each value.
        text: the document as written, from its `---` on; "" if it is not in a file.
    """

    data: Any
    places: dict[ValuePath, Place] = field(default_factory=dict)
    keys: dict[ValuePath, Place] = field(default_factory=dict)
    texts: dict[ValuePath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    origins: dict[ValuePath, ValuePath] = field(default_factory=dict)
    text: str = ""

    def place(self, path: ValuePath) -> Place:
        """Return the place of the value at a path, or of the nearest value that contains it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]

    def key_place(self, path: ValuePath) -> Place:
        """Return the place of the key at a path, or of the nearest value that contains it."""
        return self.keys.get(path) or self.place(path)

    def item(self, *path: str | int) -> "Document":
        """Return the value at a path as a document, without text and origins."""
        data = self.data
        for step in path:
            data = data[step]
        problems = [
            replace(problem, path=problem.path[len(path) :])
            for problem in self.problems
            if problem.path[: len(path)] == path
        ]
        return Document(
            data,
            _below(self.places, path),
            _below(self.keys, path),
            _below(self.texts, path),
            problems,
        )

    def located(self, problem: Problem, *, key: bool = False) -> Problem:
        """Return a problem with its place, and with its path in the file that the user wrote.

        Args:
            problem: returned unchanged if it has a place already.
            key: the problem is about the key at its path, not about the value.
        """
        if problem.place:
            return problem
        path = problem.path
        place = self.key_place(path) if key else self.place(path)
        while self.origins and path and path not in self.origins:
            path = path[:-1]
        return replace(problem, place=place, path=self.origins.get(path, path))


def _below(values: Mapping[ValuePath, T], path: tuple[str | int, ...]) -> dict[ValuePath, T]:
    """Return the entries at a path or below it, by their paths from there."""
    return {p[len(path) :]: value for p, value in values.items() if p[: len(path)] == path}
