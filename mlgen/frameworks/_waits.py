"""The rule that roles do not wait for each other in a cycle."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from mlgen.problems import Problem
from mlgen.topology import Topology


def cycles(topology: Topology) -> Iterator[Problem]:
    """Report roles that wait for each other's ports, as none of them would ever start.

    A wait for a name ends as soon as the pod has an address, so it blocks nobody. A role may also
    wait for the port of its own first replica, which itself waits only for its own name.
    """
    graph: dict[str, set[str]] = {}
    for role in topology.roles:
        awaited = {wait.role for wait in role.waits if wait.port is not None}
        if role.name in awaited and all(wait.hosts.count == 1 for wait in role.waits):
            awaited.discard(role.name)
        graph.setdefault(role.name, set()).update(awaited)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        path = ("spec", "roles", cycle[0], "waitFor")
        message = f"these roles wait for each other's ports: {' → '.join(cycle)}"
        hint = "break the cycle with until: name, or with waitFor: []"
        yield Problem(path, message, "wait-cycle", hint)
