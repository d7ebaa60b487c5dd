"""The dialects: every module of this package reads the custom resources of one operator.

A dialect has

- a docstring, whose first line says whose resources these are,
- `KINDS`: by `apiVersion` and `kind`, what the `spec` may hold, and how it becomes a TrainingJob,
- `GROUPS`: the API groups that are all the operator's own, so that nothing else knows a kind in it.

It sees no Kubernetes object and no YAML text: a `Draft` gives it what was written, and takes what a
TrainingJob says instead.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast

from mlgen import source
from mlgen.draft import Draft, Given, Kind, resource, without_nulls
from mlgen.problems import MlgenError, Problem, did_you_mean
from mlgen.schema import API_VERSION, KIND, hold
from mlgen.source import Document, Text

T = TypeVar("T")


class Dialect(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    KINDS: Mapping[tuple[str, str], Kind]
    GROUPS: tuple[str, ...]


def names() -> list[str]:
    """Return the names of all dialects, sorted; none of them is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def get(name: str) -> Dialect:
    """Import a dialect by name."""
    return cast("Dialect", import_module(f"{__name__}.{name}"))


def documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Read the documents of a text; of a List that holds a job, as `kubectl get` prints it, each.

    Problems stand in the place of a document that cannot be read.
    """
    for document in source.documents(text):
        items = _items(document) if isinstance(document, Document) else []
        if isinstance(document, Document) and any(map(_is_ours, items)):
            yield from (document.item("items", i) for i in range(len(items)))
        else:
            yield document


def each(
    texts: Iterable[Text],
    make: Callable[[str, Document], tuple[T, list[Problem]]],
    problems: list[Problem],
) -> Iterator[tuple[Document, T]]:
    """Make something of every document that can be read, and return it with that.

    Args:
        texts: hold the documents.
        make: of the name of a text and a document of it, with warnings; raises `MlgenError`.
        problems: is added to, document by document.
    """
    for text in texts:
        yield from made(text.name, documents(text), make, problems)


def made(
    name: str,
    found: Iterable[Document | list[Problem]],
    make: Callable[[str, Document], tuple[T, list[Problem]]],
    problems: list[Problem],
) -> Iterator[tuple[Document, T]]:
    """Do for the documents of one text, by its name, what `each` does for those of many."""
    for document in found:
        if isinstance(document, list):
            problems += document
            continue
        try:
            result, warnings = make(name, document)
        except MlgenError as error:
            problems += error.problems
            continue
        problems += warnings
        yield document, result


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
    return {key: kind for name in names() for key, kind in get(name).KINDS.items()}


@cache
def groups() -> frozenset[str]:
    """Return every API group in which a document is a job, or may mean to be one."""
    own = (group for name in names() for group in get(name).GROUPS)
    return frozenset([GROUP, *own, *(_group(version) for version, _ in kinds())])


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
        cure = f"begin it with apiVersion: {API_VERSION} and kind: {KIND}"
        raise MlgenError([document.located(Problem((), message, "unknown-kind", cure))])
    version, name = str(data.get("apiVersion")), str(data.get("kind"))
    if (version, name) == (API_VERSION, KIND):
        return document, []
    for word in ("kind", "apiVersion"):
        if not isinstance(data.get(word), str):
            message = f'the field "{word}" is missing'
            cure = f"write apiVersion: {API_VERSION} and kind: {KIND} for a job"
            raise MlgenError([document.located(Problem((word,), message, "unknown-kind", cure))])
    if (version, name) in kinds():
        return _converted(document, kinds()[version, name])
    problem = _unknown(version, name, [*kinds(), (API_VERSION, KIND)])
    if problem:
        raise MlgenError([document.located(problem)])
    return None, []


def _converted(document: Document, kind: Kind) -> tuple[Document, list[Problem]]:
    document = replace(document, data=without_nulls(document.data))
    hold(document, resource(kind.spec))
    draft = Draft(Given(document.data))
    if not any(not problem.warning for problem in draft.problems):
        kind.convert(draft)
    problems = [document.located(problem) for problem in draft.problems]
    if any(not problem.warning for problem in problems):
        raise MlgenError(problems)
    return draft.finish(document), problems


def _unknown(version: str, name: str, known: list[tuple[str, str]]) -> Problem | None:
    """Return a problem where a document means to be one of ours, but is not; else None."""
    if name in TRAINER:
        message = f"a {name} is half of a job: Trainer puts a TrainJob and its runtime together"
        return Problem(("kind",), message, "unknown-kind", TRAINER_CURE)
    group = _group(version)
    versions = [other for other, kind in known if kind == name]
    near = [other for other in versions if _group(other) == group]
    if near or (versions and name not in COMMON):
        message = f"{version} is not a known version of {name}"
        cure = f"known are: {', '.join(near or versions)}"
        return Problem(("apiVersion",), message, "unknown-kind", cure)
    own = {GROUP, *(group for dialect in names() for group in get(dialect).GROUPS)}
    kinds = list(dict.fromkeys(kind for other, kind in known if _group(other) == group))
    alike = did_you_mean(name, kinds, cutoff=0.7)
    if group in own or (kinds and (alike or name.endswith("Job"))):
        cure = alike or (f"known are: {', '.join(kinds)}" if kinds else "")
        message = f"{version} {name} is not known, and without its operator nothing runs it"
        return Problem(("kind",), message, "unknown-kind", cure)
    return None


def _group(version: str) -> str:
    return version.rpartition("/")[0]


GROUP = API_VERSION.partition("/")[0]

COMMON = ("Job",)
"""Kinds of operators whose names others use too."""

TRAINER = ("TrainJob", "TrainingRuntime", "ClusterTrainingRuntime")
"""Kinds of Kubeflow Trainer, which makes a JobSet of a TrainJob and the runtime that it names."""

TRAINER_CURE = "render the JobSet that it makes of them: kubectl get jobset NAME -o yaml"
