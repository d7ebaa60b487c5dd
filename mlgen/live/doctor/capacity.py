"""Whether the nodes have room: for each pod alone, and for all of them now.

A simulation of the scheduler's filters by resources, nodeSelector and taints; affinity and
topology are left out. What it finds free may be gone a second later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from mlgen.checks.pods import workloads
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_resources import GPU
from mlgen.kubernetes.quantity import parse
from mlgen.live.doctor.findings import Finding, Patient, allowed, shown
from mlgen.objects.labels import workload_name

ENDED = ("Succeeded", "Failed")

PODS = "pods"
"""The number of pods is a resource of a node too."""

AUTOSCALERS = ("nodepools.karpenter.sh", "provisioningrequests.autoscaling.x-k8s.io")
"""Resources of programs that add nodes."""

BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class Node:
    """A node on which pods can be placed.

    Attributes:
        free: what its pods have not requested, by resource; all of it if they cannot be listed.
    """

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Object]
    allocatable: Mapping[str, Decimal]
    free: dict[str, Decimal]

    def takes(self, pod: "Pod") -> bool:
        """Return whether labels and taints allow a pod on the node."""
        selected = pod.spec.get("nodeSelector") or {}
        labelled = all(self.labels.get(name) == value for name, value in selected.items())
        return labelled and all(_is_tolerated(taint, pod) for taint in self.taints)


@dataclass(frozen=True)
class Pod:
    """The equal pods of a workload.

    Attributes:
        role: whose pods they are.
        count: how many.
        spec: of each.
        requests: of each, by resource.
    """

    role: str
    count: int
    spec: Object
    requests: Mapping[str, Decimal]


def capacity(patient: Patient) -> Iterator[Finding]:
    """Yield whether the cluster has room for a job."""
    nodes = allowed(patient.kubectl, "get", "nodes")
    if nodes is None:
        yield Finding("note", "nodes", "cannot be listed with your rights")
        return
    running = allowed(patient.kubectl, "get", "pods", "-A")
    usable = list(_nodes(nodes, running or []))
    pods = pods_of(patient)
    grows = any(name in patient.served for name in AUTOSCALERS)
    small = False
    for finding in (*_devices(pods, usable, grows=grows), *_fits(pods, usable, grows=grows)):
        small = small or finding.level != "ok"
        yield finding
    if running is None:
        yield Finding("note", "free capacity", "pods of all namespaces cannot be listed")
    elif not small:
        yield _room(pods, usable)


def pods_of(patient: Patient) -> list[Pod]:
    """Return the pods of the roles of a job."""
    topology = patient.rendered.topology
    by_name, found = workloads(patient.rendered.objects), []
    for role in topology.roles:
        spec = by_name[workload_name(topology.job, role)]["spec"]["template"]["spec"]
        found.append(Pod(role.name, role.replicas, spec, _amounts(pod_resources.requests(spec))))
    return found


def _amounts(resources: Mapping[str, Any]) -> dict[str, Decimal]:
    return {name: parse(amount) for name, amount in resources.items()}


def _nodes(nodes: Iterable[Object], running: Iterable[Object]) -> Iterator[Node]:
    """Yield the nodes on which pods can be placed, with what is free."""
    used: dict[str, dict[str, Decimal]] = {}
    for pod in running:
        node = pod["spec"].get("nodeName")
        if node and pod["status"].get("phase") not in ENDED:
            own = used.setdefault(node, {})
            own[PODS] = own.get(PODS, Decimal(0)) + 1
            for name, amount in _amounts(pod_resources.requests(pod["spec"])).items():
                own[name] = own.get(name, Decimal(0)) + amount
    for item in nodes:
        conditions = item["status"].get("conditions") or ()
        ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
        if item["spec"].get("unschedulable") or not ready:
            continue
        name, total = item["metadata"]["name"], _amounts(item["status"].get("allocatable") or {})
        taken = used.get(name, {})
        free = {each: amount - taken.get(each, Decimal(0)) for each, amount in total.items()}
        taints = [each for each in item["spec"].get("taints") or () if each["effect"] in BLOCKING]
        yield Node(name, item["metadata"].get("labels") or {}, taints, total, free)


def _is_tolerated(taint: Object, pod: Pod) -> bool:
    """Return whether a pod tolerates a taint.

    A taint of the name of a device that the pod requests is tolerated, as by the admission plugin
    ExtendedResourceToleration, which clusters with such taints usually enable.
    """
    if taint["key"] in pod.requests:
        return True
    for each in pod.spec.get("tolerations") or ():
        matches = each.get("key") in (None, "", taint["key"])
        equal = each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", "")
        if matches and equal and each.get("effect") in (None, "", taint["effect"]):
            return True
    return False


def _sum(pods: Iterable[Pod], name: str) -> Decimal:
    return sum((pod.requests.get(name, Decimal(0)) * pod.count for pod in pods), Decimal(0))


def _devices(pods: Sequence[Pod], nodes: Sequence[Node], *, grows: bool) -> Iterator[Finding]:
    """Yield the devices that the job needs, that there are and that are free."""
    names = dict.fromkeys(name for pod in pods for name in pod.requests if "/" in name)
    for name in names:
        needed = _sum(pods, name)
        there = sum((node.allocatable.get(name, Decimal(0)) for node in nodes), Decimal(0))
        free = sum((node.free.get(name, Decimal(0)) for node in nodes), Decimal(0))
        text = f"{shown(needed)} needed, {shown(there)} in the cluster, {shown(free)} free"
        if needed <= free:
            yield Finding("ok", name, text)
        elif needed <= there:
            yield Finding("warning", name, text, "the job waits until others are done")
        elif grows:
            yield Finding("warning", name, text, "the job waits until nodes are added")
        else:
            cure = "add nodes, or lower the request"
            if not there and name.endswith(GPU):
                cure = "add nodes with GPUs, and the vendor's device plugin"
            yield Finding("missing", name, text, cure)


def _fits(pods: Sequence[Pod], nodes: Sequence[Node], *, grows: bool) -> Iterator[Finding]:
    """Yield the roles whose pod is too large for every node."""
    for pod in {pod.role: pod for pod in pods}.values():
        taking = [node for node in nodes if node.takes(pod)]
        if any(_has(node.allocatable, pod.requests) for node in taking):
            continue
        if not taking:
            text = f"none of {len(nodes)} nodes has the labels and taints that the pod needs"
            cure = "see nodeSelector and tolerations"
        else:
            largest = max(taking, key=lambda node: _has_most(node, pod))
            lacking = [
                f"{name} {shown(amount)} of {shown(largest.allocatable.get(name, Decimal(0)))}"
                for name, amount in pod.requests.items()
                if amount > largest.allocatable.get(name, Decimal(0))
            ]
            text = f"no node is large enough; on {largest.name} it needs {', '.join(lacking)}"
            cure = "lower the request, or add larger nodes"
        yield Finding("warning" if grows else "missing", f"pods of {pod.role}", text, cure)


def _has(amounts: Mapping[str, Decimal], requests: Mapping[str, Decimal]) -> bool:
    return all(amounts.get(name, Decimal(0)) >= amount for name, amount in requests.items())


def _has_most(node: Node, pod: Pod) -> int:
    """Return of how many resources a node has enough."""
    return sum(node.allocatable.get(k, Decimal(0)) >= v for k, v in pod.requests.items())


def _room(pods: Sequence[Pod], nodes: Sequence[Node]) -> Finding:
    """Return how many of the pods fit on the nodes now, the largest first."""
    total = placed = 0
    for pod in sorted(pods, key=lambda pod: sorted(pod.requests.values()), reverse=True):
        requests = {**pod.requests, PODS: Decimal(1)}
        for _ in range(pod.count):
            total += 1
            node = next((n for n in nodes if n.takes(pod) and _has(n.free, requests)), None)
            if node:
                placed += 1
                for name, amount in requests.items():
                    node.free[name] = node.free.get(name, Decimal(0)) - amount
    if placed == total:
        return Finding("ok", "room", f"all {total} pods fit on the nodes now")
    text = f"{placed} of {total} pods fit on the nodes now"
    return Finding("warning", "room", text, "the others wait until there is room")
