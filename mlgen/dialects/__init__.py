"""The dialects: custom resource → TrainingJob document. Every module is one operator's.

A dialect module defines `DIALECT`, a `Dialect`. It sees no Kubernetes object and no YAML text: a
`Builder` gives it what the user wrote, and takes what the TrainingJob says instead. A module whose
name begins with `_` is a helper.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._schemas import resource
from mlgen.dialects._source_value import SourceValue
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.jobfile.schema import API_VERSION, KIND
from mlgen.jobfile.violations import require_valid
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import without_nulls
from mlgen.problems import Collector, MlgenError, Problem, did_you_mean

T = TypeVar("T")


def names() -> list[str]:
    """Return the names of all dialects, sorted; none of them is imported."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def get(name: str) -> Dialect:
    """Import a dialect by name."""
    dialect: Dialect = import_module(f"{__name__}.{name}").DIALECT
    return dialect


def documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Read the documents of a text; of a List that holds a job, as `kubectl get` prints it, each.

    Problems stand in the place of a document that cannot be read.
    """
    for document in read_documents(text):
        items = _items(document) if isinstance(document, Document) else []
        if isinstance(document, Document) and any(map(_is_ours, items)):
            yield from (document.item("items", i) for i in range(len(items)))
        else:
            yield document


def each(
    texts: Iterable[Text],
    make: Callable[[str, Document], tuple[T, list[Problem]]],
    collector: Collector,
) -> Iterator[tuple[Document, T]]:
    """Make something of every document that can be read, and return it with the document.

    Args:
        texts: hold the documents.
        make: gets the name of a text and a document of it; returns a value and warnings, or raises
            `MlgenError`.
        collector: is told every problem, document by document.
    """
    for text in texts:
        yield from each_document(text.name, documents(text), make, collector)


def each_document(
    name: str,
    documents: Iterable[Document | list[Problem]],
    make: Callable[[str, Document], tuple[T, list[Problem]]],
    collector: Collector,
) -> Iterator[tuple[Document, T]]:
    """Do for the documents of one text, by its name, what `each` does for those of many."""
    for document in documents:
        if isinstance(document, list):
            collector.extend(document)
            continue
        with collector.catch():
            value, warnings = make(name, document)
            collector.extend(warnings)
            yield document, value


def _items(document: Document) -> list[Any]:
    data = document.data
    if not isinstance(data, dict) or (data.get("apiVersion"), data.get("kind")) != ("v1", "List"):
        return []
    items = data.get("items")
    return items if isinstance(items, list) else []


def _is_ours(item: Any) -> bool:
    key = (item.get("apiVersion"), item.get("kind")) if isinstance(item, dict) else None
    return key == (API_VERSION, KIND) or key in kinds()


@cache
def kinds() -> dict[tuple[str, str], Kind]:
    """Return every kind of every dialect, by its apiVersion and name."""
    return {key: kind for name in names() for key, kind in get(name).kinds.items()}


@cache
def groups() -> frozenset[str]:
    """Return every API group in which a document is a job, or may mean to be one."""
    own = (group for name in names() for group in get(name).groups)
    return frozenset([GROUP, *own, *(group_of(version) for version, _ in kinds())])


def is_foreign(version: str, name: str) -> bool:
    """Whether an object of this apiVersion and kind is no job, and does not mean to be one."""
    known = [*kinds(), (API_VERSION, KIND)]
    return (version, name) not in known and _unknown(version, name, known) is None


def native(document: Document) -> tuple[Document | None, list[Problem]]:
    """Return the TrainingJob that a document is or stands for, or None where it is neither.

    Args:
        document: a TrainingJob, an operator's custom resource, or any other Kubernetes object.

    Returns:
        The TrainingJob, and warnings on what the operator would have done besides.

    Raises:
        MlgenError: the document is no Kubernetes object, a kind that nothing here knows, or a
            custom resource that cannot be rendered.
    """
    data = document.data
    if not isinstance(data, dict):
        message = f"the document is not a {KIND}"
        hint = f"begin it with apiVersion: {API_VERSION} and kind: {KIND}"
        raise MlgenError([document.located(Problem((), message, "unknown-kind", hint))])
    version, name = str(data.get("apiVersion")), str(data.get("kind"))
    if (version, name) == (API_VERSION, KIND):
        return document, []
    for word in ("kind", "apiVersion"):
        if not isinstance(data.get(word), str):
            message = f'the field "{word}" is missing'
            hint = f"write apiVersion: {API_VERSION} and kind: {KIND} for a job"
            raise MlgenError([document.located(Problem((word,), message, "unknown-kind", hint))])
    if (version, name) in kinds():
        return _converted(document, kinds()[version, name])
    problem = _unknown(version, name, [*kinds(), (API_VERSION, KIND)])
    if problem:
        raise MlgenError([document.located(problem)])
    return None, []


def _converted(document: Document, kind: Kind) -> tuple[Document, list[Problem]]:
    document = replace(document, data=without_nulls(document.data))
    require_valid(document, resource(kind.spec))
    builder = Builder(SourceValue(document.data))
    if not builder.collector.has_errors:
        kind.convert(builder)
    collector = Collector(map(document.located, builder.collector.problems))
    collector.raise_errors()
    return builder.finish(document), list(collector.problems)


def _unknown(version: str, name: str, known: list[tuple[str, str]]) -> Problem | None:
    """Return a problem where a document means to be one of ours, but is not; else None."""
    if name in TRAINER:
        message = f"a {name} is half of a job: Trainer puts a TrainJob and its runtime together"
        return Problem(("kind",), message, "unknown-kind", TRAINER_HINT)
    group = group_of(version)
    versions = [other for other, kind in known if kind == name]
    near = [other for other in versions if group_of(other) == group]
    if near or (versions and name not in COMMON):
        message = f"{version} is not a known version of {name}"
        hint = f"known are: {', '.join(near or versions)}"
        return Problem(("apiVersion",), message, "unknown-kind", hint)
    own = {GROUP, *(group for dialect in names() for group in get(dialect).groups)}
    kinds = list(dict.fromkeys(kind for other, kind in known if group_of(other) == group))
    alike = did_you_mean(name, kinds, cutoff=0.7)
    if group in own or (kinds and (alike or name.endswith("Job"))):
        hint = alike or (f"known are: {', '.join(kinds)}" if kinds else "")
        message = f"{version} {name} is not known, and without its operator nothing runs it"
        return Problem(("kind",), message, "unknown-kind", hint)
    return None


GROUP = group_of(API_VERSION)

COMMON = ("Job",)
"""Kinds of operators whose names others use too."""

TRAINER = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")
"""Kinds of Kubeflow Trainer, which makes a JobSet of a TrainJob and the runtime that it names."""

TRAINER_HINT = "render the JobSet that it makes of them: kubectl get jobset NAME -o yaml"
