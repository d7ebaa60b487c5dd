"""A YAML document as plain data, with the place of each value."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, reduce
from typing import Any, TypeVar

from mlgen.problems import Place, Problem, ValuePath
from mlgen.records import field, record, replace

T = TypeVar("T")


MAX_BYTES = 1 << 20
"""A larger object does not fit in etcd, which limits a request to 1.5 MiB by default."""

MAX_VALUES = 200_000
"""Only aliases make a document of that size hold more values."""


class Later(Mapping[ValuePath, T]):
    """A mapping from paths that is made when somebody first looks into it.

    Attributes:
        make: returns it.
        changes: functions through which it goes afterwards.
    """

    def __init__(
        self,
        make: Callable[[], Mapping[ValuePath, T]],
        changes: tuple[Callable[[Mapping[ValuePath, T]], Mapping[ValuePath, T]], ...] = (),
    ) -> None:
        self.make, self.changes = make, changes

    @cached_property
    def _made(self) -> Mapping[ValuePath, T]:
        return reduce(lambda values, change: change(values), self.changes, self.make())

    def __getitem__(self, path: ValuePath) -> T:
        return self._made[path]

    def __iter__(self) -> Iterator[ValuePath]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def changed(
    values: Mapping[ValuePath, T], change: Callable[[Mapping[ValuePath, T]], Mapping[ValuePath, T]]
) -> Mapping[ValuePath, T]:
    """Return a mapping that goes through a function when somebody first looks into it."""
    if isinstance(values, Later):
        return Later(values.make, (*values.changes, change))
    return Later(lambda: values, (change,))


@record
class Document:
    """One YAML document as plain data, with the place of each value.

    Places, keys, texts and origins may be `Later`: read them only if there is something to say.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        places: the place of the value at each path.
        keys: the place of the key at each path.
        texts: how each value that is not a string is written in the file: `1e-5`, `08`, `~`.
        problems: errors in YAML that could be read nevertheless, such as a duplicate key.
        origins: in a document converted from a custom resource, the path there of each value.
        converted: it is such a document.
        text: the document as written, from its `---` on; "" if it is not in a file.
    """

    data: Any
    places: Mapping[ValuePath, Place] = field(default_factory=dict)
    keys: Mapping[ValuePath, Place] = field(default_factory=dict)
    texts: Mapping[ValuePath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    origins: Mapping[ValuePath, ValuePath] = field(default_factory=dict)
    converted: bool = False
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
            changed(self.places, lambda places: _below(places, path)),
            changed(self.keys, lambda keys: _below(keys, path)),
            changed(self.texts, lambda texts: _below(texts, path)),
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
