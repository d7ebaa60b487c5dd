"""Custom resources → the job files that they stand for, so that a team can move over."""

from collections.abc import Iterable, Iterator

from mlgen import dialects, frameworks
from mlgen.documents import comments
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.problems import Collector, Problem, ValuePath


def convert(texts: Iterable[Text]) -> tuple[str, tuple[Problem, ...]]:
    """Return every document, the custom resources as TrainingJobs and all others as they are.

    Returns:
        The documents, and warnings on what the operators would have done besides.

    Raises:
        MlgenError: with every problem of every text, each with its place.
    """
    collector = Collector()
    written = [text for _, text in dialects.each(texts, _converted, collector)]
    collector.raise_errors()
    return "".join(written), collector.problems


def _converted(_name: str, document: Document) -> tuple[str, list[Problem]]:
    native, warnings = dialects.native(document)
    if native:
        frameworks.validate(native)
    return _written(document, native), warnings


def _written(document: Document, native: Document | None) -> str:
    if native is None or native is document:
        return verbatim(document.text, document.data)
    return comments.added(yaml_text([native.data]), _moved(document, native))


def _moved(document: Document, native: Document) -> dict[ValuePath, comments.Comment]:
    """The comments of a custom resource by the paths where the TrainingJob has what they say."""
    found: dict[ValuePath, comments.Comment] = {}
    for path, comment in comments.found(document.text).items():
        target = comments.END if path == comments.END else _target(path, native.origins)
        if target:
            mine = found.setdefault(target, comments.Comment())
            mine.above += comment.above
            mine.beside = mine.beside or comment.beside
    return found


def _target(path: ValuePath, origins: dict[ValuePath, ValuePath]) -> ValuePath | None:
    """Where a value has gone: itself, or the first of what was in it, or of what was around it."""
    for around in _upwards(path):
        exact = (new for new, old in origins.items() if old == around)
        within = (new for new, old in origins.items() if old[: len(around)] == around)
        target = next(exact, None) or next(within, None)
        if target:
            return target
    return None


def _upwards(path: ValuePath) -> Iterator[ValuePath]:
    """The path, and those of what is around it within the replica type or policy."""
    yield path
    for length in range(len(path) - 1, OUTERMOST, -1):
        yield path[:length]


OUTERMOST = 2
"""A comment on a field of `spec` that is gone says nothing of the other fields."""
