"""A YAML document as plain data, and the place of each of its values."""

from dataclasses import dataclass, field, replace
from typing import Any

from mlgen.problems import Place, Problem, ValuePath


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data, and where each of its values stands.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        places: the position of the value at each path.
        keys: the position of the key at each path.
        texts: how each value that is not a string was written: `1e-5`, `08`, `~`.
        problems: what is wrong with the YAML although it could be read: a key that stands twice.
        origins: for a document that was made of a custom resource, where in that each value is.
        text: as it was written, from its `---` on.
    """

    data: Any
    places: dict[ValuePath, Place] = field(default_factory=dict)
    keys: dict[ValuePath, Place] = field(default_factory=dict)
    texts: dict[ValuePath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    origins: dict[ValuePath, ValuePath] = field(default_factory=dict)
    text: str = ""

    def place(self, path: ValuePath) -> Place:
        """Return where the value at a path stands, or else the nearest value around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]

    def key_place(self, path: ValuePath) -> Place:
        """Return where the key at a path stands, or else the nearest value around it."""
        return self.keys.get(path) or self.place(path)

    def item(self, *path: str | int) -> "Document":
        """Return a part of this document as one of its own, without a text."""
        length = len(path)

        def within(values: dict[ValuePath, Any]) -> dict[ValuePath, Any]:
            return {p[length:]: value for p, value in values.items() if p[:length] == path}

        data = self.data
        for step in path:
            data = data[step]
        problems = [
            replace(problem, path=problem.path[length:])
            for problem in self.problems
            if problem.path[:length] == path
        ]
        return Document(data, within(self.places), within(self.keys), within(self.texts), problems)

    def located(self, problem: Problem, *, key: bool = False) -> Problem:
        """Return a problem with its place, and by the path that the user knows.

        Args:
            problem: one that knows its place is returned as it is.
            key: what is wrong is a key, not its value.
        """
        if problem.place:
            return problem
        path = problem.path
        place = self.key_place(path) if key else self.place(path)
        while self.origins and path and path not in self.origins:
            path = path[:-1]
        return replace(problem, place=place, path=self.origins.get(path, path))
