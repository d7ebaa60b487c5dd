"""Objects of a job → problems with nodes, devices, storage and placement.

The API server accepts these values, but no node can run the pods, the kubelet rejects them, or the
program cannot use its files or devices.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from math import prod
from typing import Any

from mlgen.checks.amounts import bytes_of
from mlgen.checks.cluster_facts import FACTS, at_pod, problem
from mlgen.checks.job_file import holders, in_job_file
from mlgen.checks.operators import own_labels, pod_labels
from mlgen.checks.pods import (
    POD,
    Located,
    Objects,
    Pods,
    command_words,
    name_of,
    role_path,
    value_at,
)
from mlgen.jobfile.operators import is_of_job
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.merge import KEYS
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_resources import requests
from mlgen.kubernetes.quantity import natural, parse, times
from mlgen.kubernetes.validation import plans
from mlgen.kubernetes.validation.rows import Plans, Spot
from mlgen.kubernetes.versions import KubeVersion
from mlgen.launch.sidecars import is_sidecar
from mlgen.problems import Problem, ValuePath, did_you_mean, similar

HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def cluster_problems(
    job: Objects, version: KubeVersion, job_file: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    """Yield the problems of a job's objects, with their paths in the job file.

    Args:
        job: the objects of the job.
        version: the version of the cluster.
        job_file: the data of the job file; None if there is none.
    """
    checks = (_rows_of(job, version), _placement(job))
    each = (check(job, pods) for pods in job.distinct_pods for check in CHECKS)
    for found in chain(*checks, *each):
        yield in_job_file(found, job_file or {})
    for path, _, template in holders(job_file or {}):
        yield from _duplicates((*path, "template"), template)


@cache
def _rows(kind: str, version: KubeVersion) -> Plans:
    return plans(FACTS[kind], version)


def _rows_of(job: Objects, version: KubeVersion) -> Iterator[Located]:
    """Yield the problems of the rows. The API server's rules report missing fields."""
    claims = job.of_kind("PersistentVolumeClaim").values()
    for item in (*(pods.item for pods in job.distinct_pods), *claims):
        default = ("spec", "claims", name_of(item)) if item in claims else role_path(item)
        for kind in ("rows", "doubts"):
            for found in _rows(kind, version).broken_by(Spot((), item, item["kind"], version)):
                if found.code != "missing-field":
                    doubt = replace(found, path=default, warning=kind == "doubts")
                    yield Located(item, found.path, doubt)


def _amounts(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report amounts that no node has, and resources that no device plugin offers."""
    for path, container in pods.containers():
        resources = container.get("resources") or {}
        for kind in ("limits", "requests"):
            for name, amount in (resources.get(kind) or {}).items():
                at, most = (*path, "resources", kind, name), FACTS["amounts"].get(name)
                count = bytes_of(amount)
                known, meant = _device(name)
                if not known and meant:
                    yield at_pod(pods, at, "unknown-device", name=name, meant=meant)
                elif most and count and count > (bytes_of(most) or 0):
                    rule = "too-many" if "/" in name else "too-much"
                    hint = f"write {amount}m" if count == natural(str(amount)) else "write less"
                    values = {"amount": amount, "count": amount, "most": most, "hint": hint}
                    yield at_pod(pods, at, rule, name=name, **values)
    devices = _devices(pods)
    vendors = {name.partition("/")[0]: name for name in devices}
    if len(vendors) > 1:
        yield at_pod(pods, (), "several-vendors", names=" and ".join(vendors.values()))


def _devices(pods: Pods) -> dict[str, int]:
    """Return the number of accelerators that a pod requests, by resource."""
    found = {
        name: natural(text) or 0
        for name, text in _requests(pods).items()
        if re.match(FACTS["accelerators"], name)
    }
    return {name: count for name, count in found.items() if count}


def _requests(pods: Pods) -> Mapping[str, str]:
    try:
        return requests(pods.template["spec"])
    except ValueError:  # reported by the rules of the API server
        return {}


def _device(name: str) -> tuple[bool, str]:
    """Return whether a device plugin offers a resource, and the resource of which it is a typo."""
    domain, _, device = name.partition("/")
    for pattern, meant in FACTS["misplaced"].items():
        if re.fullmatch(pattern, name):
            return False, meant
    vendors = FACTS["devices"]
    vendor = domain if domain in vendors else similar(domain, vendors, 0.9)
    first = domain.partition(".")[0]
    if not vendor and first in ("nvidia", "habana", "huawei"):
        vendor = next(each for each in vendors if each.startswith(first))

    def plain(text: str) -> str:
        return re.sub("[^a-z0-9]", "", text.lower()).removesuffix("s")

    known = next((each for each in vendors.get(vendor, ()) if plain(each) == plain(device)), "")
    offered = device in vendors.get(domain, ())
    return offered, f"{vendor}/{known}" if known else ""


INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def _machines(job: Objects, pods: Pods) -> Iterator[Located]:
    """Compare the resources of a pod with the machines that it selects."""
    devices, spec = _devices(pods), pods.template["spec"]
    selector = spec.get("nodeSelector") or {}
    terms = _node_terms(pods)
    for key in INSTANCE_TYPES:
        types = set().union(*(term.get(key, {""}) for term in terms))
        at = (*POD, *(("nodeSelector", key) if key in selector else ("affinity", "nodeAffinity")))
        for name, amount in _requests(pods).items():
            known = [most for each in types for most in [_capacity(each, name)] if most]
            most = max(known, key=parse, default="0")
            if len(known) == len(types) and parse(amount) > parse(most):
                values = {"type": " or ".join(sorted(types)), "name": name, "count": amount}
                yield at_pod(pods, at, "other-instance", most=most, **values)
                return
    for key in selector:
        vendor = next((v for label, v in FACTS["vendors"].items() if re.match(label, key)), "")
        at = (*POD, "nodeSelector", key)
        if vendor and devices and not any(name.startswith(vendor) for name in devices):
            yield at_pod(pods, at, "other-vendor", key=key, name=next(iter(devices)))
        # Elsewhere, containers can use GPUs without a request, if their runtime class is nvidia.
        on_gke = key.startswith("cloud.google.com/gke-") and not spec.get("resourceClaims")
        if vendor and on_gke and not any(map(_devices, job.pods)):
            name = vendor + ("gpu" if vendor == "nvidia.com/" else "tpu")
            yield at_pod(pods, at, "no-devices", key=key, name=name)
            return


def _slices(_: Objects, pods: Pods) -> Iterator[Located]:
    """Compare the chips of pods with the TPU slice that they select."""
    selector = pods.template["spec"].get("nodeSelector") or {}
    topology = str(selector.get("cloud.google.com/gke-tpu-topology", ""))
    accelerator = selector.get("cloud.google.com/gke-tpu-accelerator", "")
    count = _devices(pods).get("google.com/tpu", 0)
    sizes = [natural(size) or 0 for size in topology.split("x")]
    each, example = FACTS["tpu"].get(accelerator, (0, ""))
    chips = prod(sizes)
    if not (count and topology and each):
        return
    at = (*POD, "nodeSelector", "cloud.google.com/gke-tpu-topology")
    if not chips or topology.count("x") != example.count("x"):
        shown = {"accelerator": accelerator, "topology": topology, "example": example}
        yield at_pod(pods, at, "tpu-axes", **shown)
        return
    most = min(each if chips <= each else 4, chips)
    values: dict[str, Any] = {"count": count, "topology": topology, "most": most}
    if count > most:
        yield at_pod(pods, at, "tpu-host", accelerator=accelerator, **values)
    elif pods.count and (pods.count * count) % chips:
        of_slice = {"pods": f"{pods.count} pod{'s' * (pods.count > 1)}", "chips": chips}
        yield at_pod(pods, at, "tpu-slice", **values, **of_slice, replicas=chips // most)


def _capacity(type_: str, name: str) -> str:
    """Return the largest amount of a resource of a machine type; "" if it is not known."""
    for row in FACTS["instances"]:
        match = re.fullmatch(row.get("type", ""), type_) if name in row else None
        if match:
            return times(row[name], int(match[1] or 1) if match.re.groups else 1)
    return ""


NO_DEVICES = ("", "-1", "none", "NoDevFiles")
"""Values that hide all devices."""


def _visible(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report variables that hide devices, and MIG devices that a process cannot use."""
    for path, container in pods.containers():
        limits = (container.get("resources") or {}).get("limits") or {}
        env = {item["name"]: str(item.get("value") or "") for item in container.get("env") or []}
        for name, device in FACTS["visible"].items():
            count, value = natural(str(limits.get(device, ""))) or 0, env.get(name, "all")
            valid = 0
            for each in map(str.strip, value.split(",")):
                # The devices of the node, not of the container, have the indexes of this variable.
                index = None if name == "NVIDIA_VISIBLE_DEVICES" else natural(each)
                if each in NO_DEVICES or (index is not None and index >= count):
                    break
                valid += 1
            # With void, the kubelet injects the devices: NVIDIA's container toolkit, CDI mode.
            if "$(" not in value and value not in ("all", "void") and valid < count:
                number = [item["name"] for item in container["env"]].index(name)
                values = {"name": name, "value": value, "hidden": count - valid, "count": count}
                at = (*path, "env", number, "value")
                yield at_pod(pods, at, "hidden-devices", **values, device=device)
        parts = {name: natural(str(n)) or 0 for name, n in limits.items() if "/mig-" in name}
        words = [word for _, word in command_words(container)]
        if sum(parts.values()) > 1 and "CUDA_VISIBLE_DEVICES" not in f"{env} {words}":
            name = next(iter(parts))
            at = (*path, "resources", "limits", name)
            yield at_pod(pods, at, "several-mig", count=sum(parts.values()), name=name)


def _terms(pods: Pods, kind: str) -> list[tuple[ValuePath, Object]]:
    """Return the required terms of a pod's podAffinity or podAntiAffinity, with their paths."""
    path = ("affinity", kind, REQUIRED)
    found = value_at(pods.template["spec"], path) or []
    return [((*POD, *path, number), term) for number, term in enumerate(found)]


def own_terms(pods: Pods, kind: str) -> list[ValuePath]:
    """Return the terms for one node or different nodes that select the pods themselves."""
    return [
        path
        for path, term in _terms(pods, kind)
        if term.get("topologyKey") == HOSTNAME and _selects(term.get("labelSelector"), pods)
    ]


def _labels(pods: Pods) -> dict[str, Any]:
    """Return the labels of pods. None for the value of a label that differs among them.

    https://kubernetes.io/docs/reference/labels-annotations-taints/#batch-kubernetes-io-job-name
    """
    own: dict[str, Any] = dict.fromkeys(
        (JOB_INDEX, SET_INDEX, "statefulset.kubernetes.io/pod-name")
    )
    if pods.item["kind"] == "Job":
        own |= {"job-name": name_of(pods.item), "batch.kubernetes.io/job-name": name_of(pods.item)}
        own |= dict.fromkeys(("controller-uid", "batch.kubernetes.io/controller-uid"))
    return own | (pods.template["metadata"].get("labels") or {})


def _requirements(selector: Object) -> Iterator[tuple[str, str, list[str]]]:
    """Yield key, operator and values of each requirement of a label selector or node term."""
    for key, value in (selector.get("matchLabels") or {}).items():
        yield key, "In", [value]
    for field in ("matchExpressions", "matchFields"):
        for each in selector.get(field) or ():
            key = HOSTNAME if each.get("key") == "metadata.name" else each.get("key", "")
            yield key, each.get("operator", ""), list(each.get("values") or ())


def _selects(selector: Object | None, pods: Pods) -> bool:
    """Return whether a label selector may match pods. None matches none."""
    labels = _labels(pods)
    for key, operator, values in _requirements(selector or {}):
        value = labels.get(key)
        known = key in labels and value is not None
        if operator in ("In", "Exists") and key not in labels:
            return False
        if (
            (operator == "In" and known and value not in values)
            or (operator == "NotIn" and value in values)
            or (operator == "DoesNotExist" and key in labels)
        ):
            return False
    return selector is not None


def _node_terms(pods: Pods) -> list[dict[str, set[str]]]:
    """Return the values that each alternative of the node selection allows, by label."""
    spec = pods.template["spec"]
    path = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    alternatives = []
    for term in value_at(spec, path) or [{}]:
        allowed = {key: {str(value)} for key, value in (spec.get("nodeSelector") or {}).items()}
        rules = list(_requirements(term))
        for key, operator, values in rules:
            if operator == "In":
                allowed[key] = allowed.get(key, set(values)) & set(values)
        for key, operator, values in rules:
            if key in allowed and operator in ("NotIn", "DoesNotExist"):
                allowed[key] -= set(values) if operator == "NotIn" else allowed[key]
        alternatives.append(allowed)
    return alternatives


def node_count(pods: Pods) -> int | None:
    """Return the number of nodes that pods select by name; None if it is unknown."""
    if pods.template["spec"].get("nodeName"):
        return 1
    terms = [term.get(HOSTNAME) for term in _node_terms(pods)]
    return None if None in terms else len(set().union(*filter(None, terms)))


def _placement(job: Objects) -> Iterator[Located]:
    """Report pods that need more nodes than they select, or more devices than one node has."""
    for pods in job.distinct_pods:
        terms = _node_terms(pods)
        if all(any(not values for values in term.values()) for term in terms):
            key = next(key for key, values in terms[0].items() if not values)
            yield at_pod(pods, (*POD, "affinity", "nodeAffinity"), "no-node", key=key)
            return
        nodes, count, at = node_count(pods), pods.count or 1, own_terms(pods, "podAntiAffinity")
        rule = "one-per-node" if at else "same-host-port" if _host_ports(pods) else ""
        if rule and nodes and nodes < count:
            several = f"{nodes} node{'s' * (nodes > 1)}"
            yield at_pod(pods, at[0] if at else (), rule, count=count, nodes=several)
    yield from _crowded(job)


def _host_ports(pods: Pods) -> bool:
    """Return whether a pod listens on ports of its node."""
    on_host = pods.template["spec"].get("hostNetwork")
    ports = (port for _, each in pods.containers() for port in each.get("ports") or ())
    return any(port.get("hostPort") or on_host for port in ports)


def _crowded(job: Objects) -> Iterator[Located]:
    """Report pods that must be on one node, which cannot have all of their devices."""
    crowd = [p for p in job.pods if node_count(p) == 1 or own_terms(p, "podAffinity")]
    total: Counter[str] = Counter()
    for pods in crowd:
        for name, count in _devices(pods).items():
            total[name] += count * (pods.count or 1)
    for name, count in total.items():
        most = natural(FACTS["amounts"].get(name, "")) or count
        if count > most:
            number = sum(pods.count or 1 for pods in crowd)
            at, *_ = [*own_terms(crowd[0], "podAffinity"), (*POD, "nodeSelector")]
            values = {"pods": number, "count": count, "name": name, "most": most}
            yield at_pod(crowd[0], at, "one-crowded-node", **values)


def _selectors(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report selectors for the job's own pods that match none of them."""
    spread = pods.template["spec"].get("topologySpreadConstraints") or []
    path = (*POD, "topologySpreadConstraints")
    terms = [
        ((*path, number), term, "selects-nothing", "constraint")
        for number, term in enumerate(spread)
    ]
    terms += [(at, term, "needs-nothing", "") for at, term in _terms(pods, "podAffinity")]
    terms += [(at, term, "selects-nothing", "term") for at, term in _terms(pods, "podAntiAffinity")]
    for at, term, rule, field in terms:
        selector = term.get("labelSelector")
        if selector is None or any(_selects(selector, each) for each in job.pods):
            continue
        needed = [(key, values[0]) for key, operator, values in _requirements(selector) if values]
        label = next(
            (
                f"{key}: {value}"
                for key, value in needed
                if field == "constraint" or value == job.name or is_of_job(key)
            ),
            None,
        )
        if label:
            own = own_labels(needed, job.name, [pod_labels(each) for each in job.pods])
            yield at_pod(pods, at, rule, label=label, field=field, own=own)


REFERENCE = re.compile(r"(?<![\\$])\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
"""A variable as a shell expands it: `$PATH` or `${PATH}`."""


def _env(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report variables whose value contains another one in the syntax of a shell."""
    for path, container in pods.containers():
        env = container.get("env") or []
        names = [item["name"] for item in env]
        first = {name: number for number, name in reversed([*enumerate(names)])}
        texts = " ".join(word for _, word in command_words(container))
        if re.search(r"\b(eval|envsubst)\b", texts):
            continue
        for number, item in enumerate(env):
            match = REFERENCE.search(value := str(item.get("value") or ""))
            if not match:
                continue
            name, used = item["name"], match[1] or match[2]
            at = (*path, "env", number, "value")
            values = {"name": name, "reference": match[0]}
            before = first.get(used, number) < number
            if re.fullmatch(FACTS["search_paths"], name) and not before:
                yield at_pod(pods, at, "search-path", **values)
            elif re.fullmatch(FACTS["scripts"], name) or re.match(FACTS["prose"], value):
                continue
            elif used in first or re.fullmatch(FACTS["shell_variables"], used):
                hint = f"write $({used})" if before else "write the complete value"
                yield at_pod(pods, at, "not-expanded", **values, hint=hint)


LOOP = r"\b(?:until|while)\b"


def _init(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report init containers that never end."""
    for path, container in pods.containers():
        runs_once = path[-2] == "initContainers" and container.get("restartPolicy") != "Always"
        # Arguments are for the image's own program, which may be any.
        is_known = container.get("command") or not container.get("args")
        if runs_once and is_known and is_sidecar(container):
            # An image of a sidecar may also run once.
            certain = is_sidecar({**container, "name": "", "image": ""})
            yield at_pod(pods, path, "endless-init", name=container["name"]).as_warning(
                unless=certain
            )
        text = " ".join(map(str, container.get("command") or ())) if runs_once else ""
        loops = (re.split(LOOP, part, maxsplit=1) for part in re.split(r"[;\n]", text))
        found = (re.search(FACTS["opens"], loop[0]) for _, *loop in loops if loop)
        waits = next(filter(None, found), None)
        target = job.of_host(waits[1].partition(".")[0]) if waits else None
        if waits and target and role_path(target.item) == role_path(pods.item):
            values = {"name": container["name"], "host": waits[1]}
            yield at_pod(pods, path, "waits-for-itself", **values)


HANDLERS = (
    *("livenessProbe", "readinessProbe", "startupProbe"),
    *("lifecycle.postStart", "lifecycle.preStop"),
)


def _names(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report ports and containers that a pod refers to by name, but does not have."""
    containers = [each["name"] for _, each in pods.containers()]
    for path, container in pods.containers():
        ports = [str(port["name"]) for port in container.get("ports") or () if port.get("name")]
        uses: list[tuple[str, ValuePath, list[str]]] = [
            (
                f"container {container['name']} has no port",
                (*handler.split("."), kind, "port"),
                ports,
            )
            for handler in HANDLERS
            for kind in ("httpGet", "tcpSocket")
        ]
        source = ("valueFrom", "resourceFieldRef", "containerName")
        uses += [
            ("pod has no container", ("env", number, *source), containers)
            for number in range(len(container.get("env") or ()))
        ]
        for lack, steps, names in uses:
            name = value_at(container, steps)
            if isinstance(name, str) and name not in names and not natural(name):
                hint = did_you_mean(name, names) or "write a name that exists"
                certain = steps[0] != "readinessProbe" and "preStop" not in steps
                values = {"lack": lack, "name": name, "hint": hint}
                yield at_pod(pods, (*path, *steps), "no-name", **values).as_warning(unless=certain)


CHECKS = (_amounts, _machines, _slices, _visible, _selectors, _env, _init, _names)

UNIQUE = ("containers", "initContainers", "volumes", "volumeMounts")
"""Lists in which two items with the same key are a mistake, before they are merged."""


def _duplicates(path: ValuePath, value: Any) -> Iterator[Problem]:
    """Report two items of a list in a template that would be merged into one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _duplicates((*path, name), inner)
    elif isinstance(value, list):
        field = str(path[-1])
        key, seen = KEYS.get(field, ""), set()
        for number, item in enumerate(value):
            found = item.get(key) if isinstance(item, dict) and field in UNIQUE else None
            if isinstance(found, str) and found in seen and "$patch" not in item:
                hint = "rename one of the two, or write one item"
                at = (*path, number, key)
                yield problem("same-item", at, field=field, key=key, value=found, hint=hint)
            seen.add(found)
            yield from _duplicates((*path, number), item)
