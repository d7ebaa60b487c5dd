"""Custom resources → the equivalent job files, for a team that moves over."""

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    remarks = comments.read(document.text)
    targets = _targets(native) if remarks else _Target()
    for path, comment in remarks.items():
        target = comments.END if path == comments.END else targets.of(path)
        if target:
            merged = moved.setdefault(target, comments.Comment())
            merged.above += comment.above
            merged.beside = merged.beside or comment.beside
    return moved


@dataclass(slots=True)
class _Target:
    """Where a value of the custom resource has moved to.

    Attributes:
        exact: its path in the TrainingJob, or ().
        within: the path there of the first value in it, or of itself, or ().
        inner: the targets of the values in it.
    """

    exact: ValuePath = ()
    within: ValuePath = ()
    inner: dict[str | int, "_Target"] = field(default_factory=dict)

    def of(self, path: ValuePath) -> ValuePath:
        """Return the path that a value has moved to, else that of its first child or a parent.

        The nearest parent is taken; the outermost one is the replica type or policy around it.
        """
        target: _Target | None = self
        found: ValuePath = ()
        for depth, step in enumerate(path, 1):
            target = target.inner.get(step) if target else None
            if target and (depth > OUTERMOST or depth == len(path)):
                found = target.exact or target.within
        return found


def _targets(native: Document) -> _Target:
    """Return where each value of the custom resource of a TrainingJob has moved to."""
    root = _Target()
    for new, old in native.origins():
        target = root
        for step in old:
            target = target.inner.setdefault(step, _Target())
            target.within = target.within or new
        target.exact = target.exact or new
    return root


OUTERMOST = 2
"""Length of the path of a field of `spec`: a comment on one does not move to another."""
