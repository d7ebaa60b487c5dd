"""A rendered job → groups of equal replicas: a row of a table, or a box of a picture."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from mlgen.checks.pods import workloads
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import GPU
from mlgen.objects.labels import workload_name
from mlgen.output.terminal import columns
from mlgen.result import Rendered
from mlgen.topology import INDEX, Role, Topology

REFERENCES = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
}
"""The fields of a variable's source that refer to an object → the object's kind."""

VOLUMES = {
    "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
    "secret": ("Secret", "secretName"),
    "configMap": ("ConfigMap", "name"),
    "hostPath": ("host path", "path"),
    "csi": ("CSI driver", "driver"),
}
"""Volume sources → their kind in words, and the field with their name."""


RANK_VARIABLES = ("RANK", "PADDLE_RANK", "JAX_PROCESS_ID")
"""The variables in which frameworks pass a rank that is fixed before the replica starts."""


@dataclass(frozen=True)
class Replica:
    """A replica of a role as rendered: of `rank` if roles were merged."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role.name}-{self.index}"

    @property
    def rank(self) -> int | None:
        """Its rank; None if the rank is not known before the replica starts."""
        env = self.role.env
        texts = [str(env[name]) for name in RANK_VARIABLES if name in env]
        rank = texts[0].replace(INDEX, str(self.index)) if texts else ""
        return int(rank) if rank.isdecimal() else None


def replicas_of(topology: Topology) -> dict[str, dict[int, Replica]]:
    """Return the replicas of each role by index, also of the roles that were merged into one."""
    found: dict[str, dict[int, Replica]] = {}
    for role in topology.roles:
        own = found.setdefault(role.name, {})
        own |= {index: Replica(role, index) for index in role.indexes}
    for name, roles in topology.by_name.items():
        left = iter(found[name].values())
        for part in roles[0].merged:  # worker 1 is rank 2 after two masters
            own = dict(enumerate(islice(left, topology.job.roles[part].replicas)))
            found.setdefault(part, own)
    return found


class Group(NamedTuple):
    """Replicas of a role that differ only in their index.

    Attributes:
        roles: roles of the topology; several if each replica has its own Job.
        workloads: their Jobs or StatefulSets.
        whole: True if the group contains all replicas of the role.
    """

    roles: tuple[Role, ...]
    workloads: tuple[Object, ...]
    whole: bool

    @property
    def role(self) -> Role:
        """The first of the roles, which represents all."""
        return self.roles[0]

    @property
    def pod(self) -> Object:
        """The pod spec of the first of the workloads."""
        pod: Object = self.workloads[0]["spec"]["template"]["spec"]
        return pod

    @property
    def main(self) -> Object:
        """The training container."""
        name = self.role.spec.main_container
        container: Object = next(c for c in self.pod["containers"] if c["name"] == name)
        return container

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        return sum(role.replicas for role in self.roles)

    @property
    def indexes(self) -> str:
        """The indexes of the replicas: `0`, `0…3`."""
        return spans([index for role in self.roles for index in role.indexes])

    @property
    def name(self) -> str:
        """The name of the role, with the indexes if the group lacks some of its replicas."""
        return self.role.name if self.whole else f"{self.role.name} {self.indexes}"

    @property
    def kind(self) -> str:
        """The kind of the workloads, in the plural if there are several."""
        return f"{self.workloads[0]['kind']}{'' if len(self.workloads) == 1 else 's'}"


def groups(rendered: Rendered) -> list[Group]:
    """Return the roles of a job in order, with equal replicas in one group."""
    topology = rendered.topology
    by_name = workloads(rendered.objects)
    alike: dict[object, list[Role]] = {}
    for role in topology.roles:
        waits = tuple((wait.role, wait.port, wait.started) for wait in role.waits)
        key = (role.name, role.serves, role.decides, role.gang, waits, role.orders)
        alike.setdefault(key, []).append(role)
    counts = Counter(roles[0].name for roles in alike.values())
    return [
        Group(
            tuple(roles),
            tuple(by_name[workload_name(topology.job, role)] for role in roles),
            counts[roles[0].name] == 1,
        )
        for roles in alike.values()
    ]


def spans(numbers: Sequence[int], between: str = "…") -> str:
    """Return numbers in ascending order with their ranges folded: `0, 2…5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}{between}{p[-1]}" for p in parts)


def ranked(resources: Iterable[str]) -> list[str]:
    """Return resources in display order: GPUs, CPU, memory, then others by name."""
    first = {"cpu": 1, "memory": 2}
    return sorted(resources, key=lambda n: (0 if n.endswith(GPU) else first.get(n, 3), n))


def table_text(rows: Iterable[Sequence[str]], margin: str = "") -> str:
    """Return rows as columns. False values, which templates use for omitted rows, are skipped."""
    return "\n".join(columns(list(filter(None, rows)), margin))


def referred(source: Object) -> Iterator[tuple[str, Object]]:
    """Yield the kind of each object that a variable's source refers to, and the reference."""
    for field, reference in source.items():
        if field in REFERENCES:
            yield REFERENCES[field], reference


def stored(volume: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind and name of a volume's storage, such as `Secret`; "" for other volumes."""
    for field, (kind, key) in VOLUMES.items():
        if field in volume:
            return kind, str(volume[field].get(key, ""))
    nfs = volume.get("nfs")
    return ("NFS", f"{nfs.get('server')}:{nfs.get('path')}") if nfs else ("", "")
