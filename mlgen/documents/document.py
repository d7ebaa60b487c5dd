"""A YAML document as plain data, with the place of each value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from mlgen.bounds import DEPTH
from mlgen.documents.marks import UNWRITTEN, Mark, View
from mlgen.problems import Place, Problem, ValuePath


def is_too_deep(value: Any, depth: int = DEPTH) -> bool:
    """Return whether a value has more than so many mappings and lists inside each other."""
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inner(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inner(value: Any) -> Iterable[Any]:
    """Return the values that are directly in a value."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def unmarked() -> Mark:
    """Return the mark of a value that is not in a file."""
    return UNWRITTEN


@dataclass(frozen=True)
class Document:
    """One YAML document as plain data, with the place of each value.

    Marks are read when somebody first needs them: do so only if there is something to say.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        marks: returns where each value stands, and how it is written.
        problems: errors in YAML that could be read nevertheless, such as a duplicate key.
        converted: it is made of a custom resource; paths of problems are those in that resource.
        text: the document as written, from its `---` on; "" if it is not in a file.
    """

    data: Any
    marks: Callable[[], Mark] = field(default=unmarked, compare=False)
    problems: list[Problem] = field(default_factory=list)
    converted: bool = False
    text: str = ""

    @property
    def places(self) -> Mapping[ValuePath, Place]:
        """The place of the value at each path."""
        return View(self.marks, "place")

    @property
    def keys(self) -> Mapping[ValuePath, Place]:
        """The place of the key at each path."""
        return View(self.marks, "key")

    @property
    def texts(self) -> Mapping[ValuePath, str]:
        """How each value that is not a string is written in the file: `1e-5`, `08`, `~`."""
        return View(self.marks, "text")

    def place(self, path: ValuePath) -> Place:
        """Return the place of the value at a path, or of the nearest value that contains it.

        Raises:
            KeyError: the document is not in a file.
        """
        places = [mark.place for mark in self.marks().along(path) if mark.place]
        if not places:
            raise KeyError(path)
        return places[-1]

    def key_place(self, path: ValuePath) -> Place:
        """Return the place of the key at a path, or of the nearest value that contains it."""
        return self.keys.get(path) or self.place(path)

    def origin(self, path: ValuePath) -> ValuePath:
        """Return the path in the file of a value, or of the nearest written one that contains it.

        It is another one only in a document that is made of a custom resource.
        """
        if not self.converted:
            return path
        marks = list(self.marks().along(path))
        while len(marks) > 1 and not marks[-1].place:
            marks.pop()
        origin: ValuePath = ()
        start = 0
        for depth, mark in enumerate(marks):
            if mark.origin is not None:
                origin, start = mark.origin, depth
        return (*origin, *path[start : len(marks) - 1])

    def origins(self) -> Iterator[tuple[ValuePath, ValuePath]]:
        """Yield the path of each value that is written in the file, and its path there."""
        return ((path, self.origin(path)) for path, mark in self.marks().walk() if mark.place)

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
        return Document(data, lambda: self._marks_at(path), problems)

    def items(self, name: str) -> Iterator["Document"]:
        """Yield each item of a list in this document, which is a mapping, as `item` returns it."""
        problems: dict[str | int, list[Problem]] = {}
        for problem in self.problems:
            if problem.path[:1] == (name,):
                inner = replace(problem, path=problem.path[2:])
                problems.setdefault((*problem.path, "")[1], []).append(inner)
        for number, data in enumerate(self.data[name]):
            marks = partial(self._marks_at, (name, number))
            yield Document(data, marks, problems.get(number, []))

    def _marks_at(self, path: ValuePath) -> Mark:
        """Return the marks of the value at a path; its place is at least that of what is around."""
        mark = self.marks().at(path) or UNWRITTEN
        return mark if mark.place else Mark(self.place(path), inner=mark.inner)

    def changed(self, change: Callable[[Mark], Mark]) -> Callable[[], Mark]:
        """Return what returns the marks of this document after a change."""
        return cache(lambda: change(self.marks()))

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
        return replace(problem, place=place, path=self.origin(path))
