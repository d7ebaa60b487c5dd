"""Addresses of rank 0 in flags, variables and configuration files → do replicas reach it there?"""

import re
from typing import NamedTuple

from mlgen.launch._old import COMPUTED, differs, env_of, roles_of
from mlgen.jobfile.model import RoleSpec
from mlgen.topology import Topology

INTERFACE = "lo"
"""The network interface of LOCALHOST."""

LOCALHOST = ("localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0", "auto", INTERFACE)  # noqa: S104
"""Addresses and the interface at which a pod reaches only itself. `auto` is Ray's."""

IP = r"\d{1,3}(\.\d{1,3}){3}"

ROLE_NAMES = ("chief", "head", "launcher", "master", "scheduler", "worker")

ADDRESSES = {
    "MASTER_ADDR": False,
    "PET_RDZV_ENDPOINT": True,
    "PADDLE_MASTER": True,
    "JAX_COORDINATOR_ADDRESS": True,
    "DMLC_PS_ROOT_URI": False,
    "RAY_ADDRESS": True,
}
"""The variables with the address of rank 0, and whether they contain its port."""


class Expected(NamedTuple):
    """What an address of rank 0 may be.

    Attributes:
        alone: True if it may be the pod itself, in a role whose only replica is rank 0.
        meets: True if it is one of the replicas. False if it may be another server.
        first: True if it must be rank 0. Otherwise, it may be any replica.
        port: True if it must have a port.
    """

    alone: bool = True
    meets: bool = True
    first: bool = False
    port: bool = False


def address_problem(
    topology: Topology, spec: RoleSpec, value: str, expected: Expected
) -> tuple[str, dict[str, str]] | None:
    """Return the rule of `problems.json` that an address of rank 0 breaks; None if it breaks none.

    With the rule come the values `host` and `address`, the right address.

    Args:
        topology: the job's topology.
        spec: the role that uses the address.
        value: the address, with the values of variables.
        expected: what the address may be.
    """
    job, text = topology.job, value.rpartition("//")[2]
    host = text if text in LOCALHOST else _host(text)
    label = host.partition(".")[0]
    own = re.fullmatch(
        rf"(?:{re.escape(job.name)}|{re.escape(job.part_of or job.name)})-(.+-\d+)", label
    )
    like_a_role = rf"(.*-)?({'|'.join((*ROLE_NAMES, *job.roles))})(-\d+)?(-svc|-service|-headless)?"
    rule = ""
    if re.search(COMPUTED, text):
        return None
    if host in LOCALHOST or differs(text):
        if host == INTERFACE or not (expected.alone and _is_first_alone(topology, spec)):
            rule = "localhost" if host in LOCALHOST else "own-address"
    elif not expected.meets or "$" in host:
        rule = ""
    elif re.fullmatch(IP, host):
        rule = "" if job.network.on_host else "fixed-address"
    elif own:
        positions = _positions(topology, merged=label == host)
        is_other = expected.first and positions.get(own[1], 0) > 0
        role = own[1].rpartition("-")[0]
        names = {*job.roles, *(each.name for each in topology.roles)}
        # Role worker-0 is the first Job of worker in a JobSet.
        is_role = role in ROLE_NAMES or f"{role}-0" in names
        is_missing = label == host and is_role and role not in names
        rule = "other-replica" if is_other else "no-such-replica" if is_missing else ""
    elif re.fullmatch(like_a_role, label):
        rule = "no-such-host"
    port = re.search(r":\d+$", text)
    if not rule and expected.port and re.fullmatch(r"[\w.-]+", text):
        rule = "no-port-in-address"
    address = first_address(topology, spec, port[0] if port else "")
    return (rule, {"host": host, "address": address}) if rule else None


def _host(text: str) -> str:
    """Return an address without its port and path."""
    name = text.partition("/")[0]
    return name.rpartition(":")[0] if ":" in name else name


def first_address(topology: Topology, spec: RoleSpec, port: str) -> str:
    """Return the address of rank 0 for a role, with `:<port>` if its variable lacks the port."""
    job, env = topology.job, env_of(topology, spec.name)
    for name, has_port in ADDRESSES.items():
        if name in env:
            return f"$({name})" if has_port else f"$({name}){port}"
    first = spec if job.framework == "generic" else next(iter(topology.roles), spec)
    return f"{job.name}-{first.name}-0.{job.subdomain}{port}"


def _is_first_alone(topology: Topology, spec: RoleSpec) -> bool:
    """Return True if the only replica of a role is rank 0."""
    roles = roles_of(topology, spec.name)
    if len(roles) != 1 or roles[0].replicas > 1:
        return False
    role = roles[0]
    addresses = [str(role.env[name]) for name in ADDRESSES if name in role.env]
    own = f"{topology.job.name}-{role.name}-{role.index or 0}"
    named = any(re.search(rf"\b{own}\b", address) for address in addresses)
    if addresses and not topology.job.network.on_host:
        return named
    return named or role is topology.roles[0] or topology.job.framework == "generic"


def _positions(topology: Topology, *, merged: bool) -> dict[str, int]:
    """Return the position of each replica, `<role>-<index>`, among all replicas of the job.

    Args:
        topology: the job's topology.
        merged: True to include the names of roles that are merged. Only bare names resolve.
    """
    positions: dict[str, int] = {}
    start = 0
    for role in topology.roles:
        first = role.index or 0
        names = [f"{role.name}-{first + index}" for index in range(role.replicas)]
        parts = ((part, topology.job.roles[part].replicas) for part in role.merged)
        old_names = [f"{part}-{index}" for part, count in parts for index in range(count)]
        for each in (names, old_names if merged else []):
            positions |= {name: start + offset for offset, name in enumerate(each)}
        # A generic job has no ranks: each role may have its own rank 0.
        start += role.replicas if topology.job.framework != "generic" else 0
    return positions
