"""Converts custom resources to the equivalent job files, for teams that migrate to mlgen."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

from mlgen import dialects, frameworks
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.jobfile.validation import unexcused
from mlgen.output import round_trip
from mlgen.output.round_trip import END, Style
from mlgen.output.yaml import verbatim
from mlgen.problems import Collector, Problem, ValuePath, limited_hints, severe
from mlgen.rendering import admitted
from mlgen.result import Options, Output


def convert(texts: Iterable[Text], options: Options) -> Output:
    """Return every document: custom resources as job files, all others unchanged.

    The options reject the same documents as in `render`.

    Raises:
        MlgenError: contains every problem of every text, each with its file and line.
    """
    collector = Collector()
    converted = "".join(dialects.each(texts, partial(_converted, options), collector))
    collector.raise_errors()
    return Output(converted, collector.problems)


@limited_hints()
def _converted(options: Options, document: Document) -> tuple[str, list[Problem]]:
    """Return a document's text, or if it is a custom resource, its job file with the comments."""
    native, warnings = admitted(document, options)
    if native:
        if options.site:
            options.site.fill(native)  # the job file gets these values when it is rendered
        _, deprecations = frameworks.validate(native)
        warnings = warnings + deprecations
        if options.strict:
            warnings = severe(unexcused(native, warnings), strict=True)
    if native is None and dialects.is_part(document):
        return "", warnings
    if native is None or native is document:
        return verbatim(document.text, document.data), warnings
    return round_trip.styled_text(native.data, _moved(document, native)), warnings


def _moved(document: Document, native: Document) -> dict[ValuePath, Style]:
    """Return the comments and quotes of a custom resource, by the path in the TrainingJob."""
    moved: dict[ValuePath, Style] = defaultdict(Style)
    written = round_trip.styles(document.text)
    exact: dict[ValuePath, ValuePath] = {}
    within: dict[ValuePath, ValuePath] = {}
    for new, old in native.origins() if written else ():
        moved[new].quotes = written[old].quotes if old in written else ""
        exact.setdefault(old, new)
        path = old
        while path and path not in within:
            within[path], path = new, path[:-1]
    targets = within | exact
    for path, style in written.items():
        if target := END if path == END else _target(path, targets):
            moved[target].above += style.above
            moved[target].beside = moved[target].beside or style.beside
    return moved


def _target(path: ValuePath, targets: Mapping[ValuePath, ValuePath]) -> ValuePath:
    """Return the new path of a value, or the new path of its first child or nearest parent.

    The outermost parent is the replica type or policy that contains the value.

    Args:
        path: of the value in the custom resource.
        targets: paths in the TrainingJob, of a value or its first child, by path in the resource.
    """
    for depth in (len(path), *range(len(path) - 1, OUTERMOST, -1)):
        if path[:depth] in targets:
            return targets[path[:depth]]
    return ()


OUTERMOST = 2
"""Length of the path of a field of `spec`. A comment on one does not move to another."""
