"""Containers → problems with names, labels, files and variables as under an operator.

`mlgen/jobfile/hints.py` describes the table of these values.
Under most operators, the name of a pod ends in its index, and a Service has the same name. The name
of a Job's pod ends in a random suffix, and does not resolve. Its host name is the name without it:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode.

`mlgen/jobfile/hints.py` describes the table of the values that only an operator's pods have.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mlgen.checks.pods import Container, ContainerText, Located, Pods, of_containers, of_pods
from mlgen.jobfile.hints import OF_PODS, SELECTED, operator_hints, operator_of
from mlgen.jobfile.model import is_below
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import JOB, REPLICA_INDEX, ROLE
from mlgen.problems import ValuePath, listed
from mlgen.topology import INDEX, INDEX_NAME


@of_containers
def pod_name(container: Container) -> Iterator[Located]:
    """Report uses of a pod's name for which it must end in the index, or resolve.

    wrong:
        framework: generic
        command: [bash, -c, "train --rank=${POD_NAME##*-}"]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: generic
        command: [train, --local-addr, $(POD_NAME)]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: generic
        command: [train]
        env: {NODE_ADDRESS: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    right:
        framework: generic
        command: [bash, -c, "train --name=$POD_NAME --rank=${HOSTNAME##*-}"]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    """
    pods = container.pods
    names = _variables(container) if pods.item["kind"] == "Job" else set[str]()
    texts = [*container.texts] if names else []
    for number, (name, value) in enumerate(container.env.items() if names else ()):
        path = (*container.path, "env", number, "value" if value else "valueFrom")
        text = ContainerText(pods.item, path, name, value, INDEX)
        texts.append(text)
        if name in names and re.fullmatch(ADDRESS, name):
            yield _not_an_address(container, text, name, f"value: {Use(container, text).host}")
    for text in texts:
        for is_rank, match, write in _uses(Use(container, text), names):
            if is_rank:
                message = f"{match} is not the index of a replica: {RANDOM}"
                yield container.doubt(text, message, f"write {write}", "reference")
            else:
                yield _not_an_address(container, text, match, write)


RANDOM = "the names of these pods end in a random suffix"


def _not_an_address(container: Container, text: ContainerText, used: str, write: str) -> Located:
    message = f"{used} is not an address: {RANDOM}, and do not resolve"
    return container.doubt(text, message, f"write {write}", "reference")


def _variables(container: Container) -> set[str]:
    """Return the variables of a container with the name of its pod."""
    env, path = container.data.get("env") or (), ("valueFrom", "fieldRef", "fieldPath")
    names = {item["name"] for item in env if value_at(item, path) == "metadata.name"}
    if not names:
        return names
    copies = {f"$({name})" for name in names}
    return names | {name for name, value in container.env.items() if value in copies}


ADDRESS = r"(\w+_)?(ADDR|ADDRESS|ENDPOINT|COORDINATOR)"
"""Names of variables with an address."""


class Use(NamedTuple):
    """A text that may use the name of a pod.

    Attributes:
        container: the container that reads it.
        text: the text.
    """

    container: Container
    text: ContainerText

    @property
    def role(self) -> str:
        """The role of the pods."""
        return str(self.container.pods.template["metadata"]["labels"].get(ROLE))

    @property
    def base(self) -> str:
        """The host name of the pods without their index."""
        pods = self.container.pods
        own = pods.template["metadata"]["labels"].get(REPLICA_INDEX)
        return self._renamed(pods.name.removesuffix(f"-{own}"))

    @property
    def host(self) -> str:
        """The address of a pod, in which the text for the index is replaced."""
        pods, rendered = self.container.pods, self.container.job.name
        own = REPLICA_INDEX in pods.template["metadata"]["labels"]
        name = f"{self.base}-{self.text.own_index}" if own or pods.indexed else self.base
        return f"{name}.{self._renamed(pods.subdomain[1] or rendered)}"

    def _renamed(self, name: str) -> str:
        """Return a name with the name of the job in its file, which has no hash."""
        job = self.container.job
        written = value_at(job.job_file, ("metadata", "name")) or job.name
        is_own = f"{name}-".startswith(f"{job.name}-")
        return str(written) + name.removeprefix(job.name) if is_own else name


def _index(use: Use, match: re.Match[str]) -> str:
    """Return the index, for the end of a name."""
    return f'os.environ["{INDEX_NAME}"]' if match[0].startswith("os.") else use.text.own_index


def _after(use: Use, match: re.Match[str]) -> str:
    """Return the index, for the rest of a name after the role; "" for another rest."""
    return use.text.own_index if match["prefix"].endswith(f"{use.role}-") else ""


def _test(use: Use, match: re.Match[str]) -> str:
    """Return a test of the index, for a test of a name; "" if the name belongs to another role."""
    compared = match["compared"]
    role = re.sub(r"[^a-z]+$", "", compared).rpartition("-")[2].lstrip("*")
    if not use.role.endswith(role) and (use.role, role) != (MERGED, "master"):
        return ""
    end = re.search(r"\d{1,6}\$?$|\(?\[0-9\].*", compared)
    of_index = match[0].replace(compared, end[0] if end else compared)
    return re.sub(NAME, lambda _: use.text.own_index, of_index, count=1)


def _base(use: Use, _: re.Match[str]) -> str:
    return use.base


def _address(use: Use, match: re.Match[str]) -> str:
    """Return the same text with the address of the pod."""
    return re.sub(NAME, lambda _: use.host, match[0], count=1)


MERGED = "rank"
"""The role into which a framework merges the roles master and worker."""

NAME = r"\"?\$(?P<open>[({])?(?P<name>\w+)(?(open)[)}])\"?"
"""A variable as a shell or Kubernetes replaces it."""

ENDS = (
    r"\$\{(?P<name>\w+)"
    r"(?:##[^{}*]{0,99}\*[^{}]{0,99}[-\]]|//\[[!^][^\]{}]{0,99}\]/?|: ?\(?-[12]\)?)\}"
)
PYTHON = (
    r"os\.(?:environ\[|environ\.get\(|getenv\() ?['\"](?P<name>\w+)['\"][\])]\."
    r"(?:r?split\(['\"]-['\"](?:, ?1)?\)\[-1\]|rpartition\(['\"]-['\"]\)\[(?:-1|2)\])"
)
OPTION = (
    r"(?:(?<![^\s'\"])--?(?:[a-zA-Z0-9]+[-_]){0,9}"
    r"(?:addr|address|ip|host|endpoint|master|coordinator)[ =]"
    rf"|\b[A-Z_]*(?:ADDR|ADDRESS|ENDPOINT|COORDINATOR)=){NAME}(?![\w./-])"
)
PIPE = rf"(?:\$\(|`) ?(?:echo|printf)(?: -n| ['\"]?%s(?:\\n)?['\"]?)? {NAME} ?\| ?"

LAST = (
    r"g?awk [^|\n]{0,40}\$\(?NF\b|sed [^|\n]{0,20}\.\*-|rev ?\| ?cut [^|\n]{0,20}\| ?rev\b"
    r"|grep -\w{0,3}o\w{0,3} [^|\n]{0,20}(?:\$['\"]?|\+['\"]? ?\| ?tail -\S{0,3}1)"
    r"|tr -(?:cd|dc) ['\"]?\[?0-9"
)
"""Commands that print the last part of a name, or its digits."""

END = r"[^`\n]{0,40}?(?:`|\)(?=[\s\"';&)]|$))"

USES: tuple[tuple[bool, str, Callable[[Use, re.Match[str]], str]], ...] = (
    (True, ENDS, _index),
    (True, r"\$\{(?P<name>\w+)##?(?P<prefix>[\w.-]{0,99}-)\}", _after),
    (True, rf"{PIPE}(?:{LAST}){END}", _index),
    (True, rf"\$\((?:{LAST})[^`\n]{{0,20}}<<< ?{NAME} ?\)", _index),
    (True, PYTHON, _index),
    (
        True,
        rf"(?:\[|\btest) {NAME} (?:==?|!=) \"?(?P<compared>[\w*.-]*-\d{{1,6}})\"?(?= ?\]| |;|$)",
        _test,
    ),
    (True, rf"\[\[ {NAME} =~ (?P<compared>[^\s\]]*(?:\d|\[0-9\][+*]?\)?)\$)(?= )", _test),
    (True, rf"\bcase {NAME} in\s+\(?(?P<compared>[\w*.-]*-\d{{1,6}})\)", _test),
    (True, r"\$\{(?P<name>\w+)%%?-[^{}]{0,20}\}", _base),
    (False, OPTION, _address),
    (False, rf"{NAME}(?::\d{{2,5}}\b|:\$[({{]?\w*PORT\b|\.[\w-]+\.svc\b)", _address),
)
"""The uses of a name: True for a use as the index, a pattern, and a function that returns the fix.

The group `name` is the variable with the name of the pod, and `compared` the text of a test.
"""


def _uses(use: Use, names: set[str]) -> Iterator[tuple[bool, str, str]]:
    """Yield the uses of the variables with the name of the pod in a text.

    Each is True for a use as the index, the text of the use, and the text to write instead.
    """
    text = use.text.text
    if not any(name in text for name in names):
        return
    names = _in_script(names, text)
    for is_rank, form, fix in USES:
        for match in re.finditer(form, text):
            write = fix(use, match) if match["name"] in names else ""
            if write:
                yield is_rank, match[0], write


def _in_script(names: set[str], script: str) -> set[str]:
    """Return the variables with the name of the pod, after the assignments of a script."""
    changed = set(names)
    for target, source in re.findall(ASSIGNMENT, script):
        if source in changed and not re.fullmatch(ADDRESS, target):
            changed.add(target)
        elif not source:
            changed.discard(target)
    return changed


ASSIGNMENT = (
    r"(?:^|[\s;&])([A-Za-z_]\w*)=(?:\"?\$\{?(\w+)\}?\"?(?=[\s;&|)]|$)|(?!\"?\$\{\w+[#%/:]))"
)
"""An assignment in a shell, and the variable from which it copies the whole value, if any.

An assignment of a part of a variable is none, because it may be the variable itself.
"""


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
    for container in pods.containers:
        for number, item in enumerate(container.data.get("env") or ()):
            yield (*container.path, "env", number, "valueFrom", *end), item["name"]
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
    for text in container.texts:
        for operator, pattern, fix in FILES if "/" in text.text else ():
            match = re.search(pattern, text.text)
            if match and not any(is_below(match[0], folder) for folder in container.folders):
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
