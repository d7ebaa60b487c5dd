"""What a job names and does not bring: whether it is in the cluster.

That is the list of `mlgen.checks.prerequisites`: Secrets and their keys, claims, classes, queues,
schedulers; and the devices of the nodes.
"""

from collections.abc import Callable, Iterator, Sequence

from mlgen.checks.pods import title, workloads
from mlgen.checks.prerequisites import (
    CLUSTER_SCOPED,
    GATE,
    GATES,
    SCHEDULER,
    Prerequisite,
    git_volumes,
)
from mlgen.kubernetes import pod_resources, references
from mlgen.kubernetes.objects import Object
from mlgen.live.doctor.limits import resource
from mlgen.live.doctor.report import Patient, Row, row
from mlgen.output.columns import counted, named, some

RESOURCES = {"NetworkAttachmentDefinition": "network-attachment-definitions.k8s.cni.cncf.io"}
"""Resources that do not follow from the kind."""

MAX_USERS = 4


def needs(patient: Patient) -> Iterator[Row]:
    """Yield whether each prerequisite of a job is in the cluster."""
    by_kind: dict[str, list[Prerequisite]] = {}
    for item in patient.rendered.prerequisites:
        by_kind.setdefault(item.kind, []).append(item)
    for kind, items in by_kind.items():
        yield from SPECIAL.get(kind, _objects)(patient, items)


def _row(key: str, item: Prerequisite, **values: object) -> Row:
    """Return the row of a prerequisite, with what uses it: `for worker, launcher`."""
    return row(key, item=item, users=some(item.used_by, MAX_USERS), **values)


def _objects(patient: Patient, items: Sequence[Prerequisite]) -> Iterator[Row]:
    """Yield whether objects of a kind exist, by one request."""
    kind = items[0].kind
    name = RESOURCES.get(kind, resource(items[0].group, kind))
    in_cluster = kind in CLUSTER_SCOPED
    # No object has a name that kubectl would take for an option.
    names = [item.name for item in items if not item.name.startswith("-")]
    found: list[Object] | None = []
    if names and name in patient.served and (in_cluster or patient.exists):
        space = None if in_cluster else items[0].namespace or patient.namespace
        words = ("get", name, *names, "--ignore-not-found")
        found = patient.kubectl.readable(*words, namespace=space)
    live = {each["metadata"]["name"]: each for each in found or ()}
    uses = _uses(patient)
    for item in items:
        if name not in patient.served:
            yield _row("no kind", item, resource=name)
        elif found is None:
            yield _row("unreadable", item)
        elif item.name not in live:
            yield _row("not found", item)
        else:
            yield _state(item, live[item.name], *uses.get((kind, item.name), (set(), False)))


def _uses(patient: Patient) -> dict[tuple[str, str], tuple[set[str], bool]]:
    """Return the keys of what the pods of a job name that they use, and whether Git does."""
    uses: dict[tuple[str, str], tuple[set[str], bool]] = {}
    for workload in workloads(patient.rendered.objects).values():
        template = workload["spec"]["template"]
        of_git = set(git_volumes(template["spec"]))
        for each in references.of_pod(template):
            keys, is_git = uses.get((each.kind, each.name), (set(), False))
            uses[each.kind, each.name] = {*keys, *each.keys}, is_git or each.volume in of_git
    return uses


def _state(item: Prerequisite, live: Object, keys: set[str], is_git: bool) -> Row:  # noqa: FBT001
    """Return whether an object has all keys, and is ready to use.

    Args:
        item: the prerequisite.
        live: the object.
        keys: those that the pods use.
        is_git: whether it has what Git needs to log in.
    """
    present = {*(live.get("data") or {}), *(live.get("binaryData") or {})}
    absent = sorted(keys - present)
    if absent:
        hint = f"to replace it: {item.command}" if item.command else ""
        return _row("no key", item, keys=", ".join(absent), hint=hint)
    if is_git and "ssh-privatekey" in present and "known_hosts" not in present:
        return _row("no known_hosts", item)
    phase = (live.get("status") or {}).get("phase", "")
    if item.kind == "PersistentVolumeClaim" and phase != "Bound":
        return _row("not bound", item, phase=phase or "not bound")
    return _row("need", item)


def _definitions(patient: Patient, items: Sequence[Prerequisite]) -> Iterator[Row]:
    for item in items:
        yield _row("need" if item.name in patient.served else "no definition", item)


def _gates(patient: Patient, items: Sequence[Prerequisite]) -> Iterator[Row]:
    """Yield whether the API server has a feature gate, by the kinds that it serves with it."""
    for item in items:
        kinds = [resource(*key) for key, gate in GATES.items() if gate == item.name]
        name = "gate" if patient.served.issuperset(kinds) else "no gate"
        yield _row(name, item, kinds=", ".join(kinds))


def _schedulers(patient: Patient, items: Sequence[Prerequisite]) -> Iterator[Row]:
    """Yield whether a scheduler was seen: by a Lease of its name, or by pods that it has placed.

    A scheduler is a program that claims a name; no object of the API lists it.
    """
    leases = patient.kubectl.readable("get", "leases.coordination.k8s.io", "-A")
    words = ("get", "events", "-A", "--field-selector=reason=Scheduled")
    seen = {each["metadata"]["name"] for each in leases or ()}
    seen |= {str(each.get("reportingComponent")) for each in patient.kubectl.readable(*words) or ()}
    for item in items:
        yield _row("need" if item.name in seen else "no scheduler", item)


SPECIAL: dict[str, Callable[[Patient, Sequence[Prerequisite]], Iterator[Row]]] = {
    "CustomResourceDefinition": _definitions,
    GATE: _gates,
    SCHEDULER: _schedulers,
}
"""What is not an object that `kubectl get` would print."""


def devices(patient: Patient) -> Iterator[Row]:
    """Yield whether nodes have the devices that the pods of a job request."""
    users: dict[str, dict[str, None]] = {}
    for workload in workloads(patient.rendered.objects).values():
        for name in pod_resources.requests(workload["spec"]["template"]["spec"]):
            if "/" in name:
                users.setdefault(name, {})[title(workload)] = None
    nodes = patient.kubectl.readable("get", "nodes") if users else []
    if nodes is None:
        yield row("unreadable nodes", names=named(users))
        return
    for name, titles in users.items():
        amounts = [node["status"].get("allocatable", {}).get(name, "0") for node in nodes]
        having = len(amounts) - amounts.count("0")
        values = {"count": having, "nodes": counted(len(nodes), "node")}
        values["users"] = some(list(titles), MAX_USERS)
        yield row("device" if having else "no device", name=name, **values)
