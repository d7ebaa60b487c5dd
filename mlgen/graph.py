"""A rendered job → a picture: roles, their waits, addresses, the supervisor, storage.

The boxes and arrows are equal for all formats. Equal replicas are one box, so a picture has as many
boxes for 300 replicas as for 3. If a role waits for its own replicas, its box contains a line about
it. Formats: Mermaid, a graph in Graphviz's language (https://graphviz.org/doc/info/lang.html), and
an SVG that Graphviz's program `dot` draws.
"""

import json
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple

from mlgen.kubernetes import quantity
from mlgen.kubernetes.quantity import GPU
from mlgen.objects.labels import JOB, config_name
from mlgen.output.manifests import required, span
from mlgen.output.terminal import safe, template_text
from mlgen.result import Rendered
from mlgen.show.groups import Group, groups, ranked, referred, stored
from mlgen.topology import Topology, Wait

Format = Literal["mermaid", "dot", "svg"]

SUFFIXES: dict[str, Format] = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}
"""The suffixes of file names → the format of such a file."""

ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "%": "#37;", "`": "#96;"}
)
"""Characters that Mermaid interprets, even in quotes → entities.

They start entities, tags, `%%{directives}%%` and Markdown:
https://mermaid.js.org/syntax/flowchart.html
"""


def drawing(rendered: Rendered, form: Format) -> str:
    """Return the picture of a job as text in a format.

    Raises:
        GraphvizError: the format needs Graphviz, which is not installed or fails.
    """
    drawn = picture(rendered)
    if form == "mermaid":
        title = safe(drawn.title)
        return template_text("graph/mermaid.txt", picture=drawn, title=title, text=_mermaid_text)
    return dot(drawn) if form == "dot" else svg(drawn)


def _mermaid_text(lines: Iterable[str], between: str = "") -> str:
    """Return lines of a box, with entities for the characters that Mermaid interprets."""
    return between.join(safe(line).translate(ENTITIES) for line in lines)


Shape = Literal["Job", "StatefulSet", "supervisor", "service", "storage"]

ArrowKind = Literal["waits", "starts", "uses"]


MANY = 4
"""The maximum number of boxes for storage of one kind. If there is more, it is one box."""

PATHS = 2
"""The maximum number of mount paths in a box."""

DRAWN = ("PersistentVolumeClaim", "Secret", "ConfigMap", "NFS")
"""The kinds of storage that have boxes."""


class Box(NamedTuple):
    """A box.

    Attributes:
        name: a unique name in the picture: letters, digits and underscores.
        shape: the shape of the box.
        texts: its lines; the first contains the name of the role or object.
        decides: True if it determines the job's outcome.
    """

    name: str
    shape: Shape
    texts: tuple[str, ...]
    decides: bool = False


class Arrow(NamedTuple):
    """An arrow from a box to another box on which it depends.

    Attributes:
        source: the name of the box that depends on the other.
        target: the name of the other box.
        label: the reasons.
        kind: `waits`: the pods wait; `starts`: the role gets its pods afterwards; `uses`: storage,
            or commands that run in the other pods.
    """

    source: str
    target: str
    label: str
    kind: ArrowKind


class Picture(NamedTuple):
    """The picture of a job.

    Attributes:
        title: the title.
        frame: the headless Service, around all roles.
        roles: the boxes in the frame.
        others: the boxes below the frame: storage and TensorBoard.
        shared: the names of boxes with storage that all roles use, which have no arrows.
        supervisor: the box next to the frame; None if there is none.
        arrows: the arrows.
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
        """All boxes except the frame."""
        supervisor = () if self.supervisor is None else (self.supervisor,)
        return (*self.roles, *self.others, *supervisor)


def picture(rendered: Rendered) -> Picture:
    """Return the picture of a job."""
    topology, rows = rendered.topology, groups(rendered)
    supervisor = tensorboard = None
    if topology.supervised:
        texts = _texts("supervisor", topology=topology)
        supervisor = Box("supervisor", "supervisor", texts, topology.decides != "one")
    if topology.job.tensorboard:
        texts = ("TensorBoard", "Deployment and Service", f"port {topology.job.tensorboard.port}")
        tensorboard = Box("tensorboard", "service", texts)
    stores = list(_stores(rows))
    shared = [box.name for box, users in stores if len(users) == len(rows) > 1]
    uses = (
        Arrow(_name(rows[user]), box.name, "", "uses")
        for box, users in stores
        for user in users
        if box.name not in shared
    )
    return Picture(
        f"{topology.job.name}: {topology.job.framework}",
        Box("service", "service", _texts("service", topology=topology)),
        tuple(map(_role_box, rows)),
        (*(box for box, _ in stores), *([tensorboard] if tensorboard else [])),
        tuple(shared),
        supervisor,
        (*_arrows(topology, rows), *uses),
    )


def _name(group: Group) -> str:
    """Return the name of a group's box."""
    return "role_" + re.sub(r"[^a-z0-9]+", "_", group.name.lower()).strip("_")


def _texts(shape: Shape, **values: Any) -> tuple[str, ...]:
    """Return the lines of a box."""
    return tuple(template_text("graph/box.txt", shape=shape, **values).splitlines())


def _role_box(group: Group) -> Box:
    role = group.role
    texts = _texts(
        role.kind,
        group=group,
        required=required(role),
        resources=_resources(group),
        waits=dict.fromkeys(text for wait in role.waits for text in _own_wait(group, wait)),
        creates_pods=any("create" in r.verbs and r.resource == "pods" for r in role.rights),
    )
    return Box(_name(group), role.kind, texts, role.decides)


def _resources(group: Group) -> list[str]:
    """Return the requests of a replica: `8 GPUs`, `32 CPU`, `256Gi`."""
    requests = quantity.lasting(group.pod, "requests")
    parts = []
    for name in ranked(requests):
        unit = "CPU" if name == "cpu" else name.rpartition("/")[2]
        if name.endswith(GPU):
            unit = "GPU" if requests[name] == "1" else "GPUs"
        parts.append(requests[name] if name == "memory" else f"{requests[name]} {unit}")
    return parts


def _own_wait(group: Group, wait: Wait) -> Iterator[str]:
    """Yield a group's wait for its own replicas as text, unless it waits only for its own name."""
    if wait.role != group.role.name or group.replicas == 1 or not _meets(group, wait):
        return
    first, last = wait.hosts.first, wait.hosts.first + wait.hosts.count - 1
    hosts = f"{wait.role}-{span(first, last)}"
    if wait.started:
        yield f"waits for {hosts} to start"
    elif wait.port:
        yield f"waits for port {wait.port} of {hosts}"
    else:
        yield f"waits for the DNS name{'s' if last > first else ''} of {hosts}"


def _meets(group: Group, wait: Wait) -> bool:
    """Return True if a wait is for replicas of a group."""
    awaited = range(wait.hosts.first, wait.hosts.first + wait.hosts.count)
    return any(index in awaited for role in group.roles for index in role.indexes)


def _arrows(topology: Topology, rows: Sequence[Group]) -> Iterator[Arrow]:
    """Yield an arrow from each group to each other group on which it depends."""
    totals = topology.counts
    for group in rows:
        commanded = [right for right in group.role.rights if right.resource == "pods/exec"]
        pods = {pod for right in commanded for pod in right.names}
        waits: dict[str, list[Wait]] = {}
        for wait in group.role.waits:
            waits.setdefault(wait.role, []).append(wait)
        for other in rows:
            if other is group:
                continue
            name = other.role.name
            labels = [
                _wait_label(wait, totals[name])
                for wait in waits.get(name, ())
                if _meets(other, wait)
            ]
            kind: ArrowKind = "waits" if labels else "uses"
            for order in group.role.orders:
                if order.role == name:
                    labels.append(f"starts when {order.until.lower()}")
                    kind = "starts"
            if f"{topology.job.name}-{name}-{other.role.index or 0}" in pods:
                labels.append("kubectl exec")
            if labels:
                yield Arrow(_name(group), _name(other), ", ".join(dict.fromkeys(labels)), kind)


def _wait_label(wait: Wait, total: int) -> str:
    """Return the label of a wait, without the name of the role."""
    first, count = wait.hosts.first, wait.hosts.count
    which = "" if count == total else f" of {span(first, first + count - 1)}"
    if wait.started:
        return "waits for it to start"
    return f"waits for port {wait.port}{which}" if wait.port else f"waits for its DNS name{which}"


def _stores(rows: Sequence[Group]) -> Iterator[tuple[Box, Collection[int]]]:
    """Yield the storage of the roles' pods, with the indexes of the groups that use it.

    mlgen's own files are omitted.
    """
    kinds: dict[str, dict[str, tuple[dict[int, None], dict[str, None]]]] = {}
    for number, group in enumerate(rows):
        for kind, name, path in _used(group):
            users, paths = kinds.setdefault(kind, {}).setdefault(name, ({}, {}))
            users[number] = None
            if path:
                paths[path] = None
    boxes = count()
    for kind, stores in kinds.items():
        if len(stores) > MANY:
            all_users = sorted({user for users, _ in stores.values() for user in users})
            texts: tuple[str, ...] = (f"{len(stores)} {kind}s", kind)
            yield Box(f"storage_{next(boxes)}", "storage", texts), all_users
            continue
        for name, (users, paths) in stores.items():
            shown = [*paths][:PATHS]
            if len(paths) > PATHS:
                shown.append(f"and {len(paths) - PATHS} more")
            texts = (name, kind, *([", ".join(shown)] if shown else []))
            yield Box(f"storage_{next(boxes)}", "storage", texts), users


def _used(group: Group) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name and mount path of a pod's storage; the path is "" for variables."""
    mounts = {mount["name"]: mount["mountPath"] for mount in group.main.get("volumeMounts") or ()}
    own = ("ConfigMap", config_name(group.workloads[0]["metadata"]["labels"][JOB]))
    for volume in group.pod.get("volumes") or ():
        path = mounts.get(volume["name"])
        kind, name = stored(volume)
        if name and path and kind in DRAWN and (kind, name) != own:
            yield kind, name, path
    variables = [item.get("valueFrom") or {} for item in group.main.get("env") or ()]
    for source in (*variables, *(group.main.get("envFrom") or ())):
        for kind, reference in referred(source):
            yield kind, str(reference.get("name", "")), ""


LONGEST = 200_000
"""The maximum length of a graph in characters, about a thousand boxes. The time of `dot` grows with
the square of the length."""

SECONDS = 30.0
"""The time limit for `dot`, in seconds."""

INSTALL = "install Graphviz: apt-get install graphviz, or brew install graphviz"

ELSE = "use --format mermaid or dot"


class GraphvizError(Exception):
    """Graphviz cannot draw a picture; the message contains the reason and the fix."""


def dot(picture: Picture) -> str:
    """Return the graph of a picture."""
    return template_text("graph/dot.txt", picture=picture, quoted=_quoted)


def svg(picture: Picture) -> str:
    """Return a picture as SVG, drawn by the installed version of Graphviz.

    Raises:
        GraphvizError: `dot` is not installed, fails, or takes too long.
    """
    graph = dot(picture)
    if len(graph) > LONGEST:
        raise GraphvizError(f"the graph is too large to draw; {ELSE}")
    try:
        process = subprocess.run(
            ["dot", "-Tsvg"],  # noqa: S607 - dot from the user's PATH
            input=graph.encode(),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except OSError as error:
        raise GraphvizError(f"dot cannot be run: {error.strerror}; {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise GraphvizError(f"dot did not finish within {SECONDS:.0f} seconds; {ELSE}") from None
    if process.returncode:
        reason = safe(process.stderr.decode(errors="replace").strip())
        raise GraphvizError(f"dot failed: {reason or f'status {process.returncode}'}; {ELSE}")
    return process.stdout.decode()


def _quoted(*lines: str) -> str:
    r"""Return lines as a quoted string of Graphviz.

    Its escapes for `"`, `\` and line breaks are the same as in JSON. Graphviz expands HTML
    entities in it, but never reads a quoted string as an HTML-like label.
    """
    text = "\n".join(map(safe, lines)).replace("&", "&amp;")
    return json.dumps(text, ensure_ascii=False)
