"""Documents → problems that depend on other documents.

Training kinds that mlgen does not render, claims that the pods of a job cannot share, keys that a
Secret or ConfigMap lacks, selectors of pods that a job does not have, and names of objects that
kustomize has renamed.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mlgen.checks.cluster_facts import at_pod, problem
from mlgen.checks.job_file import in_job_file
from mlgen.checks.pods import POD, Objects, items_of, value_at
from mlgen.checks.renamed import Referred, referred_objects, renamed_objects
from mlgen.checks.selectors import JobPods, Selector, pods_of_job, selectors_of, unselected
from mlgen.checks.volumes import shared_claims
from mlgen.documents.document import Document
from mlgen.kubernetes import references
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.kubernetes.objects import Object
from mlgen.problems import Problem, ValuePath, choice
from mlgen.resources import table
from mlgen.shell import has_carriage_returns

OPERATORS = table("checks/operators")
OTHER = {
    "runs": "its operator",
    "else": "to run without an operator, write a job file: see mlgen frameworks",
}
"""The row of a kind that is not in the table."""


class Trainings(NamedTuple):
    """The training objects and claims of a document, and the kinds that it defines."""

    warnings: tuple[tuple[str, Problem], ...] = ()
    """One for each object that requires an operator, with its group and kind."""
    defined: tuple[str, ...] = ()
    """The groups and kinds of its CustomResourceDefinitions."""
    shared: tuple[tuple[str, Problem], ...] = ()
    """One for each claim that several pods of a job use, with its namespace and name."""
    single: tuple[str, ...] = ()
    """The namespaces and names of claims that only the pods of one node can use."""
    uses: tuple[tuple[str, str, Problem], ...] = ()
    """One for each key that a job requires: the Secret or ConfigMap, and the key."""
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The keys of each Secret and ConfigMap."""
    referred: tuple[Referred, ...] = ()
    """The objects that the pods of a job refer to, without the job's own."""
    named: tuple[tuple[str, str, str], ...] = ()
    """The kind, namespace and name of each object that a pod may refer to."""
    also: tuple[tuple[str, str], ...] = ()
    """The kind and name of each object that pods of other workloads refer to."""
    jobs: tuple[JobPods, ...] = ()
    """The pods of a job."""
    selectors: tuple[Selector, ...] = ()
    """One for each object that selects pods by labels of an operator."""


def shared(job: str, objects: Sequence[Object], document: Document) -> Trainings:
    """Return the claims that several pods of a job use, and the objects that its pods require.

    Args:
        job: the name of the job.
        objects: its objects.
        document: its job file.
    """
    own = Objects(job, objects, alike=True)
    claims = (
        (_full_name(name, each.item), document.located(in_job_file(each, document.data)))
        for name, each in shared_claims(own)
    )
    uses = []
    for pods in own.distinct_pods:
        for kind, name, path in _keys(POD, pods.template["spec"]):
            key = str(value_at(pods.item, path))
            found = at_pod(pods, path, "no-key", kind=kind, name=name, key=key, hint="")
            located = document.located(in_job_file(found, document.data))
            uses.append((f"{kind} {_full_name(name, pods.item)}", key, located))
    return Trainings(
        shared=tuple(claims),
        uses=tuple(dict.fromkeys(uses)),
        referred=tuple(referred_objects(own, document)),
        jobs=(pods_of_job(own, document.data["metadata"]["name"]),),
    )


def _full_name(name: str, item: Object) -> str:
    return f"{item['metadata'].get('namespace') or ''}/{name}"


KEY_REFERENCES = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}
VOLUMES = {"secret": "Secret", "configMap": "ConfigMap"}


def _keys(path: ValuePath, value: Any) -> Iterator[tuple[str, str, ValuePath]]:
    """Yield the keys that a part of a pod requires: kind and name of the object, and the path."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _keys((*path, number), item)
    if not isinstance(value, dict) or value.get("optional"):
        return
    for field, inner in value.items():
        at = (*path, field)
        if isinstance(inner, dict) and not inner.get("optional"):
            name = str(inner.get("secretName") or inner.get("name"))
            if field in KEY_REFERENCES:
                yield KEY_REFERENCES[field], name, (*at, "key")
            if field in VOLUMES:
                for number in range(len(inner.get("items") or ())):
                    yield VOLUMES[field], name, (*at, "items", number, "key")
        yield from _keys(at, inner)


def _contents(path: ValuePath, item: Object) -> Iterator[tuple[str, Problem]]:
    """Yield the values of a Secret that the API server cannot decode, and scripts from Windows."""
    texts = item.get("data") if item.get("kind") == "ConfigMap" else None
    for key, text in texts.items() if isinstance(texts, dict) else ():
        if isinstance(text, str) and has_carriage_returns(str(key), text):
            yield "", problem("line-ends", (*path, "data", key))
    data = item.get("data") if item.get("kind") == "Secret" else None
    for key, text in data.items() if isinstance(data, dict) else ():
        is_placeholder = not isinstance(text, str) or set(text) & set("${<")
        try:
            b64decode("" if is_placeholder else "".join(text.split()), validate=True)
        except ValueError:
            yield "", problem("not-base64", (*path, "data", key), key=key)


def own_service(document: Document) -> Problem | None:
    """Return the warning of a headless Service for the pods of the job of its name; else None.

    The job renders this Service itself, and two Services of one name replace each other.
    """
    data = document.data
    metadata, spec = data.get("metadata"), data.get("spec")
    if (
        data.get("kind") != "Service"
        or not isinstance(metadata, dict)
        or not isinstance(spec, dict)
    ):
        return None
    name, selector = metadata.get("name"), spec.get("selector")
    selects = isinstance(selector, dict) and name in selector.values()
    if spec.get("clusterIP") != "None" or not selects:
        return None
    return document.located(problem("own-service", ("metadata", "name"), name=name))


def is_own(document: Document) -> bool:
    """Return True for an object with the name of a job whose headless Service is in the input."""
    jobs = document.context.jobs if document.context else ()
    metadata = document.data.get("metadata")
    if not jobs or not isinstance(metadata, dict):
        return False
    namespace = str(metadata.get("namespace") or "")
    return any(same_object(each, (namespace, str(metadata.get("name")))) for each in jobs)


def same_object(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Return True if two namespaces and names can be the same. "" is the namespace of kubectl."""
    return first[1] == second[1] and (first[0] == second[0] or not (first[0] and second[0]))


def trainings(document: Document) -> Trainings:
    """Return the training kinds in a document that is not a job."""
    warnings: list[tuple[str, Problem]] = []
    defined, single, contents = list[str](), list[str](), list[tuple[str, tuple[str, ...]]]()
    named, also = list[tuple[str, str, str]](), list[tuple[str, str]]()
    selectors: list[Selector] = []
    for path, item in items_of(document.data):
        if not isinstance(item, dict):
            continue
        spec = item.get("spec")
        if item.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            kind = names.get("kind") if isinstance(names, dict) else None
            defined.append(f"{spec.get('group')}/{kind}")
        metadata = item.get("metadata")
        if item.get("kind") == "PersistentVolumeClaim" and isinstance(metadata, dict):
            claim = spec if isinstance(spec, dict) else {}
            modes, is_static = claim.get("accessModes"), "volumeName" in claim
            if modes in (["ReadWriteOnce"], ["ReadWriteOncePod"]) and not is_static:
                single.append(_full_name(str(metadata.get("name")), item))
        if item.get("kind") in VOLUMES.values() and isinstance(metadata, dict):
            parts = (item.get(field) for field in ("data", "stringData", "binaryData"))
            of_item = tuple(str(key) for part in parts if isinstance(part, dict) for key in part)
            name = f"{item['kind']} {_full_name(str(metadata.get('name')), item)}"
            contents.append((name, of_item))
            warnings += ((name, document.located(each)) for name, each in _contents(path, item))
        for selector in selectors_of(path, item):
            problem_there = document.located(selector.problem)
            selectors.append(selector._replace(problem=problem_there))
        group, kind = group_kind(item)
        if references.GROUPS.get(kind) == group and isinstance(metadata, dict):
            named.append((kind, str(metadata.get("namespace") or ""), str(metadata.get("name"))))
        also += _also(spec)
        name = f"{group}/{kind}"
        is_job = kind.endswith("Job") and not is_built_in(str(item.get("apiVersion")))
        row = OPERATORS.get(name, OTHER if is_job else {})
        if row:
            message = f"mlgen passes the {kind} through unchanged; only {row['runs']} can run it"
            not_run = Problem((*path, "kind"), message, "not-run", row["else"], warning=True)
            warnings.append((name, document.located(not_run)))
    return Trainings(
        tuple(warnings),
        tuple(defined),
        single=tuple(single),
        keys=tuple(contents),
        named=tuple(named),
        also=tuple(also),
        selectors=tuple(selectors),
    )


def _also(spec: Any) -> list[tuple[str, str]]:
    """Return the kind and name of each object that the pod template of a workload refers to."""
    try:
        return [(each.kind, each.name) for each in references.of_pod(spec["template"])]
    except (AttributeError, KeyError, TypeError):
        return []  # it has no valid pod template


def across(found: Sequence[Trainings]) -> list[Problem]:
    """Return the problems that depend on several documents.

    If the definition of a training kind is among the objects, its operator is assumed to be
    installed.
    """
    defined = {kind for each in found for kind in each.defined}
    single = {claim for each in found for claim in each.single}
    keys = {name: of_item for each in found for name, of_item in each.keys}
    uses = ((*use, keys[use[0]]) for each in found for use in each.uses if use[0] in keys)
    return [
        *(warning for each in found for kind, warning in each.warnings if kind not in defined),
        *(warning for each in found for claim, warning in each.shared if claim in single),
        *renamed_objects(
            [reference for each in found for reference in each.referred],
            (item for each in found for item in each.named),
            (pair for each in found for pair in each.also),
        ),
        *unselected(
            (job for each in found for job in each.jobs),
            (selector for each in found for selector in each.selectors),
        ),
        *(replace(lack, hint=choice(key, of)) for _, key, lack, of in uses if of and key not in of),
    ]
