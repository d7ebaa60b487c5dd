"""The dialects: every module of this package reads the custom resources of one operator.

A dialect has

- a docstring, whose first line says whose resources these are,
- `KINDS`: by `apiVersion` and `kind`, what the `spec` may hold, and how it becomes a TrainingJob,
- `GROUPS`: the API groups that are all the operator's own, so that nothing else knows a kind in it.

It sees no Kubernetes object and no YAML text: a `Draft` gives it what was written, and takes what a
TrainingJob says instead.
"""

import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from mlgen.draft import Draft, Given, Kind, resource, without_nulls
from mlgen.problems import MlgenError, Problem, did_you_mean
from mlgen.schema import API_VERSION, KIND, hold
from mlgen.source import Document


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
    dialects = [get(dialect) for dialect in names()]
    kinds = {key: kind for dialect in dialects for key, kind in dialect.KINDS.items()}
    if (version, name) in kinds:
        return _converted(document, kinds[version, name])
    groups = {GROUP, *(group for dialect in dialects for group in dialect.GROUPS)}
    problem = _unknown(version, name, [*kinds, (API_VERSION, KIND)], groups)
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


def _unknown(
    version: str, name: str, known: list[tuple[str, str]], groups: set[str]
) -> Problem | None:
    """Return a problem where a document means to be one of ours, but is not; else None.

    Some names are those of common kinds too: a `Job` of another group is none of ours.
    """
    group = version.rpartition("/")[0]
    versions = [other for other, kind in known if kind == name]
    ours = {v.rpartition("/")[0] for v in versions}
    alike = did_you_mean(name, {kind for _, kind in known})
    if group in ours or (versions and group not in NATIVE_GROUPS):
        cure = f"known are: {', '.join(dict.fromkeys(versions))}"
        message = f"{version} is not a known version of {name}"
        return Problem(("apiVersion",), message, "unknown-kind", cure)
    if group in groups or (alike and group in {v.rpartition("/")[0] for v, _ in known}):
        kinds = dict.fromkeys(k for v, k in known if v.rpartition("/")[0] == group)
        cure = alike or (f"known are: {', '.join(kinds)}" if kinds else "")
        message = f"{version} {name} is not known, and without its operator nothing runs it"
        return Problem(("kind",), message, "unknown-kind", cure)
    return None


GROUP = API_VERSION.partition("/")[0]

NATIVE_GROUPS = ("", "batch", "apps")
"""Groups of Kubernetes' own that have a kind of the same name as an operator's."""
