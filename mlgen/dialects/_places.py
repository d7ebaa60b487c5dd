"""The places of a TrainingJob's values in the custom resource that it was converted from."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from mlgen.documents.document import Document, Later
from mlgen.problems import Place, ValuePath
from mlgen.records import replace


def placed(data: Any, origins: Mapping[ValuePath, ValuePath], resource: Document) -> Document:
    """Return a TrainingJob as a document whose values have their places in a custom resource.

    Args:
        data: the TrainingJob.
        origins: the paths in the custom resource of its values, or of values that contain them.
        resource: the custom resource.
    """
    source = replace(resource, data=None)  # places are read later, if at all

    @cache
    def found() -> dict[ValuePath, ValuePath]:
        pairs = ((path, _origin(path, origins)) for path in _paths(data, ()))
        return {
            path: origin for path, origin in pairs if origin is not None and origin in source.places
        }

    def places() -> dict[ValuePath, Place]:
        return {(): source.place(())} | {p: source.places[o] for p, o in found().items()}

    return Document(
        data,
        places=Later(places),
        keys=Later(lambda: {path: source.key_place(origin) for path, origin in found().items()}),
        texts=Later(lambda: {p: source.texts[o] for p, o in found().items() if o in source.texts}),
        origins=Later(found),
        converted=True,
        text=source.text,
    )


def _origin(path: ValuePath, origins: Mapping[ValuePath, ValuePath]) -> ValuePath | None:
    """Return the path in the custom resource of a path in the TrainingJob."""
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return (*origins[path[:length]], *path[length:])
    return None


def _paths(value: Any, path: ValuePath) -> Iterator[ValuePath]:
    """Yield the path of a value and of everything in it."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _paths(inner, (*path, i))
