"""Waits of the job file (`waitFor`), and the rule that roles do not wait for each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from mlgen.frameworks._launch.ports import rendezvous_port
from mlgen.jobfile.model import WaitFor
from mlgen.problems import Problem, did_you_mean
from mlgen.topology import Role, Topology, Wait

if TYPE_CHECKING:
    from mlgen.frameworks._planner import Planner


def with_waits(planner: "Planner", role: Role) -> Role:
    """Return a role with the waits of its waitFor, which needs the ports of all roles."""
    if role.spec.wait_for is None:
        return role
    waits = (wait for entry in role.spec.wait_for for wait in _waits(planner, role, entry))
    return replace(role, waits=tuple(waits))


def with_ready_names(roles: Sequence[Role]) -> list[Role]:
    """Return the roles with the names by which others wait for the start of a first replica."""
    ready = {wait.role: str(wait.hosts) for role in roles for wait in role.waits if wait.started}
    return [
        replace(role, ready={ready[role.name]: 0})
        if role.name in ready and role.index in (None, 0)
        else role
        for role in roles
    ]


def _waits(planner: "Planner", role: Role, entry: WaitFor) -> Iterator[Wait]:
    """Return the waits of one entry of waitFor; one for each role that it stands for."""
    path = ("roles", role.spec.name, "waitFor")
    peers = [peer for peer in planner.roles if entry.role in (peer.name, peer.spec.name)]
    if not peers:
        names = sorted({peer.name for peer in planner.roles})
        hint = did_you_mean(entry.role, names) or f"the roles are {', '.join(names)}"
        planner.problem(path, f'the job has no role "{entry.role}"', hint)
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

    A wait for a name ends as soon as the pod has an address, so it blocks nobody. A role may also
    wait for the port of its own first replica, which itself waits only for its own name.
    """
    graph: dict[str, set[str]] = {}
    for role in topology.roles:
        awaited = {wait.role for wait in role.waits if wait.port is not None}
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
