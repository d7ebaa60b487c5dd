"""Strategic merge patches that keep the file and line of every value."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mlgen.documents.document import UNWRITTEN, Document, Mark
from mlgen.kubernetes.values import KEYS, merged, value_at
from mlgen.problems import Problem


class Written(NamedTuple):
    """A value with its mark. It is false if the value is None (unset).

    Attributes:
        value: the value.
        mark: its place, and as `origin` its path in its file.
        around: the mark of the nearest value around it that is in a file.
    """

    value: Any
    mark: Mark = UNWRITTEN
    around: Mark = UNWRITTEN

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "Written":
        """Return a value within this one. Its `value` is None if it does not exist."""
        value, mark, around = self
        for step in steps:
            value, mark = value_at(value, (step,)), _below(mark, step)
            around = mark if mark.place else around
        return Written(value, mark, around)

    @property
    def name(self) -> str:
        """The field `name` of a mapping."""
        return str(self.get("name").value)

    def items(self) -> "Iterator[Written]":
        """Yield the items of a list. None counts as empty."""
        return (self.get(i) for i in range(len(self.value or [])))

    def as_value(self, value: Any) -> "Written":
        """Return another value with this one as its origin."""
        mark = self.around
        return Written(value, Mark(mark.place, mark.key, None, mark.origin))

    def problem(self, message: str, hint: str, *, warning: bool = False) -> Problem:
        """Return a problem of this value: Trainer rejects it, or a difference as a warning."""
        path, place = self.around.origin or (), self.around.place
        return Problem(path, message, "differs" if warning else "refused", hint, warning, place)


def _below(mark: Mark, step: str | int) -> Mark:
    """Return the mark of an inner value, with its path in the file as origin."""
    inner = mark.inner.get(step, UNWRITTEN)
    if inner.origin is not None or not inner.place or mark.origin is None:
        return inner
    return Mark(inner.place, inner.key, inner.text, (*mark.origin, step), inner.inner)


def written(document: Document) -> Written:
    """Return the data of a document."""
    marks = document.marks
    root = Mark(marks.place, marks.key, marks.text, (), marks.inner)
    return Written(document.data, root, root)


def tree(node: Any) -> Written:
    """Return a value that is put together from others.

    Args:
        node: mappings, lists and plain values, which are not in a file, and `Written` values.
    """
    if isinstance(node, Written):
        return node
    if isinstance(node, dict):
        parts: dict[Any, Written] = {key: tree(value) for key, value in node.items()}
        data: Any = {key: part.value for key, part in parts.items()}
    elif isinstance(node, list):
        parts = dict(enumerate(map(tree, node)))
        data = [part.value for part in parts.values()]
    else:
        return Written(node)
    return Written(data, Mark(inner={key: part.mark for key, part in parts.items()}))


def patched(base: Written, patch: Written) -> Written:
    """Return a value with a strategic merge patch applied. Does not change the arguments."""
    value = merged(base.value, patch.value)
    mark = _mark(value, [patch, base])
    return Written(value, mark, mark if mark.place else base.around)


def _mark(value: Any, sources: list[Written], name: str = "") -> Mark:
    """Return the marks of a merged value.

    Args:
        value: the value.
        sources: the values that it was merged from, the one that takes precedence first.
        name: the name of the field that holds it.
    """
    inner: dict[str | int, Mark] = {}
    holder = next(iter(sources), Written(None)).mark
    if isinstance(value, dict):
        for key, item in value.items():
            having = [s.get(key) for s in sources if isinstance(s.value, dict) and key in s.value]
            inner[key] = _mark(item, having, key)
    elif isinstance(value, list) and name in KEYS:
        items = _items(sources, KEYS[name])
        inner = {i: _mark(item, items(item)) for i, item in enumerate(value)}
    elif isinstance(value, list):
        inner = {i: _mark(item, [sources[0].get(i)]) for i, item in enumerate(value)}
    if isinstance(value, dict | list):
        holder = next((s.mark for s in reversed(sources) if s.mark.place), UNWRITTEN)
    return Mark(holder.place, holder.key, holder.text, holder.origin, inner)


def _items(sources: list[Written], name: str) -> Callable[[Any], list[Written]]:
    """Return a function that returns the items that the next item of a list was merged from.

    The items of a patch with one merge key, of which the last takes precedence, are merged into
    the first item of the base with this key. Further items of the base are unchanged.
    """
    *patches, base = [_by_key(source, name) for source in sources] or [{}]

    def items(item: Any) -> list[Written]:
        key = _key(item, name)
        of_patches = [each for patch in patches for each in reversed(patch.pop(key, []))]
        of_base = base.get(key)
        return [*of_patches, of_base.pop(0)] if of_base else of_patches

    return items


def _by_key(source: Written, name: str) -> dict[Any, list[Written]]:
    """Return the items of a list by their merge key."""
    found: dict[Any, list[Written]] = {}
    for item in source.items() if isinstance(source.value, list) else ():
        found.setdefault(_key(item.value, name), []).append(item)
    return found


def _key(item: Any, name: str) -> Any:
    """Return the merge key of an item; None if it has none."""
    value = value_at(item, (name,))
    return value if isinstance(value, str | int) else None
