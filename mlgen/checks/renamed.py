"""Documents → references of jobs to objects that kustomize has renamed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mlgen.checks.job_file import in_job_file
from mlgen.checks.pods import POD, Objects
from mlgen.documents.document import Document
from mlgen.jobfile.validation import unexcused
from mlgen.kubernetes import references
from mlgen.kubernetes.values import value_at
from mlgen.problems import Problem, ValuePath


class Referred(NamedTuple):
    """A reference of a job's pods to another object."""

    job: str
    kind: str
    namespace: str
    name: str
    field: str
    """Its field in the input, as kustomize writes it; "" if the job file does not contain it."""
    problem: Problem
    """The warning that kustomize has renamed the object, without its message and hint."""


def referred_objects(own: Objects, document: Document) -> Iterator[Referred]:
    """Yield each reference of the pods of a job to another object, once for each field."""
    found = set[tuple[str, str, str]]()
    for pods in own.distinct_pods:
        for reference in references.of_pod(pods.template):
            kind, name = reference.kind, reference.name
            if name in own.of_kind(kind) or not reference.path:
                continue
            located = pods.warning((*POD, *reference.path), "", "", "reference")
            path = in_job_file(located, document.data).path
            value = value_at(document.data, path)
            if isinstance(value, dict):  # the short form of a volume
                fields = [field for field, inner in value.items() if inner == name]
                path, value = (*path, *fields), name if len(fields) == 1 else None
            warning = document.located(replace(located.problem, path=path))
            field = _kustomize_path(warning.path, reference.path) if value == name else ""
            if (kind, name, field) in found:
                continue
            found.add((kind, name, field))
            namespace = pods.item["metadata"].get("namespace") or ""
            for each in unexcused(document, [warning]):
                yield Referred(own.name, kind, namespace, name, field, each)


def _kustomize_path(path: ValuePath, in_pod: ValuePath) -> str:
    """Return the path of a reference as kustomize writes it, without the indexes of lists.

    Args:
        path: the path in the input; of a volume as a whole in some custom resources.
        in_pod: the path in the pod's spec.
    """
    if path[-1:] and isinstance(path[-1], int):
        start = next((at for at, step in enumerate(in_pod) if step == path[-2]), len(in_pod))
        path = (*path, *in_pod[start + 2 :])
    return "/".join(step for step in path if isinstance(step, str))


HASH = re.compile("-[bcdfghkmt2456789]{10}$")
"""The suffix of a name that kustomize generates (api/hasher, Encode)."""


def renamed_objects(
    referred: Sequence[Referred],
    present: Iterable[tuple[str, str, str]],
    also: Iterable[tuple[str, str]],
) -> Iterator[Problem]:
    """Yield warnings about references to objects that the input contains under another name.

    kustomize adds the same prefix and suffix to all names, so the name of the job shows them. It
    adds a hash to generated names. Without a hash, an object that others refer to has its name by
    intention.

    Args:
        referred: the references of all jobs.
        present: the kind, namespace and name of each object in the input.
        also: the kind and name of each object that other workloads refer to.
    """
    named = {(kind, name): space for kind, space, name in present}
    plain = {(kind, HASH.sub("", name)): name for kind, name in named}
    used = {*((each.kind, each.name) for each in referred), *also}
    for each in referred:
        if (each.kind, each.name) in named:
            continue
        for start, end in _affixes(each.job):
            other = plain.get((each.kind, f"{start}{each.name}{end}"), each.name)
            space = named.get((each.kind, other), "")
            is_own = HASH.search(other) or (each.kind, other) not in used
            if other != each.name and is_own and space in ("", each.namespace):
                message = f"the input has the {each.kind} {other} instead of {each.name}"
                hint = f"write the name {other} in the job file"
                if each.field:
                    message += "; kustomize has renamed the object, but not this field"
                    rule = f"add {{path: {each.field}}} to nameReference for {each.kind}"
                    hint = f"{rule} in the configurations of the kustomization"
                else:
                    message += ", which the job needs"
                yield replace(each.problem, message=message, hint=hint)
                break


def _affixes(job: str) -> Iterator[tuple[str, str]]:
    """Yield each prefix and suffix that kustomize may have added to the name of a job."""
    cuts = [at for at, character in enumerate(job) if character in "-."]
    for start in (0, *(at + 1 for at in cuts)):
        yield from ((job[:start], job[end:]) for end in (len(job), *reversed(cuts)) if end >= start)
