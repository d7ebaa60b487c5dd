"""One replica of a rendered job → a page: the address, ports, command and environment of its pod.

All of it is read from the rendered objects, as Kubernetes does.
"""

import shlex
from collections.abc import Iterator, Sequence

from mlgen.checks.pods import Pods, pods_of, workloads
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural
from mlgen.objects.labels import workload_name
from mlgen.output.columns import columns, named
from mlgen.result import Rendered
from mlgen.show.environment import Running, Variable, environment, with_job_index, words
from mlgen.show.groups import groups, span
from mlgen.show.volumes import mounts
from mlgen.topology import Role

RANDOM = "<random>"
"""The end of the name of a Job's pod, which its controller chooses."""


def replica_page(jobs: Sequence[Rendered], name: str) -> str:
    """Return the page of the replica of this name, in the only job.

    Args:
        jobs: that were rendered.
        name: `worker-3` or `worker/3`, or `chief` if it is the only replica of its role; the name
            of the job may stand before it.

    Raises:
        ValueError: there are several jobs, or none, or no such replica.
    """
    if len(jobs) != 1:
        count = len(jobs) or "no"
        raise ValueError(f"--replica needs a single job, but FILES have {count}")
    (rendered,) = jobs
    found = _find(rendered, name) or _find(rendered, name.removeprefix(f"{rendered.job.name}-"))
    if not found:
        listed = ", ".join(_listed(rendered))
        raise ValueError(f'{rendered.job.name} has no replica "{name}"; write one of {listed}')
    return "\n".join(_lines(rendered, *found)) + "\n"


def _find(rendered: Rendered, name: str) -> tuple[Role, int] | None:
    """Return the role of the topology that has a replica, and the index of the replica."""
    for role, index in _candidates(rendered, name):
        for item in rendered.topology.roles:
            if item.name == role and index in _indexes(item):
                return item, index
    return None


def _candidates(rendered: Rendered, name: str) -> Iterator[tuple[str, int]]:
    """Yield each role and index that a name may stand for."""
    roles = rendered.topology.roles
    counts = {role.name: 0 for role in roles}
    for role in roles:
        counts[role.name] += role.replicas
    before, _, index = name.replace("/", "-").rpartition("-")
    pairs = [(name, 0)] if rendered.job.roles.get(name) or counts.get(name) == 1 else []
    if (number := natural(index)) is not None:
        pairs.append((before, number))
    for role_name, number in pairs:
        only = role_name == name
        if not only or counts.get(role_name) == 1:
            yield role_name, number
        yield from _merged(rendered, role_name, number, only=only)


def _merged(rendered: Rendered, name: str, index: int, *, only: bool) -> Iterator[tuple[str, int]]:
    """Yield the rank of a replica of a role that was merged with others: worker 1 is rank 2."""
    for role in rendered.topology.roles:
        counts = {part: rendered.job.roles[part].replicas for part in role.merged}
        if name in counts and index < counts[name] and (not only or counts[name] == 1):
            first = sum(counts[part] for part in role.merged[: role.merged.index(name)])
            yield role.name, first + index


def _indexes(role: Role) -> range:
    return range(role.replicas) if role.index is None else range(role.index, role.index + 1)


def _listed(rendered: Rendered) -> Iterator[str]:
    """Yield the names of all replicas, folded: `chief`, `worker-0…3`."""
    by_role: dict[str, list[int]] = {}
    for group in groups(rendered):
        for role in group.roles:
            by_role.setdefault(role.name, []).extend(_indexes(role))
    for name, indexes in by_role.items():
        yield name if len(indexes) == 1 else f"{name}-{span(min(indexes), max(indexes))}"


def _lines(rendered: Rendered, role: Role, index: int) -> Iterator[str]:
    """Yield the lines of the page."""
    workload = workloads(rendered.objects)[workload_name(rendered.topology.job, role)]
    pods = pods_of(workload)
    host = f"{pods.name}-{index}" if pods.indexed else pods.name
    template = pods.template
    labels = dict(template["metadata"].get("labels") or {})
    if pods.indexed:
        labels[SET_INDEX if role.serves else JOB_INDEX] = str(index)
    config_maps = (item for item in rendered.objects if item["kind"] == "ConfigMap")
    running = Running(
        host if role.serves else f"{host}-{RANDOM}",
        workload["metadata"].get("namespace"),
        labels,
        template["metadata"].get("annotations") or {},
        pods.account or "default",
        {item["metadata"]["name"]: item.get("data", {}) for item in config_maps},
    )
    spec = template["spec"]
    main = next(c for c in spec["containers"] if c["name"] == role.spec.main_container)
    yield from columns(list(_facts(rendered, pods, running, host, main)))
    others = [container for container in spec["containers"] if container is not main]
    titled = [("Init container", item) for item in spec.get("initContainers") or ()]
    titled += [("Training container", main), *(("Container", item) for item in others)]
    adds_index = pods.indexed and workload["kind"] == "Job"
    for title, container in titled:
        yield from ("", f"{title} {container['name']}:")
        whole = with_job_index(container) if adds_index else container
        yield from _container(spec, whole, running)


def _facts(
    rendered: Rendered, pods: Pods, running: Running, host: str, main: Object
) -> Iterator[tuple[str, str]]:
    """Yield the names and values at the top of the page."""
    spec = pods.template["spec"]
    services = list(_services(rendered, running))
    yield "Pod:", f"{running.name}, of {pods.item['kind']} {pods.item['metadata']['name']}"
    yield "Namespace:", running.namespace or "that of kubectl's context"
    own = [service for service in services if service["metadata"]["name"] == pods.subdomain[1]]
    addresses = [f"{host}.{service['metadata']['name']}" for service in own]
    addresses += [s["metadata"]["name"] for s in services if s not in own]
    yield "Addresses:", ", ".join(addresses) or "none"
    yield "Ports:", ", ".join(_ports(services, main)) or "none declared"
    if spec.get("hostNetwork"):
        yield "Network:", "that of the node"
    yield "Service account:", running.account
    yield "Restart policy:", spec.get("restartPolicy", "Always")
    for title, field in (("Scheduler:", "schedulerName"), ("Priority:", "priorityClassName")):
        if spec.get(field):
            yield title, spec[field]
    if spec.get("nodeSelector"):
        yield "Node has:", ", ".join(f"{k}={v}" for k, v in spec["nodeSelector"].items())
    placement = [field for field in ("affinity", "topologySpreadConstraints") if spec.get(field)]
    if placement:
        yield "Placement:", f"{named(placement)}: see mlgen render"
    tolerations = [str(item.get("key", "everything")) for item in spec.get("tolerations") or ()]
    if tolerations:
        yield "Tolerates:", ", ".join(tolerations)


def _services(rendered: Rendered, running: Running) -> Iterator[Object]:
    """Yield the Services that select the pod."""
    for item in rendered.objects:
        if item["kind"] == "Service":
            selector = item["spec"].get("selector") or {}
            if selector and selector.items() <= running.labels.items():
                yield item


def _ports(services: Sequence[Object], main: Object) -> Iterator[str]:
    """Yield the ports of the training container, and those by which Services lead to them."""
    for port in main.get("ports") or ():
        number = port["containerPort"]
        by = [
            f"reached by {item['port']} of Service {service['metadata']['name']}"
            for service in services
            for item in service["spec"].get("ports") or ()
            if item.get("targetPort", item["port"]) == number and item["port"] != number
        ]
        details = [*(["on the node"] if port.get("hostPort") else []), *by]
        name = f"{port.get('name', '')} {number}".strip()
        yield f"{name} ({', '.join(details)})" if details else name


def _container(spec: Object, container: Object, running: Running) -> Iterator[str]:
    """Yield the lines of one container."""
    variables = environment(container, running)
    rows = [("Image:", container.get("image", ""))]
    waits = next((v.value for v in variables if v.name == "MLGEN_PEERS"), "")
    if waits:
        rows.append(("Waits for:", ", ".join(map(_awaited, waits.split()))))
    for title, field in (("Command:", "command"), ("Arguments:", "args")):
        if container.get(field):
            rows.append((title, shlex.join(words(container[field], variables))))
    if not container.get("command"):
        rows.append(("Command:", "the entrypoint of the image"))
    if container.get("workingDir"):
        rows.append(("Working directory:", container["workingDir"]))
    for kind in ("requests", "limits"):
        amounts = (container.get("resources") or {}).get(kind)
        if amounts:
            text = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
            rows.append((f"{kind.capitalize()}:", text))
    yield from columns(rows, "  ")
    if variables:
        yield "  Environment:"
        yield from (f"    {_variable(variable)}" for variable in variables)
    mounted = mounts(spec, container)
    if mounted:
        yield "  Mounts:"
        yield from columns(mounted, "    ")


def _awaited(peer: str) -> str:
    """Return what is waited for at a peer: its port, or its name."""
    return f"port {peer.rpartition(':')[2]} of {peer.rpartition(':')[0]}" if ":" in peer else peer


def _variable(variable: Variable) -> str:
    source = f"   # {variable.source}" if variable.source else ""
    value = variable.value
    shown = value if value.isprintable() else repr(value)
    return f"{variable.name}={shown}{source}"
