"""Waits of the job file (`waitFor`), and the rule that roles do not wait for each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from mlgen.frameworks._launch.ports import rendezvous_port
from mlgen.jobfile.model import WaitFor
from mlgen.problems import Problem, did_you_mean
from mlgen.topology import Order, Role, Topology, Wait

if TYPE_CHECKING:
    from mlgen.frameworks._planner import Planner

STATES = ("Complete", "Ready")
"""What an order waits for; waits in the pods are for names and ports."""


def with_waits(planner: "Planner") -> list[Role]:
    """Return the roles with the waits and orders of their waitFor, which needs the ports of all.

    An order comes in addition to the waits of the framework, which an empty list removes.
    """
    of_specs: dict[str, tuple[tuple[Wait, ...], tuple[Order, ...]]] = {}
    roles = []
    for role in planner.roles:
        entries = role.spec.wait_for
        if entries is None:
            roles.append(role)
            continue
        name = role.spec.name
        if name not in of_specs:  # the same for each of its replicas
            of_specs[name] = _of_entries(planner, role, entries)
        more, orders = of_specs[name]
        is_added = bool(entries) and all(entry.until in STATES for entry in entries)
        waits = (*role.waits, *more) if is_added else more
        roles.append(replace(role, waits=waits, orders=orders))
    return roles


def _of_entries(
    planner: "Planner", role: Role, entries: Sequence[WaitFor]
) -> tuple[tuple[Wait, ...], tuple[Order, ...]]:
    """Return the waits and orders of the entries of a role's waitFor."""
    orders = [entry for entry in entries if entry.until in STATES]
    in_pods = [entry for entry in entries if entry.until not in STATES]
    if not planner.job.watched:
        in_pods += [replace(entry, until="name") for entry in orders if entry.until == "Ready"]
        orders = [entry for entry in orders if entry.until == "Complete"]
    waits = (wait for entry in in_pods for wait in _waits(planner, role, entry))
    found = (order for entry in orders for order in _orders(planner, role, entry))
    return tuple(waits), tuple(found)


def with_ready_names(roles: Sequence[Role]) -> list[Role]:
    """Return the roles with the names by which others wait for the start of a first replica."""
    ready = {wait.role: str(wait.hosts) for role in roles for wait in role.waits if wait.started}
    return [
        replace(role, ready={ready[role.name]: 0})
        if role.name in ready and role.index in (None, 0)
        else role
        for role in roles
    ]


def _orders(planner: "Planner", role: Role, entry: WaitFor) -> Iterator[Order]:
    """Return the orders of one entry of waitFor; one for each role that it stands for."""
    match entry.until:
        case "Complete" | "Ready" as until:
            for name in dict.fromkeys(peer.name for peer in _peers(planner, role, entry)):
                yield Order(name, until)


def _peers(planner: "Planner", role: Role, entry: WaitFor) -> list[Role]:
    """Return the roles that an entry of waitFor stands for; a problem if there are none."""
    peers = [peer for peer in planner.roles if entry.role in (peer.name, peer.spec.name)]
    if not peers:
        names = sorted({peer.name for peer in planner.roles})
        hint = did_you_mean(entry.role, names) or f"the roles are {', '.join(names)}"
        path = ("roles", role.spec.name, "waitFor")
        planner.problem(path, f'the job has no role "{entry.role}"', hint)
    return peers


def _waits(planner: "Planner", role: Role, entry: WaitFor) -> Iterator[Wait]:
    """Return the waits of one entry of waitFor; one for each role that it stands for."""
    path = ("roles", role.spec.name, "waitFor")
    peers = _peers(planner, role, entry)
    for name in dict.fromkeys(peer.name for peer in peers):
        same_role = [peer for peer in peers if peer.name == name]
        spec = replace(same_role[0].spec, name=name)
        port = _listening_port(planner, same_role[0]) if entry.until == "port" else None
        if entry.until == "port" and port is None:
            message = f"{name} has no port to wait for"
            planner.problem(path, message, f"set a port for {name}, or write until: name")
        count, first = sum(peer.replicas for peer in same_role), same_role[0].index or 0
        count = min(count, planner.minimums.get(name, count))
        yield Wait(name, planner.hosts(spec, count, first), port)


def _listening_port(planner: "Planner", role: Role) -> int | None:
    """Return the port on which a role listens: the one in its launcher's flags comes first."""
    flagged = None if planner.is_split(role.spec) else rendezvous_port(role.spec)
    return flagged or role.port


def cycles(topology: Topology) -> Iterator[Problem]:
    """Report roles that wait for each other to start or to listen, as none of them ever would.

    A wait for a name ends as soon as the pod has an address, so it blocks nobody, unless the role
    has no pods until another one is complete or ready. A role may also wait for the port of its own
    first replica, which itself waits only for its own name.
    """
    graph: dict[str, set[str]] = {}
    ordered = {role.name for role in topology.roles if role.orders}
    for role in topology.roles:
        awaited = {wait.role for wait in role.waits if wait.port is not None}
        awaited |= {wait.role for wait in role.waits if wait.role in ordered} - {role.name}
        awaited |= {order.role for order in role.orders}
        awaited |= {wait.role for wait in role.waits if wait.started} - {role.name}
        if role.name in awaited and all(wait.hosts.count == 1 for wait in role.waits):
            awaited.discard(role.name)
        graph.setdefault(role.name, set()).update(awaited)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        path = ("spec", "roles", cycle[0], "waitFor")
        message = f"these roles wait for each other to start: {' → '.join(cycle)}"
        hint = "break the cycle with until: name, or with waitFor: []"
        yield Problem(path, message, "wait-cycle", hint)
