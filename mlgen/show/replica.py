"""One replica of a rendered job → a page: the address, ports, command and environment of its pod.

The page is computed from the rendered objects, as in Kubernetes. The variables of a container are
computed in order, with `$(NAME)` expanded: see makeEnvironmentVariables in
pkg/kubelet/kubelet_pods.go, and the expansion in third_party/forked/golang/expansion/expand.go of
kubernetes/kubernetes. Values that are known only when the pod runs are texts in angle brackets:
`<IP of the pod>`.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from mlgen.checks.commands import REFERENCE
from mlgen.checks.pods import pods_of, workloads
from mlgen.input_limits import CHARACTERS, EXPANDED
from mlgen.kubernetes import quantity
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural, parse
from mlgen.objects.labels import workload_name
from mlgen.output.manifests import span
from mlgen.output.terminal import template_text
from mlgen.result import Rendered
from mlgen.show.groups import Replica, referred, replicas_of, stored, table_text
from mlgen.topology import Role

RANDOM = "<random>"
"""The end of the name of a Job's pod, which its controller chooses."""

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
"""Fields of a pod that are unknown before it runs."""


class Variable(NamedTuple):
    """A variable of a container.

    Attributes:
        name: the variable's name.
        value: the value in the program.
        source: the source of the value; "" if the manifest contains the value.
    """

    name: str
    value: str
    source: str = ""


class Running(NamedTuple):
    """The properties of a pod that are known before it runs.

    Attributes:
        name: the pod's name; ends in `<random>` if its controller adds random characters.
        namespace: the pod's namespace; None: from kubectl's context.
        labels: the pod's labels, including labels from the controller.
        annotations: the pod's annotations.
        account: the name of its service account.
        config_maps: the data of the ConfigMaps among the manifests, by name.
    """

    name: str
    namespace: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    account: str
    config_maps: Mapping[str, Mapping[str, str]]


def replica_page(jobs: Sequence[Rendered], name: str) -> str:
    """Return the page of the replica of this name.

    Args:
        jobs: the rendered jobs; exactly one.
        name: `worker-3` or `worker/3`, or `chief` if it is the only replica of its role. The job's
            name may precede it: `mnist-worker-3`.

    Raises:
        ValueError: there are several jobs, or none, or no such replica.
    """
    if len(jobs) != 1:
        count = len(jobs) or "no"
        raise ValueError(f"--replica needs a single job, but FILES contain {count}")
    (rendered,) = jobs
    replicas = replicas_of(rendered.topology)
    short = name.removeprefix(f"{rendered.job.name}-")
    replica = _find(replicas, name) or _find(replicas, short)
    if not replica:
        every = ((role, replicas[role]) for role in rendered.topology.by_name)
        listed = ", ".join(
            role if len(own) == 1 else f"{role}-{span(min(own), max(own))}" for role, own in every
        )
        raise ValueError(f'{rendered.job.name} has no replica "{name}"; write one of {listed}')
    return _page(rendered, replica.role, replica.index)


def _find(replicas: Mapping[str, Mapping[int, Replica]], name: str) -> Replica | None:
    """Return the replica of a name; None if there is none."""
    if len(replicas.get(name, ())) == 1:
        return next(iter(replicas[name].values()))
    role_name, _, index = name.replace("/", "-").rpartition("-")
    number = natural(index)
    return None if number is None else replicas.get(role_name, {}).get(number)


def _page(rendered: Rendered, role: Role, index: int) -> str:
    """Return the page of a replica."""
    workload = workloads(rendered.objects)[workload_name(rendered.topology.job, role)]
    pods = pods_of(workload)
    job_index = index if role.index is None else 0  # of a Job in a JobSet
    host = f"{pods.name}-{job_index}" if pods.indexed else pods.name
    template, spec = pods.template, pods.template["spec"]
    labels = dict(template["metadata"].get("labels") or {})
    if pods.indexed:
        labels[SET_INDEX if role.serves else JOB_INDEX] = str(job_index)
    config_maps = (item for item in rendered.objects if item["kind"] == "ConfigMap")
    running = Running(
        host if role.serves else f"{host}-{RANDOM}",
        workload["metadata"].get("namespace"),
        labels,
        template["metadata"].get("annotations") or {},
        pods.account or "default",
        {item["metadata"]["name"]: item.get("data", {}) for item in config_maps},
    )
    services = list(_services(rendered, running))
    names = [service["metadata"]["name"] for service in services]
    own = pods.subdomain[1]
    creates_service = rendered.topology.job.jobset
    addresses = [f"{host}.{own}"] if own in names or creates_service else []
    main = next(c for c in spec["containers"] if c["name"] == role.spec.main_container)
    others = [item for item in spec["containers"] if item is not main]
    containers = [("Init container", item) for item in spec.get("initContainers") or ()]
    containers += [("Training container", main), *(("Container", item) for item in others)]
    adds_index = pods.indexed and workload["kind"] == "Job"
    rows = []
    for title, item in containers:
        variables = environment(with_job_index(item) if adds_index else item, running)
        rows.append((title, item, variables, mounts(spec, item)))
    return template_text(
        "show/replica.txt",
        running=running,
        workload=workload,
        spec=spec,
        addresses=[*addresses, *(name for name in names if name != own)],
        ports=list(_ports(services, main)),
        placement=[field for field in ("affinity", "topologySpreadConstraints") if spec.get(field)],
        containers=rows,
        columns=table_text,
        awaited=_awaited,
        words=lambda texts, variables: shlex.join(words(texts, variables)),
        amounts=_amounts,
        printable=lambda value: value if value.isprintable() else repr(value),
    )


def _services(rendered: Rendered, running: Running) -> Iterator[Object]:
    """Yield the Services that select the pod."""
    for item in rendered.objects:
        if item["kind"] == "Service":
            selector = item["spec"].get("selector") or {}
            if selector and selector.items() <= running.labels.items():
                yield item


def _ports(services: Sequence[Object], main: Object) -> Iterator[str]:
    """Yield the ports of the training container, with the Services' ports that lead to them."""
    for port in main.get("ports") or ():
        number = port["containerPort"]
        by = [
            f"port {item['port']} of Service {service['metadata']['name']}"
            for service in services
            for item in service["spec"].get("ports") or ()
            if item.get("targetPort", item["port"]) == number and item["port"] != number
        ]
        details = [*(["on the node"] if port.get("hostPort") else []), *by]
        name = f"{port.get('name', '')} {number}".strip()
        yield f"{name} ({', '.join(details)})" if details else name


def _awaited(variables: Sequence[Variable]) -> str:
    """Return the ports or names of peers that a container waits for."""
    waits = next((v.value for v in variables if v.name == "MLGEN_PEERS"), "")
    peers = [peer.rpartition(":") for peer in waits.split()]
    return ", ".join(f"port {port} of {host}" if host else port for host, _, port in peers)


def _amounts(container: Object, kind: str) -> str:
    """Return the requests or limits of a container."""
    amounts = (container.get("resources") or {}).get(kind) or {}
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


# The environment


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
    used = 0
    for source in container.get("envFrom") or ():
        entries = _from_all(source, pod)
        variables += entries
        values |= {variable.name: variable.value for variable in entries}
    for item in container.get("env") or ():
        if "valueFrom" in item:
            value, origin = _from_source(item["valueFrom"], container, pod)
        else:
            text, origin = str(item.get("value") or ""), ""
            value = expanded(text, values, CHARACTERS - used)
        used += len(value)
        values[item["name"]] = value
        # A value in angle brackets already contains its source.
        variables.append(Variable(item["name"], value, "" if value.startswith("<") else origin))
    return variables


def expanded(text: str, values: Mapping[str, str], room: int = CHARACTERS) -> str:
    """Return a text with its references replaced.

    References to unknown variables remain, and to values for which there is no more room, because
    each variable can contain the one before it several times.
    """
    room = min(room, EXPANDED)

    def replacement(match: re.Match[str]) -> str:
        nonlocal room
        value = "$" if match[1] is None else values.get(match[1], match[0])
        room -= len(value)
        return value if room >= 0 else match[0]

    end = text.rfind(")") + 1  # after it, the pattern would search from each `$(` to the end
    return re.sub(REFERENCE, replacement, text[:end]) + text[end:].replace("$$", "$")


def words(texts: Sequence[str], variables: Sequence[Variable]) -> list[str]:
    """Return a command or its arguments with their references replaced."""
    values = {variable.name: variable.value for variable in variables}
    room = CHARACTERS
    expansions: list[str] = []
    for text in texts:
        expansions.append(expanded(str(text), values, room))
        room -= len(expansions[-1])
    return expansions


def _from_all(source: Object, pod: Running) -> list[Variable]:
    """Return the variables of one entry of envFrom."""
    prefix = source.get("prefix", "")
    for kind, reference in referred(source):
        name = reference["name"]
        data = pod.config_maps.get(name) if kind == "ConfigMap" else None
        if data is None:
            return [Variable(f"{prefix}…", "<each key>", f"{kind} {name}")]
        return [Variable(prefix + key, data[key], f"ConfigMap {name}") for key in data]
    return []


def _from_source(source: Object, container: Object, pod: Running) -> tuple[str, str]:
    """Return the value of a variable with valueFrom, and its source."""
    if "fieldRef" in source:
        return _of_field(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _of_resources(source["resourceFieldRef"], container)
    for kind, reference in referred(source):
        name, key = reference["name"], reference["key"]
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
    """Return a request or limit of the container, in units of the divisor, rounded up.

    See ExtractContainerResourceValue in pkg/api/v1/resource/helpers.go.
    """
    kind, _, name = source["resource"].partition(".")
    read = quantity.requests if kind == "requests" else quantity.limits
    amount = read({"containers": [container]}).get(name)
    if amount is None:
        return f"<{source['resource']} of the node>", ""
    divisor = parse(source.get("divisor") or 1) or 1
    return str(ceil(parse(amount) / divisor)), f"{source['resource']} of the container"


# The mounts


def mounts(pod: Object, container: Object) -> list[tuple[str, str]]:
    """Return the path and the source of each mount of a container.

    Args:
        pod: the spec of the pod.
        container: one of its containers.
    """
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or ()}
    rows = []
    for mount in container.get("volumeMounts") or ():
        words = volume_words(volumes.get(mount["name"], {}))
        if mount.get("subPath"):
            words += f", path {mount['subPath']}"
        if mount.get("readOnly"):
            words += ", read-only"
        rows.append((str(mount["mountPath"]), words))
    return rows


def volume_words(volume: Mapping[str, Any]) -> str:
    """Return a short description of a pod's volume."""
    kind, name = stored(volume)
    if kind:
        items = (volume.get("secret") or volume.get("configMap") or {}).get("items") or ()
        files = ", ".join(str(item.get("path")) for item in items)
        return f"{kind} {name}".rstrip() + (f": {files}" if files else "")
    if "emptyDir" in volume:
        settings = volume["emptyDir"] or {}
        memory = "memory" if settings.get("medium") == "Memory" else "empty folder"
        limit = f" of up to {settings['sizeLimit']}" if settings.get("sizeLimit") else ""
        return f"{memory}{limit}"
    kinds = [name for name in volume if name != "name"]
    return kinds[0] if kinds else "(no such volume)"
