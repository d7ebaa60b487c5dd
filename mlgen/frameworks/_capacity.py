"""Limits on a job's objects, bytes and node ports, enforced while its framework lays it out.

So a job that is too large is never built.
"""

import json

from mlgen.input_limits import JOB_BYTES, JOB_OBJECTS, JOB_PODS
from mlgen.jobfile.model import HostPorts, RoleSpec, TrainingJob
from mlgen.kubernetes.objects import ENV_SHORT, overlong
from mlgen.problems import MlgenError, Problem, ValuePath, error
from mlgen.topology import Role

ENTRY = len('{"name":, "value":}')
"""The number of characters that a variable has in a manifest beyond those in a job file."""

VOLUME = len('{"name":,"mountPath":}')
"""The least number of characters of a volume, and of its mount, in a manifest."""

REPEATED = {
    "env": "env",
    "args": "args",
    "command": "command",
    "volumes": "volumes",
    "init_containers": "initContainers",
    "tolerations": "tolerations",
    "env_from": "envFrom",
    "node_selector": "nodeSelector",
    "affinity": "affinity",
    "topology_spread_constraints": "topologySpreadConstraints",
    "templates": "template",
}
"""The fields that the workload of each role contains, by their names in a `RoleSpec`."""


def _too_large(path: ValuePath, message: str, hint: str) -> MlgenError:
    return MlgenError([error(path, message, hint, "too-large")])


def _repeated(job: TrainingJob, name: str) -> MlgenError:
    """Return the error of a field of `RoleSpec` that the roles repeat too often."""
    field, count = REPEATED[name], max(len(getattr(spec, name)) for spec in job.roles.values())
    init = max(len(spec.init_containers) for spec in job.roles.values())
    containers = f", also in up to {init:,} init containers," if init else ""
    message = (
        f"each of the {len(job.roles)} roles repeats {field}{containers} with up to {count:,}"
        f" entries; together, the workloads exceed {JOB_BYTES >> 20} MiB"
    )
    hint = f"use fewer roles or entries of {field}, or put long values into a volume"
    return _too_large(("roles",), message, hint)


class Size:
    """Counts the objects and bytes of a job's roles. Each method raises `MlgenError` if too large.

    Attributes:
        on_host: True if each replica has its own Job because of its ports on the node.
        objects: the number of Jobs, StatefulSets and Services so far.
        bytes: the number of characters in their variables.
    """

    def __init__(self, job: TrainingJob) -> None:
        self.objects = self.bytes = 0
        self.on_host = job.network.on_host
        pods = sum(spec.replicas for spec in job.roles.values())
        if pods > JOB_PODS:
            largest = max(job.roles.values(), key=lambda spec: spec.replicas)
            message = f"the job has {pods:,} replicas; a cluster runs at most {JOB_PODS:,} pods"
            raise _too_large(("roles", largest.name, "replicas"), message, "use fewer replicas")
        self._require_bytes(job)

    def _require_bytes(self, job: TrainingJob) -> None:
        """Check the least size of the workloads: what each role repeats of the job file.

        Init containers have the variables and mounts of the training container.
        """
        sizes: dict[int, int] = {}

        def size_of(value: object) -> int:
            if id(value) not in sizes:
                sizes[id(value)] = len(json.dumps(value, default=str))
            return sizes[id(value)]

        total = dict.fromkeys(REPEATED, 0)
        for spec in job.roles.values():
            containers = 1 + len(spec.init_containers)
            for name in REPEATED:
                value = getattr(spec, name)
                if name == "volumes":  # a ConfigMap contains the texts of files
                    size = len(value) * VOLUME * (containers + 1)
                elif name == "env":
                    size = (size_of(value) + len(value) * ENTRY) * containers
                else:
                    size = sum(map(size_of, value)) if name == "templates" else size_of(value)
                total[name] += size
            if sum(total.values()) > JOB_BYTES:
                raise _repeated(job, max(REPEATED, key=lambda name: total[name]))

    def require(self, spec: RoleSpec, objects: int) -> None:
        """Check that this number of additional objects is within the limit.

        Args:
            spec: the role that needs the objects, at least one for each replica.
            objects: the number of Jobs and Services.
        """
        if self.objects + objects > JOB_OBJECTS:
            own = "a Job and a Service" if self.on_host else "a Job"
            message = (
                f"each of the {spec.replicas:,} replicas needs its own objects, {own}; a job can"
                f" have at most {JOB_OBJECTS:,}"
            )
            raise _too_large(("roles", spec.name, "replicas"), message, self._fix(spec))

    def add(self, role: Role) -> None:
        """Count a role."""
        self.objects += 2 if role.host_ports else 1
        problems: list[Problem] = []
        for name, text in role.env.items():
            if isinstance(text, str):
                self.bytes += len(text)
                if len(text) > ENV_SHORT:
                    problems += overlong(("spec", "roles", role.spec.name), name, text)
        if problems:
            raise MlgenError(problems)
        if self.bytes > JOB_BYTES:
            message = (
                "the variables, commands and templates of all workloads exceed"
                f" {JOB_BYTES >> 20} MiB in total"
            )
            raise _too_large(("roles", role.spec.name, "replicas"), message, self._fix(role.spec))

    def _fix(self, spec: RoleSpec) -> str:
        """Return a hint that reduces the objects of a role."""
        if self.on_host:
            return "use fewer replicas, or remove network.host, so that they share a Job"
        same = f"give every {spec.name} the same fields"
        return f"use fewer replicas, or {same}, so that they share a Job"


class HostPortAllocation:
    """Assigns a different port on the nodes to each port of a job's replicas.

    Two pods on one node cannot listen on the same port. So, as in KubeDL, each replica has its own
    port (pkg/job_controller/hostnetwork.go). KubeDL picks it at random. mlgen derives it from the
    names, so it is the same in every render.
    """

    def __init__(self, job: TrainingJob) -> None:
        self.range = job.network.host_ports or HostPorts()
        self._prefix = f"{job.namespace or ''}/{job.name}"
        self._ports: dict[tuple[str, int, str], int] = {}
        self._taken: set[int] = set()

    def port(self, role: str, index: int, name: str) -> int:
        """Return the port on the node for one port of a replica. Repeated calls return the same.

        Raises:
            IndexError: the range has no port left.
        """
        key = (role, index, name)
        if key not in self._ports:
            self._ports[key] = self._free_port(f"{self._prefix}/{role}/{index}/{name}")
            self._taken.add(self._ports[key])
        return self._ports[key]

    def _free_port(self, text: str) -> int:
        """Return the first free port, starting at a port that is derived from a text's hash."""
        from hashlib import sha256  # imported late: it loads OpenSSL, and few jobs need it

        base, size = self.range.base, self.range.size
        if len(self._taken) == size:
            raise IndexError(size)
        start = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
        ports = (base + (start + step) % size for step in range(size))
        return next(port for port in ports if port not in self._taken)
