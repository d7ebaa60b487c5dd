"""Objects of a job → problems with values that only the pods of an operator have.

`mlgen/jobfile/operators.py` describes the table of these values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from mlgen.checks.cluster_facts import at_pod
from mlgen.checks.container_texts import ContainerText, located, texts_of
from mlgen.checks.job_file import in_job_file
from mlgen.checks.pod_names import MERGED
from mlgen.checks.pods import Located, Objects, Pods, value_at
from mlgen.jobfile.model import is_below
from mlgen.jobfile.operators import OF_PODS, SELECTED, hints, operator_of
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import JOB, REPLICA_INDEX, ROLE
from mlgen.problems import Problem, ValuePath, listed


def operator_problems(job: Objects, job_file: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of values of an operator's pods, with their paths in the job file."""
    for pods in job.distinct_pods:
        for found in chain(_fields(job, pods), _of_texts(job, pods)):
            yield in_job_file(found, job_file)


def _of_texts(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report labels, files and variables of an operator in commands, probes and files."""
    for path, container in pods.containers():
        names = {item["name"] for item in container.get("env") or ()}
        for text in texts_of(job, pods, path, container):
            if text.label not in names:
                yield from _labels(job, pods, text)
                yield from _files(container, pods, text)
                yield from _variables(container, pods, text)


PodLabels = Mapping[str, str | None]
"""The labels of the pods of one workload. The value is None if it differs among the pods."""


def pod_labels(pods: Pods) -> PodLabels:
    """Return the labels of pods, with the label that has their index."""
    index = SET_INDEX if pods.item["kind"] == "StatefulSet" else JOB_INDEX
    own: dict[str, str | None] = {index: None} if pods.indexed else {}
    return own | (pods.template["metadata"].get("labels") or {})


def own_labels(selected: Iterable[tuple[str, str]], name: str, every: Sequence[PodLabels]) -> str:
    """Return the labels of mlgen's pods that select the same pods, for a message.

    Args:
        selected: the labels and values of a selector for the pods of an operator.
        name: the name of the job.
        every: the labels of all pods.
    """
    own: dict[str, str] = {}
    for key, value in selected:
        meaning = SELECTED.get(key)
        if meaning == "job and role":
            own |= {JOB: name} | _own_role(value.removeprefix(f"{name}-"), every)
        elif meaning == "job":
            is_own = f"{name}-".startswith(f"{value}-")
            own[JOB] = name if is_own else value
        elif meaning == "role":
            own |= _own_role(value, every)
        elif meaning == "index":
            role = own.get(ROLE)
            matching = [labels for labels in every if role in (None, labels.get(ROLE))]
            keys = (REPLICA_INDEX, JOB_INDEX, SET_INDEX)
            own[next((key for key in keys if any(key in each for each in matching)), JOB_INDEX)] = (
                f'"{value}"'
            )
        elif any(labels.get(key) == value for labels in every):
            own[key] = value
    return listed([f"{key}: {value}" for key, value in (own or {JOB: name}).items()], "and")


def _own_role(value: str, every: Sequence[PodLabels]) -> dict[str, str]:
    """Return the labels of the pods of a role, which may be merged with another role."""
    roles = {labels.get(ROLE) for labels in every}
    if value in roles:
        return {ROLE: value}
    if MERGED not in roles:
        return {}
    return {ROLE: MERGED} | ({JOB_INDEX: '"0"'} if value == "master" else {})


def _fields(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report labels and annotations of an operator that a pod reads, but does not have."""
    metadata = pods.template["metadata"]
    for path, name in _references(pods):
        match = OF_PODS.fullmatch(str(value_at(pods.item, path)))
        kind, key = match.groups() if match else ("", "")
        operator = operator_of(key)
        is_set = key in (metadata.get(kind) or {}) or (operator == "JobSet" and job.jobset)
        is_set = is_set or (key == "job-name" and pods.item["kind"] == "Job")
        if operator and kind and not is_set:
            values = {"operator": operator, "kind": kind.removesuffix("s"), "key": key}
            yield at_pod(pods, path, "operator-field", **values, name=name)


def _references(pods: Pods) -> Iterator[tuple[ValuePath, str]]:
    """Yield the path of each `fieldPath` in the pods, and the name of its variable or file."""
    end = ("fieldRef", "fieldPath")
    for path, container in pods.containers():
        for number, item in enumerate(container.get("env") or ()):
            yield (*path, "env", number, "valueFrom", *end), item["name"]
    for path, volume in pods.volumes():
        sources = (volume.get("projected") or {}).get("sources") or ()
        holders = [(path, volume)]
        holders += [((*path, "projected", "sources", n), each) for n, each in enumerate(sources)]
        for at, holder in holders:
            for number, item in enumerate((holder.get("downwardAPI") or {}).get("items") or ()):
                yield (*at, "downwardAPI", "items", number, *end), f"the file {item.get('path')}"


KEYS = rf"({'|'.join(re.escape(key) for key in SELECTED if '/' in key)})(?:=([\w.-]*))?"
"""The labels of operators with a prefix, and the value with which a command compares one."""


def _labels(job: Objects, pods: Pods, text: ContainerText) -> Iterator[Located]:
    """Report commands that look for labels of an operator, which the pods do not have."""
    for key, value in re.findall(KEYS, text.text) if "/" in text.text else ():
        every = [pod_labels(each) for each in job.pods]
        if not any(key in labels for labels in every):
            own = own_labels([(key, value or job.name)], job.name, every)
            yield located(pods, text, "operator-label", label=text.label, key=key, own=own)


FILES = [*hints("files")]
VARIABLES = [*hints("variables")]


def _files(container: Object, pods: Pods, text: ContainerText) -> Iterator[Located]:
    """Report files of an operator that a container reads, but does not mount."""
    for operator, pattern, fix in FILES if "/" in text.text else ():
        match = re.search(pattern, text.text)
        mounts = (str(mount["mountPath"]) for mount in container.get("volumeMounts") or ())
        if match and not any(is_below(match[0], mount) for mount in mounts):
            values = {"label": text.label, "path": match[0], "operator": operator}
            yield located(pods, text, "operator-file", **values, hint=fix)


USED = r"(?<![\\$])\$\{?([A-Z]{1,40}_\w+)\b(?!:?[-+=?])"
"""A variable in a script, unless it has a default."""

SETS = r"\b(source|eval|read)\b|(^|\n) *\. "
"""A pattern of scripts that may set any variable."""


def _variables(container: Object, pods: Pods, text: ContainerText) -> Iterator[Located]:
    """Report variables of an operator that a script uses without a value."""
    if "$" not in text.text or container.get("envFrom") or re.search(SETS, text.text):
        return
    known = {item["name"] for item in container.get("env") or ()}
    for name in dict.fromkeys(re.findall(USED, text.text)):
        fix = next((fix for _, pattern, fix in VARIABLES if re.fullmatch(pattern, name)), "")
        if fix and name not in known and not re.search(rf"\b{name}=", text.text):
            yield located(pods, text, "operator-variable", label=text.label, name=name, hint=fix)
