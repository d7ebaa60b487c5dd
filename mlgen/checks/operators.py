"""Rules about values that only the pods of an operator have.

`mlgen/jobfile/hints.py` describes the table of these values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mlgen.checks.pod_names import MERGED
from mlgen.checks.pods import Container, Located, Pods, of_containers, of_pods
from mlgen.jobfile.hints import OF_PODS, SELECTED, operator_hints, operator_of
from mlgen.jobfile.model import is_below
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import JOB, REPLICA_INDEX, ROLE
from mlgen.problems import ValuePath, listed

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


@of_pods
def operator_field(pods: Pods) -> Iterator[Located]:
    """Report labels and annotations of an operator that a pod reads, but does not have.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env:
          ID: {valueFrom: {fieldRef: {fieldPath: "metadata.labels['volcano.sh/template-uid']"}}}
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        env: {TEAM: {valueFrom: {fieldRef: {fieldPath: "metadata.labels['example.com/team']"}}}}
        roles: {worker: {}}
    """
    metadata = pods.template["metadata"]
    for path, name in _references(pods):
        match = OF_PODS.fullmatch(str(value_at(pods.item, path)))
        kind, key = match.groups() if match else ("", "")
        operator = operator_of(key)
        is_set = key in (metadata.get(kind) or {}) or (operator == "JobSet" and pods.job.jobset)
        is_set = is_set or (key == "job-name" and pods.item["kind"] == "Job")
        if operator and kind and not is_set:
            label = f"{kind.removesuffix('s')} {key}"
            message = f"{operator} sets the {label}, but mlgen does not, so {name} is empty"
            hint = "write its value instead of fieldRef, or remove it"
            yield pods.error(path, message, hint, "reference")


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


@of_containers
def operator_label(container: Container) -> Iterator[Located]:
    """Report commands that look for pods by labels of an operator, which these pods do not have.

    wrong:
        framework: pytorch
        command: [sh, -c, kubectl wait pods -l training.kubeflow.org/job-name=a && python train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [sh, -c, "kubectl wait pods -l mlgen.dev/job=a && python train.py"]
        roles: {worker: {}}
    """
    job = container.job
    for text in container.texts:
        for key, value in re.findall(KEYS, text.text) if "/" in text.text else ():
            every = [pod_labels(each) for each in job.pods]
            if not any(key in labels for labels in every):
                message = f"{text.label} looks for the label {key}, which these pods do not have"
                hint = f"write {own_labels([(key, value or job.name)], job.name, every)}"
                yield container.doubt(text, message, hint, "selector")


FILES = [*operator_hints("files")]
VARIABLES = [*operator_hints("variables")]


@of_containers
def operator_file(container: Container) -> Iterator[Located]:
    """Report files of an operator that a container reads, but does not mount.

    wrong:
        framework: pytorch
        command: [sh, -c, cat /etc/volcano/worker.host && python train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [cat, /etc/volcano/worker.host]
        volumes: {hosts: {mountPath: /etc/volcano, configMap: hosts}}
        roles: {worker: {}}
    """
    mounts = [str(mount["mountPath"]) for mount in container.data.get("volumeMounts") or ()]
    for text in container.texts:
        for operator, pattern, fix in FILES if "/" in text.text else ():
            match = re.search(pattern, text.text)
            if match and not any(is_below(match[0], mount) for mount in mounts):
                reads = f"{text.label} reads {match[0]}, which {operator} writes"
                message = f"{reads}, but which is on no volume of the container"
                yield container.doubt(text, message, fix, "volume")


USED = r"(?<![\\$])\$\{?([A-Z]{1,40}_\w+)\b(?!:?[-+=?])"
"""A variable in a script, unless it has a default."""

SETS = r"\b(source|eval|read)\b|(^|\n) *\. "
"""A pattern of scripts that may set any variable."""


@of_containers
def operator_variable(container: Container) -> Iterator[Located]:
    """Report variables of an operator that a script uses without a value.

    wrong:
        framework: pytorch
        command: [sh, -c, "python train.py --rank=$VK_TASK_INDEX"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [sh, -c, "VK_TASK_INDEX=1; python train.py $VK_TASK_INDEX ${VC_TASK_INDEX:-0}"]
        roles: {worker: {}}
    """
    for text in container.texts if not container.data.get("envFrom") else ():
        if "$" not in text.text or re.search(SETS, text.text):
            continue
        for name in dict.fromkeys(re.findall(USED, text.text)):
            fix = next((fix for _, pattern, fix in VARIABLES if re.fullmatch(pattern, name)), "")
            if fix and name not in container.env and not re.search(rf"\b{name}=", text.text):
                message = f"{text.label} uses {name}, which is not set in this job"
                yield container.doubt(text, message, fix, "launch")
