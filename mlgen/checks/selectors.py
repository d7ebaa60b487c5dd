"""Documents → selectors of pods by labels of an operator, which the pods of jobs do not have.

`mlgen/jobfile/hints.py` describes the table of these labels and selectors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from mlgen.checks.operators import PodLabels, own_labels, pod_labels
from mlgen.checks.pods import Objects
from mlgen.jobfile.hints import SELECTED, SELECTORS, is_of_job, operator_of
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import mapping, sequence, value_at
from mlgen.problems import Problem, ValuePath


class JobPods(NamedTuple):
    """The pods of a job, for selectors in other documents.

    Attributes:
        namespace: of the job; "" if it is not set.
        name: the job's name in its file.
        rendered: its name with its hash.
        labels: the labels of its pods that only pods of a job have, for each workload.
    """

    namespace: str
    name: str
    rendered: str
    labels: tuple[tuple[tuple[str, str | None], ...], ...]


def pods_of_job(job: Objects, name: str) -> JobPods:
    """Return the pods of a job.

    Args:
        job: its objects.
        name: its name in its file.
    """
    every = [
        tuple((key, value) for key, value in pod_labels(pods).items() if is_of_job(key))
        for pods in job.distinct_pods
    ]
    namespace = job.items[0]["metadata"].get("namespace") or ""
    return JobPods(namespace, name, job.name, _shared(tuple(dict.fromkeys(every))))


@lru_cache(maxsize=64)
def _shared(labels: tuple[tuple[tuple[str, str | None], ...], ...]) -> Any:
    """Return an equal value that all jobs share, which saves memory."""
    return labels


class Selector(NamedTuple):
    """A selector by labels of an operator.

    Attributes:
        namespace: of its object; "" if it is not set.
        kind: of its object.
        labels: the operator's labels in it, with their values.
        problem: the problem if it selects no pod, without the job and the fix.
    """

    namespace: str
    kind: str
    labels: tuple[tuple[str, str], ...]
    problem: Problem


def selectors_of(path: ValuePath, item: Object) -> Iterator[Selector]:
    """Yield the selectors of pods by labels of an operator in an object.

    Args:
        path: the path of the object in its document.
        item: the object, which may be invalid.
    """
    for steps in SELECTORS.get(str(item.get("kind")), ()):
        for at, selector in _values_at((), item, steps.split("/")):
            pairs = [
                (key, str(value))
                for key, value in _required(selector, plain=item["kind"] == "Service")
                if operator_of(key)
            ]
            if pairs:
                namespace = value_at(item, ("metadata", "namespace")) or ""
                there = Problem((*path, *at), "", "selector", warning=True)
                yield Selector(str(namespace), str(item["kind"]), tuple(pairs), there)


def _values_at(path: ValuePath, value: Any, steps: list[str]) -> Iterator[tuple[ValuePath, Any]]:
    """Yield the values at a path, in which `*` is any item of a list, with their paths."""
    if not steps:
        yield path, value
    elif steps[0] == "*":
        for number, item in enumerate(sequence(value)):
            yield from _values_at((*path, number), item, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from _values_at((*path, steps[0]), value[steps[0]], steps[1:])


def _required(selector: Any, *, plain: bool) -> Iterator[tuple[str, Any]]:
    """Yield the labels that a selector requires, with their values."""
    labels = mapping(selector) if plain else mapping(selector, "matchLabels")
    for key, value in labels.items():
        yield str(key), value
    for each in sequence(selector, "matchExpressions"):
        values = value_at(each, ("values", 0))
        if values is not None and each.get("operator") == "In":
            yield str(each.get("key")), values


def unselected(jobs: Iterable[JobPods], selectors: Iterable[Selector]) -> Iterator[Problem]:
    """Yield a problem for each selector by labels that the pods of its job do not have.

    A selector without the name of a job is compared with the first job of its namespace. An unset
    namespace may be any.
    """
    known: dict[tuple[str, str], JobPods] = {}
    for job in jobs:
        for name in (job.name, ""):
            for namespace in (job.namespace, ANY):
                known.setdefault((name, namespace), job)
    for selector in selectors:
        named = next((value for key, value in selector.labels if SELECTED.get(key) == "job"), "")
        spaces = (selector.namespace, "") if selector.namespace else (ANY,)
        found = (known.get((named, namespace)) for namespace in spaces)
        job_pods = next(filter(None, found), None)
        if job_pods and not any(_matches(selector, dict(each)) for each in job_pods.labels):
            yield _unselected(selector, job_pods)


ANY = "*"
"""In place of a namespace: the first job of any namespace."""


def _matches(selector: Selector, labels: PodLabels) -> bool:
    return all(key in labels and labels[key] in (None, value) for key, value in selector.labels)


def _unselected(selector: Selector, job: JobPods) -> Problem:
    own = own_labels(selector.labels, job.rendered, [dict(labels) for labels in job.labels])
    labels = f"labels of {operator_of(selector.labels[0][0])}"
    pods = f"which the pods of {job.name} do not have"
    message = f"the {selector.kind} selects pods by {labels}, {pods}"
    return replace(selector.problem, message=message, hint=f"write {own}")
