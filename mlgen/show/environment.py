"""The environment of a container, as Kubernetes makes it: in order, with `$(NAME)` expanded.

Sources: makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go, and the expansion in
third_party/forked/golang/expansion/expand.go of kubernetes/kubernetes. What is known only when the
pod runs is a text in angle brackets: `<IP of the pod>`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.labels import JOB_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse

REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""A reference, or an escaped dollar sign."""

LABEL = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

JOB_VARIABLE = "JOB_COMPLETION_INDEX"

UNKNOWN = {
    "status.podIP": "<IP of the pod>",
    "status.podIPs": "<IPs of the pod>",
    "status.hostIP": "<IP of the node>",
    "status.hostIPs": "<IPs of the node>",
    "spec.nodeName": "<name of the node>",
    "metadata.uid": "<UID of the pod>",
}
"""Fields of a pod that nobody knows before it runs."""


@dataclass(frozen=True)
class Variable:
    """A variable of a container.

    Attributes:
        value: as the program sees it.
        source: where it comes from, if its value is not written in the manifest.
    """

    name: str
    value: str
    source: str = ""


@dataclass(frozen=True)
class Running:
    """What is known of a pod before it runs.

    Attributes:
        name: of the pod; ends in `<random>` if its controller adds random characters.
        namespace: None for that of kubectl's context.
        labels: with those that the controller adds.
        config_maps: the data of the ConfigMaps among the manifests, by name.
    """

    name: str
    namespace: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    account: str
    config_maps: Mapping[str, Mapping[str, str]]


def with_job_index(container: Object) -> Object:
    """Return a container of an Indexed Job with the variable that the Job controller adds.

    See addCompletionIndexEnvVariables in pkg/controller/job/indexed_job_utils.go.
    """
    env = container.get("env") or []
    if any(item["name"] == JOB_VARIABLE for item in env):
        return container
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_INDEX}']"}}
    return container | {"env": [*env, {"name": JOB_VARIABLE, "valueFrom": field}]}


def environment(container: Object, pod: Running) -> list[Variable]:
    """Return the variables of a container in their order."""
    variables: list[Variable] = []
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found = _from_all(source, pod)
        variables += found
        values |= {variable.name: variable.value for variable in found}
    for item in container.get("env") or ():
        if "valueFrom" in item:
            value, origin = _from_source(item["valueFrom"], container, pod)
        else:
            value, origin = expanded(str(item.get("value") or ""), values), ""
        values[item["name"]] = value
        # A value in angle brackets names its source itself.
        variables.append(Variable(item["name"], value, "" if value.startswith("<") else origin))
    return variables


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its references replaced; those to unknown variables remain."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else values.get(name, match[0])

    end = text.rfind(")") + 1  # beyond it, each `$(` would be looked at up to the end
    return REFERENCE.sub(replacement, text[:end]) + text[end:].replace("$$", "$")


def words(texts: Sequence[str], variables: Sequence[Variable]) -> list[str]:
    """Return a command or its arguments with their references replaced."""
    values = {variable.name: variable.value for variable in variables}
    return [expanded(str(text), values) for text in texts]


def _from_all(source: Object, pod: Running) -> list[Variable]:
    """Return the variables of one entry of envFrom."""
    prefix = source.get("prefix", "")
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if field in source:
            name = source[field]["name"]
            data = pod.config_maps.get(name) if kind == "ConfigMap" else None
            if data is None:
                return [Variable(f"{prefix}…", "<each key>", f"{kind} {name}")]
            return [Variable(prefix + key, data[key], f"ConfigMap {name}") for key in data]
    return []


def _from_source(source: Object, container: Object, pod: Running) -> tuple[str, str]:
    """Return the value of a variable with valueFrom, and where it comes from."""
    if "fieldRef" in source:
        return _of_field(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _of_resources(source["resourceFieldRef"], container)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if field in source:
            name, key = source[field]["name"], source[field]["key"]
            data = pod.config_maps.get(name, {}) if kind == "ConfigMap" else {}
            return data.get(key, f"<{key} of {kind} {name}>"), f"{kind} {name}"
    return "<unknown>", ", ".join(source)


def _of_field(path: str, pod: Running) -> tuple[str, str]:
    """Return the value of a field of the pod, and the name of the field."""
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace or "<namespace>",
        "spec.serviceAccountName": pod.account,
    }
    match = LABEL.fullmatch(path)
    if match:
        values = pod.labels if match[1] == "labels" else pod.annotations
        return values.get(match[2], ""), f"{match[1].removesuffix('s')} {match[2]} of the pod"
    return known.get(path) or UNKNOWN.get(path, f"<{path}>"), f"{path} of the pod"


def _of_resources(source: Object, container: Object) -> tuple[str, str]:
    """Return a request or limit of the container itself, in units of the divisor, rounded up.

    See ExtractContainerResourceValue in pkg/api/v1/resource/helpers.go.
    """
    kind, _, name = source["resource"].partition(".")
    read = pod_resources.requests if kind == "requests" else pod_resources.limits
    amount = read({"containers": [container]}).get(name)
    if amount is None:
        return f"<{source['resource']} of the node>", ""
    divisor = parse(source.get("divisor") or 1) or 1
    return str(ceil(parse(amount) / divisor)), f"{source['resource']} of the container"
