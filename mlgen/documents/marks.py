"""Where each value of a document stands and how it is written: a tree beside the data.

A tree, because a mapping from paths would need memory for each path: a value at depth 100 would
cost a hundred times as much as one at the top.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from mlgen.problems import Place, ValuePath

T = TypeVar("T")


class Mark:
    """Where one value stands and how it is written; never changed once it is in a document.

    Attributes:
        place: of the value; None if nobody wrote it, as a mapping that `--set` has created.
        key: the place of its key; None for an item of a list.
        text: how it is written, if it is not a string: `1e-5`, `08`, `~`; else None.
        origin: its path in the custom resource that it was converted from; None if that is the path
            of the nearest value around it that has one, and the same steps from there.
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
        """Yield this mark, and those on a path as far as there are any."""
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
        """Yield this mark, and all below it, with their paths, in the order of the text."""
        yield path, self
        for step, mark in self.inner.items():
            yield from mark.walk((*path, step))

    def put(self, path: ValuePath, mark: "Mark") -> "Mark":
        """Return a tree with another mark at a path."""
        if not path:
            return mark
        step, *rest = path
        below = self.inner.get(step, UNWRITTEN).put(tuple(rest), mark)
        return Mark(self.place, self.key, self.text, self.origin, {**self.inner, step: below})


NOTHING: Mapping[Any, Any] = {}
"""The marks in a value that has no others in it."""

UNWRITTEN = Mark()
"""The mark of what nobody wrote."""


def marked(places: Mapping[ValuePath, Place], keys: Mapping[ValuePath, Place] = NOTHING) -> Mark:
    """Return the marks of values, given their places and those of their keys, by path."""
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
    """One attribute of all marks of a tree, by their paths, without the marks that lack it.

    Args:
        marks: returns the tree.
        attribute: `place`, `key` or `text`.
    """

    def __init__(self, marks: Callable[[], Mark], attribute: str) -> None:
        self._marks, self._attribute = marks, attribute

    def __getitem__(self, path: ValuePath) -> T:
        value: Any = getattr(self._marks().at(path), self._attribute, None)
        if value is None:
            raise KeyError(path)
        found: T = value
        return found

    def __iter__(self) -> Iterator[ValuePath]:
        walk = self._marks().walk()
        return (path for path, mark in walk if getattr(mark, self._attribute) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
