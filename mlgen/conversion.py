"""Custom resources → the equivalent job files, for a team that moves over."""

from collections.abc import Iterable, Iterator, Mapping

from mlgen import dialects, frameworks
from mlgen.documents import comments
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.problems import Collector, Problem, ValuePath


def convert(texts: Iterable[Text]) -> tuple[str, tuple[Problem, ...]]:
    """Return every document: custom resources as job files, all others unchanged.

    Returns:
        The documents as text, and warnings about what the operators would have done differently.

    Raises:
        MlgenError: with every problem of every text, each with its place.
    """
    collector = Collector()
    converted = [text for _, text in dialects.each(texts, _converted, collector)]
    collector.raise_errors()
    return "".join(converted), collector.problems


def _converted(_name: str, document: Document) -> tuple[str, list[Problem]]:
    native, warnings = dialects.native(document)
    if native:
        _, deprecations = frameworks.validate(native)
        warnings = warnings + deprecations
    return _text(document, native), warnings


def _text(document: Document, native: Document | None) -> str:
    """Return a document unchanged, or the job file of a custom resource with its comments."""
    if native is None or native is document:
        return verbatim(document.text, document.data)
    return comments.insert(yaml_text([native.data]), _moved(document, native))


def _moved(document: Document, native: Document) -> dict[ValuePath, comments.Comment]:
    """Return the comments of a custom resource, by the path of their value in the TrainingJob."""
    moved: dict[ValuePath, comments.Comment] = {}
    for path, comment in comments.read(document.text).items():
        target = comments.END if path == comments.END else _target(path, native.origins)
        if target:
            merged = moved.setdefault(target, comments.Comment())
            merged.above += comment.above
            merged.beside = merged.beside or comment.beside
    return moved


def _target(path: ValuePath, origins: Mapping[ValuePath, ValuePath]) -> ValuePath | None:
    """Return the path that a value has moved to, else that of its first child or nearest parent."""
    for around in _upwards(path):
        exact = (new for new, old in origins.items() if old == around)
        within = (new for new, old in origins.items() if old[: len(around)] == around)
        target = next(exact, None) or next(within, None)
        if target:
            return target
    return None


def _upwards(path: ValuePath) -> Iterator[ValuePath]:
    """Return the path and its parents, up to the replica type or policy that holds it."""
    yield path
    for length in range(len(path) - 1, OUTERMOST, -1):
        yield path[:length]


OUTERMOST = 2
"""Length of the path of a field of `spec`: a comment on one does not move to another."""
