"""A YAML document as plain data, with the place of each value.

Places and spellings are stored in a tree, separately from the data. A mapping by path would need
more memory: a path at depth 100 takes a hundred times as much as a path at the top.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mlgen.documents.files import Context
from mlgen.input_limits import DEPTH
from mlgen.problems import Place, Problem, ValuePath

T = TypeVar("T")


class Mark:
    """The place and the spelling of one value. A mark in a document is never changed.

    Attributes:
        place: of the value; None if it is not in the file.
        key: the place of its key; None for an item of a list, and for a mapping or list that a
            setting creates around its value.
        text: its spelling, such as `1e-5`, `08` or `~`; None for a string.
        origin: its path in the custom resource that it was converted from; None if its position
            relative to the nearest parent with an origin is unchanged.
        inner: the marks of the values in it, by key or index.
    """

    __slots__ = ("inner", "key", "origin", "place", "text")

    def __init__(
        self,
        place: Place | None = None,
        key: Place | None = None,
        text: str | None = None,
        origin: ValuePath | None = None,
        inner: "Mapping[str | int, Mark] | None" = None,
    ) -> None:
        self.place, self.key, self.text, self.origin = place, key, text, origin
        self.inner = NOTHING if inner is None else inner

    def along(self, path: ValuePath) -> "Iterator[Mark]":
        """Yield this mark and the marks along a path, as far as they exist."""
        mark: Mark | None = self
        for step in (*path, None):
            if mark is None:
                return
            yield mark
            mark = None if step is None else mark.inner.get(step)

    def at(self, path: ValuePath) -> "Mark | None":
        """Return the mark at a path; None if there is none."""
        mark: Mark | None = self
        for step in path:
            mark = mark.inner.get(step) if mark else None
        return mark

    def walk(self, path: ValuePath = ()) -> "Iterator[tuple[ValuePath, Mark]]":
        """Yield this mark and all marks below it, with their paths, in the order of the text."""
        yield path, self
        for step, mark in self.inner.items():
            yield from mark.walk((*path, step))

    def put(self, path: ValuePath, mark: "Mark") -> "Mark":
        """Return a copy of the tree with another mark at a path."""
        if not path:
            return mark
        step, *rest = path
        below = self.inner.get(step, UNWRITTEN).put(tuple(rest), mark)
        return Mark(self.place, self.key, self.text, self.origin, {**self.inner, step: below})


NOTHING: Mapping[Any, Any] = {}
"""The marks in a value without inner values."""

UNWRITTEN = Mark()
"""The mark of values that are not in a file."""


def marked(places: Mapping[ValuePath, Place], keys: Mapping[ValuePath, Place] = NOTHING) -> Mark:
    """Return the marks of values, from the places of values and of keys, by path."""
    inner: dict[ValuePath, dict[str | int, Mark]] = {(): {}}
    for written in places:
        for end in range(1, len(written) + 1):
            path = written[:end]
            if path not in inner:
                inner[path] = {}
                inner[path[:-1]][path[-1]] = Mark(
                    places.get(path), keys.get(path), inner=inner[path]
                )
    return Mark(places.get(()), inner=inner[()])


class View(Mapping[ValuePath, T]):
    """One attribute of all marks of a tree, by path, without marks where it is None.

    Args:
        marks: the tree.
        attribute: `place`, `key` or `text`.
    """

    def __init__(self, marks: Mark, attribute: str) -> None:
        self._marks, self._attribute = marks, attribute

    def __getitem__(self, path: ValuePath) -> T:
        value: Any = getattr(self._marks.at(path), self._attribute, None)
        if value is None:
            raise KeyError(path)
        attribute: T = value
        return attribute

    def __iter__(self) -> Iterator[ValuePath]:
        walk = self._marks.walk()
        return (path for path, mark in walk if getattr(mark, self._attribute) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_too_deep(value: Any, depth: int = DEPTH) -> bool:
    """Return True if mappings and lists in a value are nested more than `depth` levels deep."""
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inner(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inner(value: Any) -> Iterable[Any]:
    """Return the values that are directly in a value."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


@dataclass(frozen=True)
class Document:
    """One YAML document as plain data, with the place of each value.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        marks: the place and the spelling of each value.
        problems: errors that do not prevent reading, such as a duplicate key.
        converted: True if it was converted from a custom resource. Problems then refer to paths in
            that resource.
        text: the document as written, including its `---`; "" if it is not in a file.
        context: the documents that it may refer to.
    """

    data: Any
    marks: Mark = field(default=UNWRITTEN, compare=False)
    problems: list[Problem] = field(default_factory=list)
    converted: bool = False
    text: str = ""
    context: Context | None = field(default=None, compare=False, repr=False)

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
        """The spelling of each value that is not a string, such as `1e-5`, `08` or `~`."""
        return View(self.marks, "text")

    def place(self, path: ValuePath) -> Place:
        """Return the place of the value at a path, or of the nearest value that contains it.

        Raises:
            KeyError: the document is not in a file.
        """
        place = self._nearest(path)
        if not place:
            raise KeyError(path)
        return place

    def key_place(self, path: ValuePath) -> Place:
        """Return the place of the key at a path, or of the nearest value that contains it."""
        return self.keys.get(path) or self.place(path)

    def origin(self, path: ValuePath) -> ValuePath:
        """Return the path in the file of a value, or of the nearest written value that contains it.

        It differs from `path` only in a document converted from a custom resource.
        """
        if not self.converted:
            return path
        marks = list(self.marks.along(path))
        while len(marks) > 1 and not marks[-1].place:
            marks.pop()
        origin: ValuePath = ()
        start = 0
        for depth, mark in enumerate(marks):
            if mark.origin is not None:
                origin, start = mark.origin, depth
        return (*origin, *path[start : len(marks) - 1])

    def origins(self) -> Iterator[tuple[ValuePath, ValuePath]]:
        """Yield the path of each written value, and its path in the file."""
        return ((path, self.origin(path)) for path, mark in self.marks.walk() if mark.place)

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
        return Document(data, self._marks_at(path), problems, context=self.context)

    def items(self, name: str) -> Iterator["Document"]:
        """Yield each item of the list in a field of this document, as `item` returns it."""
        problems: dict[str | int, list[Problem]] = {}
        for problem in self.problems:
            if problem.path[:1] == (name,):
                inner = replace(problem, path=problem.path[2:])
                problems.setdefault((*problem.path, "")[1], []).append(inner)
        for number, data in enumerate(self.data[name]):
            marks, found = self._marks_at((name, number)), problems.get(number, [])
            yield Document(data, marks, found, context=self.context)

    def _marks_at(self, path: ValuePath) -> Mark:
        """Return the marks of the value at a path, by default with the place of its parent."""
        mark = self.marks.at(path) or UNWRITTEN
        return mark if mark.place else Mark(self._nearest(path), inner=mark.inner)

    def _nearest(self, path: ValuePath) -> Place | None:
        """Return the place of the value at a path, or of its nearest parent with a place."""
        places = [mark.place for mark in self.marks.along(path) if mark.place]
        return places[-1] if places else None

    def located(self, problem: Problem, *, key: bool = False) -> Problem:
        """Return a problem with its place, and with its path in the user's file.

        Args:
            problem: is returned unchanged if it already has a place.
            key: True if the problem is about the key at its path, not about the value.
        """
        if problem.place:
            return problem
        path = problem.path
        place = self.key_place(path) if key else self.place(path)
        return replace(problem, place=place, path=self.origin(path))
