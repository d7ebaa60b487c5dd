"""The places of a TrainingJob's values in the custom resource that it was converted from."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from mlgen.documents.document import Document
from mlgen.documents.marks import UNWRITTEN, Mark
from mlgen.problems import ValuePath


def placed(data: Any, origins: Mapping[ValuePath, ValuePath], resource: Document) -> Document:
    """Return a TrainingJob as a document whose values have their places in a custom resource.

    Args:
        data: the TrainingJob.
        origins: the paths in the custom resource of its values, or of values that contain them.
        resource: the custom resource.
    """
    read = resource.marks  # the data of the resource need not be kept

    @cache
    def marks() -> Mark:
        root = read()
        job = _mark(data, (), None, origins, root)
        return Mark(root.place, origin=(), inner=job.inner)

    return Document(data, marks, converted=True, text=resource.text)


def _mark(
    value: Any,
    path: ValuePath,
    source: Mark | None,
    origins: Mapping[ValuePath, ValuePath],
    root: Mark,
) -> Mark:
    """Return the mark of a value of the TrainingJob, and of all that is in it.

    Args:
        value: of the TrainingJob.
        path: of that value.
        source: the mark in the custom resource, if its place follows from that of what is around.
        origins: those of `placed`.
        root: the marks of the custom resource.
    """
    origin = origins.get(path)
    if origin is not None:
        source = root.at(origin)
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    inner = {
        step: _mark(item, (*path, step), source and source.inner.get(step), origins, root)
        for step, item in items
    }
    around = source or UNWRITTEN
    return Mark(around.place, around.key, around.text, origin, inner)
