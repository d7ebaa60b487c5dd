"""A rendered job → the boxes and arrows of its picture, in every format the same.

Equal replicas are one box, so a picture has as many boxes for 300 replicas as for 3. What a role
waits for in its own replicas is a line in its box.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlgen.graph.storage import Store, stores
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_resources import GPU
from mlgen.objects import supervisor
from mlgen.objects.labels import COMPONENT
from mlgen.output.columns import counted, named
from mlgen.output.summary import required
from mlgen.result import Rendered
from mlgen.show.groups import Group, groups, replicas_by_role, span
from mlgen.topology import Role, Topology, Wait

Shape = Literal["Job", "StatefulSet", "supervisor", "service", "storage"]


@dataclass(frozen=True)
class Box:
    """A box.

    Attributes:
        name: unique in the picture: letters, digits and underscores.
        title: the name of the role or object.
        indexes: of the replicas: `0…3`; "" if there is one.
        lines: further texts.
        replicas: more than one are drawn as a stack.
        badge: a word that stands out: `decides`.
        objects: the manifests that it stands for.
    """

    name: str
    shape: Shape
    title: str
    indexes: str = ""
    lines: tuple[str, ...] = ()
    replicas: int = 1
    badge: str = ""
    objects: tuple[Object, ...] = ()

    @property
    def heading(self) -> str:
        """The title with the indexes."""
        return f"{self.title} {self.indexes}".strip()

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, from top to bottom."""
        return (self.heading, *([self.badge] if self.badge else ()), *self.lines)


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
    kind: Literal["waits", "starts", "uses"]


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

    @property
    def description(self) -> str:
        """The whole picture in sentences, for those who do not see it."""
        by_name = {box.name: box.heading for box in self.boxes}
        sentences = [
            f"{by_name[box.name]}: {', '.join([*box.lines, *([box.badge] if box.badge else [])])}."
            for box in self.boxes
        ]
        sentences += [
            f"{by_name[arrow.source]} {arrow.label or 'uses'} {by_name[arrow.target]}."
            for arrow in self.arrows
        ]
        return " ".join(sentences)


def picture(rendered: Rendered) -> Picture:
    """Return the picture of a job."""
    topology, rows = rendered.topology, groups(rendered)
    names = _names(rows)
    found = stores(rows)
    everyone = [store for store in found if len(store.users) == len(rows) > 1]
    boxes = tuple(_store_box(number, store) for number, store in enumerate(found))
    arrows = [
        *_waits(rows, names),
        *_orders(rows, names),
        *_commands(rendered, rows, names),
        *(
            Arrow(names[user], box.name, "", "uses")
            for box, store in zip(boxes, found, strict=True)
            for user in store.users
            if store not in everyone
        ),
    ]
    return Picture(
        f"{topology.job.name}: {topology.job.framework}",
        _frame(rendered),
        tuple(_role_box(rendered, group, name) for group, name in zip(rows, names, strict=True)),
        (*boxes, *_tensorboard(rendered)),
        tuple(boxes[found.index(store)].name for store in everyone),
        _supervisor(rendered) if topology.supervised else None,
        tuple(_merged(arrows)),
    )


def _names(rows: Sequence[Group]) -> list[str]:
    """Return a unique name for the box of each group."""
    return ["role_" + re.sub(r"[^a-z0-9]+", "_", group.name.lower()).strip("_") for group in rows]


def _frame(rendered: Rendered) -> Box:
    """Return the headless Service that gives every pod its name."""
    job = rendered.topology.job
    role = rendered.topology.roles[0]
    lines = [f"addresses such as {job.name}-{role.name}-{role.index or 0}.{job.name}"]
    gang = job.scheduling.gang
    if gang != "none":
        lines.append(f"{gang} starts all pods together")
    kinds = ("Service", "PodGroup")
    own = [item for item in rendered.objects if item["kind"] in kinds]
    objects = tuple(item for item in own if item["metadata"]["name"] == job.name)
    return Box("service", "service", f"Service {job.name}", "", tuple(lines), objects=objects)


def _role_box(rendered: Rendered, group: Group, name: str) -> Box:
    topology, role = rendered.topology, group.role
    kind: Shape = "StatefulSet" if role.serves else "Job"
    count = len(group.workloads)
    lines = [f"{count} {kind}s" if count > 1 else f"{kind}, {counted(group.replicas, 'replica')}"]
    lines += _resources(group)
    if role.port is not None:
        lines.append(f"port {role.port}")
    if role.merged:
        lines.append(f"ranks of {named(role.merged)}")
    if role.max_replicas and role.max_replicas > role.replicas:
        lines.append(f"elastic, up to {role.max_replicas}")
    lines += dict.fromkeys(text for wait in role.waits for text in _own_wait(group, wait))
    if any("create" in right.verbs and right.resource == "pods" for right in role.rights):
        lines.append("creates pods")
    badge = f"decides: {required(role)}".removesuffix(": ") if role.decides else ""
    services = [
        item
        for item in rendered.objects
        if item["kind"] == "Service"
        and item["metadata"]["name"] != topology.job.name
        and item["metadata"]["labels"].get(COMPONENT) == role.name
    ]
    return Box(
        name,
        kind,
        role.name,
        group.indexes if group.replicas > 1 or not group.whole else "",
        tuple(lines),
        group.replicas,
        badge,
        (*group.workloads, *services),
    )


def _resources(group: Group) -> Iterator[str]:
    """Yield what a replica requests, in a line: `8 GPUs, 32 CPU, 256Gi`; nothing for nothing."""
    requests = pod_resources.lasting(group.pod, "requests")
    parts = []
    for name in sorted(
        requests, key=lambda n: (not n.endswith(GPU), n not in ("cpu", "memory"), n)
    ):
        amount = requests[name]
        if name.endswith(GPU):
            parts.append(f"{amount} GPU{'' if amount == '1' else 's'}")
        elif name in ("cpu", "memory"):
            parts.append(f"{amount} CPU" if name == "cpu" else amount)
        else:
            parts.append(f"{amount} {name.rpartition('/')[2]}")
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


def _waits(rows: Sequence[Group], names: Sequence[str]) -> Iterator[Arrow]:
    totals = replicas_by_role([role for group in rows for role in group.roles])
    for group, name in zip(rows, names, strict=True):
        for wait in group.role.waits:
            for other, target in zip(rows, names, strict=True):
                if other.role.name == wait.role and other is not group and _meets(other, wait):
                    yield Arrow(name, target, _wait_label(wait, totals[wait.role]), "waits")


def _wait_label(wait: Wait, total: int) -> str:
    """Return what is waited for, without the name of the role."""
    first, count = wait.hosts.first, wait.hosts.count
    which = "" if count == total else f" of {span(first, first + count - 1)}"
    if wait.started:
        return "waits for its start"
    return f"waits for port {wait.port}{which}" if wait.port else f"waits for the name{which}"


def _orders(rows: Sequence[Group], names: Sequence[str]) -> Iterator[Arrow]:
    for group, name in zip(rows, names, strict=True):
        for order in group.role.orders:
            for other, target in zip(rows, names, strict=True):
                if other.role.name == order.role:
                    yield Arrow(name, target, f"starts when {order.until.lower()}", "starts")


def _commands(rendered: Rendered, rows: Sequence[Group], names: Sequence[str]) -> Iterator[Arrow]:
    """Yield an arrow to each role in whose pods another role may run commands."""
    job = rendered.topology.job.name
    for group, name in zip(rows, names, strict=True):
        rights = [right for right in group.role.rights if right.resource == "pods/exec"]
        pods = {pod for right in rights for pod in right.names}
        for other, target in zip(rows, names, strict=True):
            first = f"{job}-{other.role.name}-{other.role.index or 0}"
            if other is not group and first in pods:
                yield Arrow(name, target, "kubectl exec", "uses")


def _merged(arrows: Iterable[Arrow]) -> Iterator[Arrow]:
    """Yield one arrow for each pair of boxes; its label has all labels, each once."""
    pairs: dict[tuple[str, str], list[Arrow]] = {}
    for arrow in arrows:
        pairs.setdefault((arrow.source, arrow.target), []).append(arrow)
    for (source, target), alike in pairs.items():
        labels = dict.fromkeys(arrow.label for arrow in alike if arrow.label)
        kind = "starts" if any(arrow.kind == "starts" for arrow in alike) else alike[0].kind
        yield Arrow(source, target, ", ".join(labels), kind)


def _store_box(number: int, store: Store) -> Box:
    paths = [", ".join(store.paths)] if store.paths else []
    return Box(f"storage_{number}", "storage", store.name, "", (store.kind, *paths))


def _tensorboard(rendered: Rendered) -> Iterator[Box]:
    if rendered.topology.job.tensorboard:
        name = f"{rendered.topology.job.name}-tensorboard"
        objects = tuple(i for i in rendered.objects if i["metadata"]["name"] == name)
        port = rendered.topology.job.tensorboard.port
        lines = ("Deployment and Service", f"port {port}")
        yield Box("tensorboard", "service", "TensorBoard", "", lines, objects=objects)


def _supervisor(rendered: Rendered) -> Box:
    name = supervisor.own_name(rendered.topology.job)
    objects = [item for item in rendered.objects if item["metadata"]["name"] == name]
    badge = "decides" if rendered.topology.decides != "one" else ""
    lines = ("Job", *_supervision(rendered.topology))
    return Box(
        "supervisor", "supervisor", "supervisor", "", lines, badge=badge, objects=tuple(objects)
    )


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
