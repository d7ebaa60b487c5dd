"""A rendered job → the boxes and arrows of its picture, in every format the same.

Equal replicas are one box, so a picture has as many boxes for 300 replicas as for 3. What a role
waits for in its own replicas is a line in its box.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.pod_resources import GPU
from mlgen.output.columns import counted, named
from mlgen.output.summary import required
from mlgen.result import Rendered
from mlgen.show.groups import Group, groups, ranked, referred, replicas_by_role, span, stored
from mlgen.topology import Role, Topology, Wait

Shape = Literal["Job", "StatefulSet", "supervisor", "service", "storage"]

ArrowKind = Literal["waits", "starts", "uses"]


MANY = 4
"""If a job uses more Secrets, claims or other storage of one kind, they are one box."""

PATHS = 2
"""The number of mount paths that a box names."""

DRAWN = ("claim", "Secret", "ConfigMap", "NFS")
"""The kinds of storage that have boxes."""


@dataclass(frozen=True)
class Box:
    """A box.

    Attributes:
        name: unique in the picture: letters, digits and underscores.
        texts: its lines; the first has the name of the role or object.
        decides: the end of the job depends on it.
    """

    name: str
    shape: Shape
    texts: tuple[str, ...]
    decides: bool = False


@dataclass(frozen=True)
class Arrow:
    """An arrow from the box that depends on the other, with what it does there.

    Attributes:
        kind: `waits`: the pods wait; `starts`: the role has no pods before; `uses`: storage, or
            commands that are run in the pods.
    """

    source: str
    target: str
    label: str
    kind: ArrowKind


@dataclass(frozen=True)
class Picture:
    """The picture of a job.

    Attributes:
        frame: the headless Service, around all roles.
        roles: the boxes in the frame.
        others: storage below the frame, and TensorBoard.
        shared: the names of the storage that every role uses, which has no arrows.
        supervisor: beside the frame; None if there is none.
    """

    title: str
    frame: Box
    roles: tuple[Box, ...]
    others: tuple[Box, ...]
    shared: tuple[str, ...]
    supervisor: Box | None
    arrows: tuple[Arrow, ...]

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All boxes without the frame."""
        beside = () if self.supervisor is None else (self.supervisor,)
        return (*self.roles, *self.others, *beside)


def picture(rendered: Rendered) -> Picture:
    """Return the picture of a job."""
    topology, rows = rendered.topology, groups(rendered)
    names = _names(rows)
    stores = list(_stores(rows))
    shared = [box.name for box, users in stores if len(users) == len(rows) > 1]
    uses = (
        Arrow(names[user], box.name, "", "uses")
        for box, users in stores
        for user in users
        if box.name not in shared
    )
    return Picture(
        f"{topology.job.name}: {topology.job.framework}",
        _frame(topology),
        tuple(_role_box(group, name) for group, name in zip(rows, names, strict=True)),
        (*(box for box, _ in stores), *_tensorboard(topology)),
        tuple(shared),
        _supervisor(topology) if topology.supervised else None,
        (*_arrows(topology.job.name, rows, names), *uses),
    )


def _names(rows: Sequence[Group]) -> list[str]:
    """Return a unique name for the box of each group."""
    return ["role_" + re.sub(r"[^a-z0-9]+", "_", group.name.lower()).strip("_") for group in rows]


def _frame(topology: Topology) -> Box:
    """Return the headless Service that gives every pod its name."""
    job, role = topology.job, topology.roles[0]
    texts = [
        f"Service {job.name}",
        f"addresses such as {job.name}-{role.name}-{role.index or 0}.{job.name}",
    ]
    gang = job.scheduling.gang
    if gang != "none":
        texts.append(f"{gang} starts all pods together")
    return Box("service", "service", tuple(texts))


def _role_box(group: Group, name: str) -> Box:
    role = group.role
    shown = group.replicas > 1 or not group.whole
    texts = [f"{role.name} {group.indexes}" if shown else role.name]
    if role.decides:
        texts.append(f"decides: {required(role)}".removesuffix(": "))
    one = f"{group.kind}, {counted(group.replicas, 'replica')}"
    many = f"{len(group.workloads)} {group.kind}"
    texts += [many if len(group.workloads) > 1 else one, *_resources(group)]
    if role.port is not None:
        texts.append(f"port {role.port}")
    if role.merged:
        texts.append(f"ranks of {named(role.merged)}")
    if role.max_replicas and role.max_replicas > role.replicas:
        texts.append(f"elastic, up to {role.max_replicas}")
    texts += dict.fromkeys(text for wait in role.waits for text in _own_wait(group, wait))
    if any("create" in right.verbs and right.resource == "pods" for right in role.rights):
        texts.append("creates pods")
    shape: Shape = "StatefulSet" if role.serves else "Job"
    return Box(name, shape, tuple(texts), role.decides)


def _resources(group: Group) -> Iterator[str]:
    """Yield what a replica requests, in a line: `8 GPUs, 32 CPU, 256Gi`; nothing for nothing."""
    requests = pod_resources.lasting(group.pod, "requests")
    parts = []
    for name in ranked(requests):
        unit = "CPU" if name == "cpu" else name.rpartition("/")[2]
        if name.endswith(GPU):
            unit = "GPU" if requests[name] == "1" else "GPUs"
        parts.append(requests[name] if name == "memory" else f"{requests[name]} {unit}")
    if parts:
        yield f"{', '.join(parts)}{' each' if group.replicas > 1 else ''}"


def _own_wait(group: Group, wait: Wait) -> Iterator[str]:
    """Yield what a group waits for in its own replicas, other than its own name."""
    if wait.role != group.role.name or group.replicas == 1 or not _meets(group, wait):
        return
    first, last = wait.hosts.first, wait.hosts.first + wait.hosts.count - 1
    what = "starts" if wait.started else f"has port {wait.port}" if wait.port else "has a name"
    if last > first:
        what = f"have port {wait.port}" if wait.port else "have names"
    yield f"wait until {span(first, last)} {what}"


def _meets(group: Group, wait: Wait) -> bool:
    """Return whether a wait is for replicas of a group."""
    first, last = wait.hosts.first, wait.hosts.first + wait.hosts.count - 1
    if group.role.index is None:
        return first < group.role.replicas
    return any(role.index is not None and first <= role.index <= last for role in group.roles)


def _arrows(job: str, rows: Sequence[Group], names: Sequence[str]) -> Iterator[Arrow]:
    """Yield an arrow from each group to each other on which it depends, with all reasons."""
    totals = replicas_by_role([role for group in rows for role in group.roles])
    for group, source in zip(rows, names, strict=True):
        commanded = [right for right in group.role.rights if right.resource == "pods/exec"]
        pods = {pod for right in commanded for pod in right.names}
        for other, target in zip(rows, names, strict=True):
            if other is group:
                continue
            name = other.role.name
            labels = [
                _wait_label(wait, totals[name])
                for wait in group.role.waits
                if wait.role == name and _meets(other, wait)
            ]
            kind: ArrowKind = "waits" if labels else "uses"
            for order in group.role.orders:
                if order.role == name:
                    labels.append(f"starts when {order.until.lower()}")
                    kind = "starts"
            if f"{job}-{name}-{other.role.index or 0}" in pods:
                labels.append("kubectl exec")
            if labels:
                yield Arrow(source, target, ", ".join(dict.fromkeys(labels)), kind)


def _wait_label(wait: Wait, total: int) -> str:
    """Return what is waited for, without the name of the role."""
    first, count = wait.hosts.first, wait.hosts.count
    which = "" if count == total else f" of {span(first, first + count - 1)}"
    if wait.started:
        return "waits for its start"
    return f"waits for port {wait.port}{which}" if wait.port else f"waits for the name{which}"


def _tensorboard(topology: Topology) -> Iterator[Box]:
    settings = topology.job.tensorboard
    if settings:
        texts = ("TensorBoard", "Deployment and Service", f"port {settings.port}")
        yield Box("tensorboard", "service", texts)


def _supervisor(topology: Topology) -> Box:
    decides = topology.decides != "one"
    badge = ["decides"] if decides else []
    texts = ("supervisor", *badge, "Job", *_supervision(topology))
    return Box("supervisor", "supervisor", texts, decides)


def _supervision(topology: Topology) -> Iterator[str]:
    """Yield what the supervisor does, in short lines."""
    policy = topology.job.run_policy
    ordered = _once(role for role in topology.roles if role.orders)
    if ordered:
        yield f"starts {named(ordered)}"
    gang = _once(role for role in topology.roles if role.gang)
    if gang:
        every = len(gang) == len(_once(topology.roles))
        yield f"restarts {'all replicas' if every else named(gang)} together"
    if not all(role.decides for role in topology.roles):
        yield "ends the job if a role fails"
    else:
        yield "ends the job if it cannot go on"
    verb = {"All": "deletes", "Running": "stops"}.get(policy.clean_pod_policy)
    if verb:
        yield f"{verb} the rest at the end"
    if policy.ttl_seconds_after_finished is not None:
        yield "deletes the job later"


def _once(roles: Iterable[Role]) -> list[str]:
    return list(dict.fromkeys(role.name for role in roles))


def _stores(rows: Sequence[Group]) -> Iterator[tuple[Box, Collection[int]]]:
    """Yield the storage of the roles' pods, with the positions of the groups that use it.

    The files of mlgen itself are left out.
    """
    kinds: dict[str, dict[str, tuple[dict[int, None], dict[str, None]]]] = {}
    for number, group in enumerate(rows):
        for kind, name, path in _used(group):
            users, paths = kinds.setdefault(kind, {}).setdefault(name, ({}, {}))
            users[number] = None
            if path:
                paths[path] = None
    boxes = count()
    for kind, found in kinds.items():
        if len(found) > MANY:
            everyone = sorted({user for users, _ in found.values() for user in users})
            texts: tuple[str, ...] = (f"{len(found)} {kind}s", kind)
            yield Box(f"storage_{next(boxes)}", "storage", texts), everyone
            continue
        for name, (users, paths) in found.items():
            shown = [*paths][:PATHS]
            if len(paths) > PATHS:
                shown.append(f"and {len(paths) - PATHS} more")
            texts = (name, kind, *([", ".join(shown)] if shown else []))
            yield Box(f"storage_{next(boxes)}", "storage", texts), users


def _used(group: Group) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name and mount path of what a pod uses; "" for variables."""
    mounts = {mount["name"]: mount["mountPath"] for mount in group.main.get("volumeMounts") or ()}
    own = ("ConfigMap", f"{group.pod.get('subdomain')}-config")
    for volume in group.pod.get("volumes") or ():
        path = mounts.get(volume["name"])
        kind, name = stored(volume)
        if name and path and kind in DRAWN and (kind, name) != own:
            yield kind, name, path
    variables = [item.get("valueFrom") or {} for item in group.main.get("env") or ()]
    for source in (*variables, *(group.main.get("envFrom") or ())):
        for kind, reference in referred(source):
            yield kind, str(reference.get("name", "")), ""
