"""Objects beside the jobs → warnings about those that look like jobs, which mlgen does not run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.documents.document import Document
from mlgen.kubernetes.groups import group_kind, is_built_in
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

Object = Mapping[str, Any]


def not_run(documents: Iterable[Document]) -> Iterator[Problem]:
    """Return a warning for each object that only an operator would run.

    An operator may well be installed. If its CustomResourceDefinition is among the objects, it is.

    Args:
        documents: the objects beside the jobs.
    """
    documents = list(documents)
    objects = [(document, *found) for document in documents for found in _objects(document)]
    defined = {_defined(item) for _, _, item in objects}
    for document, path, item in objects:
        group, kind = group_kind(item)
        if (group, kind) not in defined and _is_job(item):
            operator, hint = OPERATORS.get((group, kind), ("its operator", ELSE))
            message = f"mlgen passes this {kind} through unchanged; only {operator} can run it"
            problem = Problem((*path, "kind"), message, "not-run", hint, warning=True)
            yield document.located(problem)


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


def _defined(item: Object) -> tuple[str, str] | None:
    """Return the group and kind that a CustomResourceDefinition defines; None for other objects."""
    spec = item.get("spec")
    if item.get("kind") != "CustomResourceDefinition" or not isinstance(spec, dict):
        return None
    names = spec.get("names")
    return str(spec.get("group")), str(names.get("kind") if isinstance(names, dict) else None)
