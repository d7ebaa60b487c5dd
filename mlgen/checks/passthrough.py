"""Objects beside the jobs → warnings about those that look like jobs, which mlgen does not run."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mlgen.documents.document import Document
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.kubernetes.objects import Object
from mlgen.problems import Problem, ValuePath

ELSE = "without it, write a job file: see mlgen frameworks"

OPERATORS = {
    ("ray.io", "RayJob"): ("KubeRay", "without it, write a job file with framework: ray"),
    ("sparkoperator.k8s.io", "SparkApplication"): ("the Spark operator", ""),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): ("the Spark operator", ""),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        "LeaderWorkerSet's controller",
        "without it, write a JobSet, or a job file with framework: generic",
    ),
}
"""Kinds that train, with the program that runs them, and what mlgen runs instead, if anything."""

NO_TRAINING = {("keda.sh", "ScaledJob")}
"""Kinds whose names end in Job, but which are not for training."""

GroupKind = tuple[str, str]


class Trainings(NamedTuple):
    """The objects of a document that are for training, and the kinds that it defines."""

    warnings: tuple[tuple[GroupKind, Problem], ...] = ()
    """One for each object that only an operator would run."""
    defined: tuple[GroupKind, ...] = ()
    """The kinds of its CustomResourceDefinitions."""


def trainings(document: Document) -> Trainings:
    """Return what a document, which is none of a job, has for training."""
    objects = list(_objects(document))
    defined = (_defined(item) for _, item in objects)
    return Trainings(
        tuple(
            (group_kind(item), _warning(document, path, item))
            for path, item in objects
            if _is_job(item)
        ),
        tuple(kind for kind in defined if kind),
    )


def not_run(found: Sequence[Trainings]) -> list[Problem]:
    """Return the warnings about objects whose operators are not among the objects themselves.

    An operator may well be installed. If its CustomResourceDefinition is among the objects, it is.
    """
    defined = {kind for each in found for kind in each.defined}
    return [warning for each in found for kind, warning in each.warnings if kind not in defined]


def _warning(document: Document, path: ValuePath, item: Object) -> Problem:
    """Return the warning about an object that only an operator would run."""
    kind = group_kind(item)
    operator, hint = OPERATORS.get(kind, ("its operator", ELSE))
    message = f"mlgen passes this {kind[1]} through unchanged; only {operator} can run it"
    problem = Problem((*path, "kind"), message, "not-run", hint, warning=True)
    return document.located(problem)


def _objects(document: Document) -> Iterator[tuple[ValuePath, Object]]:
    """Return an object, or the items of a List, each with its path."""
    data, items = document.data, document.data.get("items")
    if data.get("kind") != "List" or not isinstance(items, list):
        yield (), data
        return
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield ("items", number), item


def _is_job(item: Object) -> bool:
    """Return True if an object is for training, as far as its kind shows."""
    group, kind = group_kind(item)
    looks_like_job = kind.endswith("Job") and not is_built_in(str(item.get("apiVersion")))
    return (group, kind) in OPERATORS or (looks_like_job and (group, kind) not in NO_TRAINING)


def _defined(item: Object) -> GroupKind | None:
    """Return the group and kind that a CustomResourceDefinition defines; None for other objects."""
    spec = item.get("spec")
    if item.get("kind") != "CustomResourceDefinition" or not isinstance(spec, dict):
        return None
    names = spec.get("names")
    return str(spec.get("group")), str(names.get("kind") if isinstance(names, dict) else None)
