"""Objects → problems: what holds between the objects of a job, whatever made them.

Each of these would be found much later by the API server, by a controller's event that nobody
reads, or by nobody, as a job that hangs.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen.objects.labels import DECIDES, JOB, REPLICA_INDEX, ROLE
from mlgen.podsecurity import LEVELS, Level, Violation, violations
from mlgen.policies import overlong
from mlgen.problems import Path, Problem

Object = dict[str, Any]

NAME: Path = ("metadata", "name")

LABEL_MAX = 63
STATEFUL_SET_MAX = 52
"""The controller adds `-` and ten characters to it in a label: kubernetes/kubernetes#64023."""

CONFIG_MAP_MAX = 1 << 20
"""Bytes of a ConfigMap's data: https://kubernetes.io/docs/concepts/configuration/configmap/."""

APPLY_MAX = 256 << 10
"""Bytes of all annotations of an object, one of which is what `kubectl apply` last applied."""

RELAXED_SERVICE_NAMES = (1, 36)
"""From here on a Service may begin with a digit (feature gate RelaxedServiceNameValidation)."""

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


def problems(name: str, objects: Sequence[Object], kube_version: tuple[int, int]) -> list[Problem]:
    """Return what is wrong with one job's objects.

    Args:
        name: the job's.
        objects: all of its objects.
        kube_version: of the cluster, as (major, minor).
    """
    pods = [found for item in objects for found in _pods(item)]
    found = [
        *_names(objects, kube_version),
        *_deciding(objects),
        *_selectors(objects, pods),
        *_images(pods),
        *_volumes(objects, pods),
        *_peers(name, pods, objects),
        *_sizes(objects, pods),
    ]
    return list(dict.fromkeys(found))


Key = tuple[str, str, str, str]
"""API group, kind, namespace and name, which no two objects share."""


def keys(objects: Iterable[Object]) -> list[Key]:
    """Return what identifies each object in a cluster; a list, or what is yet unnamed, has none."""
    return [
        (item["apiVersion"].rpartition("/")[0], item["kind"], meta.get("namespace") or "", name)
        for item in objects
        if isinstance(meta := item.get("metadata"), dict) and (name := meta.get("name"))
    ]


def collisions(objects: Iterable[Object], taken: Iterable[Key]) -> list[Problem]:
    """Return the objects that are made twice: by one job, or by one of those before it.

    Args:
        objects: those of one job.
        taken: what the jobs before it make.
    """
    made = Counter(keys(objects))
    twice = [key for key in made if made[key] > 1 or key in taken]
    if not twice:
        return []
    _, kind, _, name = twice[0]
    more = f" (and {len(twice) - 1} more)" if len(twice) > 1 else ""
    message = f"{kind} {name} would be made twice{more}"
    return [Problem(NAME, message, "name-collision", "give the job, or its roles, other names")]


def obstacles(
    objects: Iterable[Object], kube_version: tuple[int, int]
) -> dict[Violation, list[str]]:
    """Return what keeps the pods from PodSecurity's strictest level, and of which roles it is."""
    found: dict[Violation, dict[str, None]] = {}
    for pods in (pods for item in objects for pods in _pods(item)):
        role = pods.template["metadata"]["labels"][ROLE]
        for violation in violations(pods.template, kube_version):
            found.setdefault(violation, {})[role] = None
    return {violation: list(roles) for violation, roles in found.items()}


def profile(
    wanted: Level, objects: Iterable[Object], kube_version: tuple[int, int]
) -> Iterator[Problem]:
    """Return what stands against the PodSecurity level that the user asks for."""
    for violation, roles in obstacles(objects, kube_version).items():
        if LEVELS.index(violation.level) <= LEVELS.index(wanted):
            less = LEVELS[LEVELS.index(violation.level) - 1]
            message = f"{violation.field} of {', '.join(roles)} {violation.message}"
            cure = f"change it, or write profile: {less}"
            yield Problem(("spec", "security", "profile"), message, "profile", cure)


@dataclass(frozen=True, slots=True)
class _Pods:
    """The pods of one workload: their template, names and place in the job file.

    Attributes:
        name: their host name without the index; the whole of it where `indexed` is False.
        count: None where there may be any number: a suspended StatefulSet has none yet.
    """

    path: Path
    template: Object
    name: str
    indexed: bool
    count: int | None

    def has(self, host: str) -> bool:
        if not self.indexed:
            return host == self.name
        name, _, index = host.rpartition("-")
        if name != self.name or not index.isdecimal() or str(int(index)) != index:
            return False
        return self.count is None or int(index) < self.count

    def containers(self) -> Iterator[Object]:
        spec = self.template["spec"]
        yield from spec.get("initContainers", [])
        yield from spec["containers"]


def _role_path(item: Object) -> Path:
    role = item["metadata"]["labels"].get(ROLE)
    return ("spec", "roles", role) if role else ("spec", "roles")


def _pods(item: Object) -> Iterator[_Pods]:
    kind, spec, name = item["kind"], item.get("spec", {}), item["metadata"]["name"]
    if kind not in ("Job", "StatefulSet", "Deployment"):
        return
    count = spec["completions"] if kind == "Job" else spec["replicas"]
    indexed = kind == "StatefulSet" or spec.get("completionMode") == "Indexed"
    host = name if indexed else spec["template"]["spec"].get("hostname", name)
    yield _Pods(_role_path(item), spec["template"], host, indexed, count or None)


def _names(objects: Sequence[Object], kube_version: tuple[int, int]) -> Iterator[Problem]:
    """One problem for the name that is longest over its limit, one for those malformed."""
    over: list[tuple[int, str]] = []
    malformed: list[Problem] = []
    for item in objects:
        kind, name = item["kind"], item["metadata"]["name"]
        for what, text, limit in _derived(item):
            if len(text) > limit:
                over.append((len(text) - limit, f'{what} "{text}" has {len(text)} of {limit}'))
        strict = kind == "Service" and kube_version < RELAXED_SERVICE_NAMES
        if not (DNS_1035 if strict else DNS_1123).match(name):
            first = "a letter first" if strict else "no dash first"
            message = f'"{name}" cannot name a {kind}'
            cure = f"use lower-case letters, digits and dashes, {first} and no dash last"
            malformed.append(Problem(NAME, message, "bad-name", cure))
    yield from malformed[:1]
    if over:
        cut, text = max(over)
        message = f"the name is too long: {text} characters"
        cure = f"cut {cut} character{'s' if cut > 1 else ''}"
        yield Problem(NAME, message, "name-too-long", cure)


def _derived(item: Object) -> Iterator[tuple[str, str, int]]:
    """The names that Kubernetes makes of an object's, and how long each may be."""
    kind, name, spec = item["kind"], item["metadata"]["name"], item.get("spec", {})
    if kind == "StatefulSet":
        yield "StatefulSet", name, STATEFUL_SET_MAX
        yield "pod", f"{name}-{max(spec['replicas'], 1) - 1}", LABEL_MAX
    elif kind == "Job" and spec.get("completionMode") == "Indexed":
        yield "pod of the Job", f"{name}-{spec['completions'] - 1}", LABEL_MAX
    else:
        yield kind, name, LABEL_MAX


def _deciding(objects: Sequence[Object]) -> Iterator[Problem]:
    found = [o for o in objects if o["metadata"]["labels"].get(DECIDES) == "true"]
    if len(found) != 1 or found[0]["kind"] != "Job":
        names = ", ".join(f"{o['kind']} {o['metadata']['name']}" for o in found) or "none"
        message = f"exactly one Job must decide when training has ended; here it is {names}"
        cure = "name one role that ends by itself in successPolicy.role"
        yield Problem(("spec", "roles"), message, "deciding", cure)


def _selectors(objects: Sequence[Object], pods: Sequence[_Pods]) -> Iterator[Problem]:
    """What selects pods must find them, whatever a template does to the labels."""
    everyone = {labels for found in pods for labels in _selectable(found.template)}
    for item in objects:
        if item["kind"] == "Service":
            wanted, of = item["spec"]["selector"], everyone
        elif item["kind"] in ("StatefulSet", "Deployment"):
            wanted = item["spec"]["selector"]["matchLabels"]
            of = set(_selectable(item["spec"]["template"]))
        else:
            continue
        # The index of an Indexed Job's or a StatefulSet's pod is a label that controllers add.
        names = [name for name in SELECTORS if name in wanted]
        if tuple(wanted.get(name) for name in SELECTORS) not in of:
            message = f"{item['kind']} {item['metadata']['name']} selects no pod"
            cure = f"leave the labels {', '.join(names)} to mlgen in templates"
            yield Problem(_role_path(item), message, "selector", cure)


SELECTORS = (JOB, ROLE, REPLICA_INDEX)


def _selectable(template: Object) -> Iterator[tuple[str | None, ...]]:
    """The values of these labels by which a pod can be selected: the first of them, two, or all."""
    labels = template["metadata"]["labels"]
    for count in range(1, len(SELECTORS) + 1):
        values = [labels.get(name) for name in SELECTORS[:count]]
        yield (*values, *[None] * (len(SELECTORS) - count))


def _images(pods: Sequence[_Pods]) -> Iterator[Problem]:
    for found in pods:
        for container in found.containers():
            if not container.get("image"):
                message = f"the container {container['name']} has no image"
                yield Problem(found.path, message, "missing-image", "write image, here or in spec")


def _volumes(objects: Sequence[Object], pods: Sequence[_Pods]) -> Iterator[Problem]:
    """What is mounted must be one volume, and the keys that it takes from our ConfigMap exist."""
    data = {o["metadata"]["name"]: o.get("data", {}) for o in objects if o["kind"] == "ConfigMap"}
    for found in pods:
        volumes = found.template["spec"].get("volumes", [])
        names = {volume["name"] for volume in volumes}
        for container in found.containers():
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in names:
                    message = f"{container['name']} mounts {mount['name']}, which is no volume"
                    cure = "add it to the volumes of the template"
                    yield Problem(found.path, message, "volume", cure)
        for volume in volumes:
            sources = [
                name for name, value in volume.items() if name != "name" and value is not None
            ]
            if len(sources) > 1:
                message = f"the volume {volume['name']} would be {' and '.join(sources)} at once"
                cure = "give yours another name"
                yield Problem(found.path, message, "volume", cure)
            source = volume.get("configMap", {})
            for item in source.get("items", []) if source.get("name") in data else []:
                if item["key"] not in data[source["name"]]:
                    message = f"{source['name']} has no key {item['key']}"
                    yield Problem(found.path, message, "volume", "take another key")


def _peers(name: str, pods: Sequence[_Pods], objects: Sequence[Object]) -> Iterator[Problem]:
    """Each `<job>-…-<i>.<job>` in a variable, an argument or the hostfile is a pod of this job."""
    prefix = re.escape(name)
    address = re.compile(
        rf"(?<![\w.-])({prefix}-[a-z0-9-]*)(\d+|\[\d+-\d+\]|\$\(MLGEN_REPLICA_INDEX\))"
        rf"\.{prefix}(?:\.[a-z0-9.-]*[a-z0-9])?(?::(\d+))?(?![\w-])"
    )
    known: set[tuple[str, str]] = set()
    for path, where, text, own in _texts(pods, objects):
        if name not in text:
            continue
        for before, index, port in address.findall(text):
            if (before + index, port) in known:
                continue
            known.add((before + index, port))
            for host in (f"{before}{end}" for end in _ends(index, own)):
                wrong = _peer(pods, host, port)
                if wrong:
                    yield Problem(path, f"{where} {wrong[0]}", *wrong[1:])


def _texts(
    pods: Sequence[_Pods], objects: Sequence[Object]
) -> Iterator[tuple[Path, str, str, int | None]]:
    for found in pods:
        for container in found.containers():
            for item in container.get("env", []):
                yield found.path, item["name"], item.get("value") or "", found.count
            for field in ("command", "args"):
                for text in container.get(field, []):
                    yield found.path, field, text, found.count
    for item in objects:
        if item["kind"] == "ConfigMap" and "hostfile" in item.get("data", {}):
            # Of `host:4`, 4 is not a port but slots.
            hosts = re.sub(r":\d+$", "", item["data"]["hostfile"], flags=re.MULTILINE)
            yield ("spec", "roles"), "the hostfile", hosts, None


def _ends(index: str, own: int | None) -> list[str]:
    """The first and the last index of a range; `own` is how many replicas the reader has."""
    if index.startswith("["):
        return index[1:-1].split("-")
    if index.startswith("$"):
        return ["0", str((own or 1) - 1)]
    return [index]


def _peer(pods: Sequence[_Pods], host: str, port: str) -> tuple[str, str, str] | None:
    """Return message, code and cure where no pod has this host name, or none listens there."""
    owner = next((found for found in pods if found.has(host)), None)
    if owner is None:
        message = f'names the peer "{host}", but there is no such pod'
        return message, "no-such-peer", "name a replica that exists"
    if port and int(port) not in _ports(owner):
        message = f"dials port {port} of {host}, which declares {_ports(owner) or 'none'}"
        return message, "port", "give both roles the same port"
    return None


def _ports(pods: _Pods) -> list[int]:
    main = pods.template["spec"]["containers"][0]
    return [port["containerPort"] for port in main.get("ports", [])]


def _sizes(objects: Sequence[Object], pods: Sequence[_Pods]) -> Iterator[Problem]:
    for item in objects:
        yield from sizes(item, "use fewer replicas")
    for found in pods:
        for _, where, text, _ in _texts([found], []):
            yield from overlong(found.path, where, text)


def sizes(item: Object, cure: str) -> Iterator[Problem]:
    """Return a problem where an object is larger than the cluster, or a plain apply, can take.

    Args:
        item: the object.
        cure: what makes it smaller.
    """
    kind, name = item["kind"], item["metadata"]["name"]
    size = len(json.dumps(item, ensure_ascii=False).encode())
    if kind == "ConfigMap" and size > CONFIG_MAP_MAX:
        message = f"ConfigMap {name} would have {size >> 10} KiB, of {CONFIG_MAP_MAX >> 10}"
        yield Problem(("spec", "roles"), message, "too-large", cure)
    elif size > APPLY_MAX:
        message = f"{kind} {name} has {size >> 10} KiB, too many for a plain kubectl apply"
        cure = "use kubectl apply --server-side"
        yield Problem(("spec", "roles"), message, "large-object", cure, warning=True)
