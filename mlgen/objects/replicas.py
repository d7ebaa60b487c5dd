"""Roles → their Jobs and StatefulSets; thousands of Jobs of single replicas are copies of one.

Such Jobs differ in a few values: index, name, some variables, ports on the node. Two of them are
built; the others differ where these do. What is equal is the same dict or list in all of them, so
it is checked and written once. Nothing may change it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any

from mlgen.objects.labels import workload_name
from mlgen.objects.workload import workload
from mlgen.problems import ValuePath
from mlgen.topology import INDEX, INDEX_NAME, Role, Topology

FEW = 3
"""The Jobs of so few replicas are built one by one."""

VARYING = ("index", "env", "host_ports")
"""The fields in which replicas of one role may differ."""

Source = tuple[str, str]
"""What a value is: a variable or port and its name, or one of these two."""

NAME: Source = ("role", "name")
OWN_INDEX: Source = ("role", "index")

_same_fields = attrgetter(*(f.name for f in fields(Role) if f.name not in VARYING))


def workloads(topology: Topology) -> Iterator[tuple[Role, dict[str, Any]]]:
    """Yield each role with its Job or StatefulSet.

    Raises:
        MlgenError: see `pod_template`.
    """
    for _, group in groupby(topology.roles, attrgetter("name")):
        roles = list(group)
        model = _Model(topology, *roles[-2:]) if len(roles) > FEW else None
        for role in roles:
            yield role, (model.copied(role) if model else None) or workload(topology, role)


class _Model:
    """The Job of one replica, which is copied for others.

    Attributes:
        topology: of the job.
        role: the replica.
        manifest: its Job.
        slots: see `_slots`.
    """

    def __init__(self, topology: Topology, role: Role, other: Role) -> None:
        self.topology, self.role = topology, role
        self.manifest = workload(topology, role)
        pairs = list(_differences(self.manifest, workload(topology, other), ()))
        values = _values(topology, role), _values(topology, other)
        self.slots = _slots(self.manifest, pairs, *values)
        self.env = {name: value for name, value in role.env.items() if value == other.env.get(name)}

    def copied(self, role: Role) -> dict[str, Any] | None:
        """Return the Job of another replica; None if they differ in more than values."""
        mine = self.role
        if self.slots is None or _same_fields(role) != _same_fields(mine):
            return None
        if list(role.env) != list(mine.env) or list(role.host_ports) != list(mine.host_ports):
            return None
        if any(role.env[name] != value for name, value in self.env.items()):
            return None
        manifest: dict[str, Any] = _filled(self.manifest, self.slots, _values(self.topology, role))
        return manifest


def _values(topology: Topology, role: Role) -> dict[Source, Any]:
    """Return the values in which a replica may differ from others."""
    values: dict[Source, Any] = {("env", name): value for name, value in role.env.items()}
    values |= {("port", name): port for name, port in role.host_ports.items()}
    values[NAME] = workload_name(topology.job, role)
    values[OWN_INDEX] = str(role.index)
    return values


def _differences(first: Any, second: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the path of each value in which two objects differ, and both values."""
    if first == second:
        return
    if isinstance(first, dict) and isinstance(second, dict) and list(first) == list(second):
        for key in first:
            yield from _differences(first[key], second[key], (*path, key))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from _differences(*pair, (*path, number))
    else:
        yield path, first, second


def _slots(
    manifest: Any,
    pairs: Iterable[tuple[ValuePath, Any, Any]],
    values: Mapping[Source, Any],
    others: Mapping[Source, Any],
) -> dict[Any, Any] | None:
    """Return the source of each value that differs, in mappings like the object itself.

    Args:
        manifest: the Job of a replica.
        pairs: its values that differ from those of another replica, with these.
        values: of the replica.
        others: those of the other one.

    Returns:
        None if the source of a value is unknown.
    """
    slots: dict[Any, Any] = {}
    for path, first, second in pairs:
        holder, inner = manifest, slots
        for step in path[:-1]:
            holder, inner = holder[step], inner.setdefault(step, {})
        if path[-3:-2] == ("env",):
            name = holder["name"]
            candidates = [OWN_INDEX if name == INDEX_NAME else ("env", name)]
        else:
            candidates = [source for source in values if source[0] != "env"]
        sources = (s for s in candidates if values.get(s) == first and others.get(s) == second)
        inner[path[-1]] = next(sources, None)
        # The order of variables depends on those that they refer to.
        if inner[path[-1]] is None or "$(" in str(first).replace(INDEX, ""):
            return None
    return slots


def _filled(node: Any, slots: Mapping[Any, Any], values: Mapping[Source, Any]) -> Any:
    """Return a copy of an object with other values; what has no slots is not copied."""
    copy = node.copy()
    for key, slot in slots.items():
        is_source = type(slot) is tuple
        copy[key] = values[slot] if is_source else _filled(node[key], slot, values)
    return copy
