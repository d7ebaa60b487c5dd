"""The rule that replicas do not meet at localhost, where each pod finds only itself."""

from collections.abc import Iterable, Iterator

from mlgen.frameworks._launch import Launch, launches_of
from mlgen.problems import Problem, ValuePath
from mlgen.topology import Role, Topology

LOCALHOST = ("localhost", "127.0.0.1", "::1", "[::1]")

VARIABLES = (
    *("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "DMLC_PS_ROOT_URI"),
    *("COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS", "PADDLE_MASTER"),
)
"""Variables with the address at which all replicas meet."""

OPTIONS = ("rdzv_endpoint", "master_addr", "main_process_ip")
"""Options of torchrun and accelerate with that address."""

NODES = ("nnodes", "num_machines")


def problems(topology: Topology) -> Iterator[Problem]:
    """Report a rendezvous at localhost in a job of several pods."""
    if sum(role.replicas for role in topology.roles) <= 1:
        return
    specs = {role.spec.name: role.spec for role in topology.roles}
    launches = {name: launches_of(spec) for name, spec in specs.items()}
    for role in topology.roles:
        path = ("spec", "roles", role.spec.name)
        for name, value in role.spec.env.items():
            if name in role.env and name in VARIABLES and _is_elsewhere(role, value):
                yield _problem((*path, "env", name), name, "remove it: mlgen sets the address")
        yield from _options(topology, role, launches[role.spec.name])


def _options(topology: Topology, role: Role, launches: Iterable[Launch]) -> Iterator[Problem]:
    """Report an option of a launcher that is to start processes in several pods.

    torchrun expects only its own pod unless it is told another number.
    """
    for launch in launches:
        options = (launch.literal(name) for name in NODES if name in launch.options)
        nodes = next(options, role.env.get("PET_NNODES", "1"))
        for name in OPTIONS:
            value = launch.literal(name)
            if nodes not in ("1", "1:1") and value and _is_elsewhere(role, value):
                path = ("spec", "roles", role.spec.name, *launch.path)
                first = f"{topology.job.name}-{topology.roles[0].name}-0.{topology.job.name}"
                address = "$(MASTER_ADDR)" if "MASTER_ADDR" in role.env else first
                yield _problem(path, f"--{name}", f"use the address of rank 0, {address}")


def _is_elsewhere(role: Role, address: object) -> bool:
    """Return whether an address is localhost, while rank 0 is not the role's only replica."""
    text = str(address).rpartition("//")[2]
    host = text if text in LOCALHOST else text.rpartition(":")[0]
    return host in LOCALHOST and (role.replicas > 1 or not _is_first(role))


def _is_first(role: Role) -> bool:
    """Return whether a role consists of rank 0 alone."""
    return role.decides and not role.index


def _problem(path: ValuePath, name: str, hint: str) -> Problem:
    message = f"{name} is localhost, where each pod meets only itself"
    return Problem(path, message, "launch", hint, warning=True)
