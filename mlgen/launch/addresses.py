"""Rules about addresses of rank 0, in options, variables, arguments and configuration files."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mlgen.jobfile.model import TrainingJob
from mlgen.launch.line import HOSTFILES, MEETING_BACKENDS
from mlgen.launch.role import (
    COMPUTED,
    VARIABLES,
    JobRole,
    Launched,
    differs,
    expanded,
    of_launchers,
    of_roles,
    text_of_value,
)
from mlgen.problems import Code, Problem
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


class Fault(NamedTuple):
    """What is wrong with an address.

    Attributes:
        text: the end of a sentence about it: "is localhost, so …".
        right: the right address.
        code: the code of the problem.
        warn: True if some image may work with it.
        itself: True if each pod would connect to itself.
    """

    text: str
    right: str
    code: Code = "launch"
    warn: bool = True
    itself: bool = False


@of_launchers
def unreachable_address(launched: Launched) -> Iterator[Problem]:
    """Report an address of rank 0, in a launcher's option, at which pods do not reach it.

    wrong:
        framework: pytorch
        command: [torchrun, --rdzv_backend=c10d, "--rdzv_endpoint=localhost:29500", train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, --master_addr=10.0.0.7, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, --master_addr=example-worker-1, train.py]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, --master_addr=$(MASTER_ADDR), train.py]
        roles: {worker: {replicas: 2}}
    """
    launch, row, role = launched.launch, launched.launch.launcher, launched.role
    alone = launched.ranked or launched.job.replicas - launched.spec.replicas == 1
    has_head = any(each.script[:1] == ("start",) for each in role.lines.launches)
    submits = launch.script[:2] == ("job", "submit") and has_head
    if not launched.expects_others or (row.reaches and alone) or submits:
        return
    expected = Expected(
        alone=not row.reaches,
        meets=launch.literal("rdzv_backend") in MEETING_BACKENDS,
        first=launched.is_static and not (row.reaches or row.meets_anywhere),
    )
    for name in row.addresses:
        value = launch.options.get(name, "")
        hosts = [] if re.search(COMPUTED, value) else value.split(",")
        if fault := first_fault(role, hosts, expected):
            hint = f"remove --{name}" if row.reaches else f"write --{name}={fault.right}"
            message = f"--{name} {fault.text}"
            # Pods on the host network may share a node. Another container may forward the port.
            others = launched.job.network.on_host or launched.spec.templates
            warn = fault.warn and not (fault.itself and expected.meets and not others)
            yield launched.error(message, hint, code=fault.code, warn=warn)


@of_launchers
def not_in_hostfile(launched: Launched) -> Iterator[Problem]:
    """Report names of hosts that are not in mlgen's hostfile.

    deepspeed then stops (deepspeed/launcher/runner.py, parse_resource_filter).

    wrong:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, "--include=worker-0:0,1", train.py]}
          worker: {replicas: 2}
    right:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, train.py]}
          worker: {replicas: 2}
    """
    launch, job = launched.launch, launched.job
    hostfile = launched.topology.files.get("hostfile", "")
    if job.part_of:  # the user writes the names in it without the suffix of the job's name
        hostfile = hostfile.replace(job.name.removeprefix(job.part_of), "")
    lines = hostfile.splitlines()
    hosts = {line.split()[0].partition(".")[0]: line.split()[0] for line in lines}
    if not hosts or launch.options.get("hostfile") not in HOSTFILES:
        return
    for name in launch.launcher.hosts:
        value = launch.literal(name) or ""
        named = (part.partition(":")[0] for part in value.split("@") if part)
        host = next((each for each in named if each not in hosts.values()), None)
        if host is not None:
            fixed = re.sub(r"[^@:]+(?=[:@]|$)", lambda m: hosts.get(m[0], m[0]), value)
            hint = f"use a name of the hostfile, such as {min(hosts.values())}"
            hint = f"write --{name}={fixed}" if host.partition(".")[0] in hosts else hint
            message = f"--{name} contains {host}, which is not in the hostfile"
            yield launched.error(message, hint)


@of_roles
def unreachable_variable(role: JobRole) -> Iterator[Problem]:
    """Report an address of rank 0, in a variable or an argument, at which pods do not reach it.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {MASTER_ADDR: localhost}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py]
        env: {JAX_COORDINATOR_ADDRESS: example-worker-0}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {NCCL_SOCKET_IFNAME: lo}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py, "--coordinator_address=localhost:1234"]
        roles: {worker: {replicas: 2}}
    right:
        framework: jax
        command: [python, train.py, --coordinator_address=$(JAX_COORDINATOR_ADDRESS)]
        roles: {worker: {replicas: 2}}
    """
    job = role.job
    if job.replicas <= 1:
        return
    for name, (path, value) in role.variables.items() if role.roles else ():
        row, is_set = VARIABLES.get(name, {}), name in role.env
        if row.get("is_address") and (is_set or job.framework in row.get("frameworks", ())):
            expected = Expected(meets=is_set, first="first" in row, port="port" in row)
            fault = fault_of(role, expanded(text_of_value(value), role.values), expected)
            if fault:
                hint = row.get("hint", "remove it: mlgen sets the address")
                message = f"{name} {fault.text}"
                yield role.error(path, message, hint, code=fault.code, warn=fault.warn)
    for row, setting, value in role.arguments:
        hosts = value.split(",") if "hosts" in row else [value] if "is_address" in row else []
        expected = Expected(alone="hosts" not in row, first="first" in row)
        if fault := first_fault(role, hosts, expected):
            right = _hosts(role, row.get("hosts", ""), hosts) or fault.right
            hint, message = row.get("hint", f"write {right}"), f"{setting.text} {fault.text}"
            yield role.error(setting.path, message, hint, code=fault.code, warn=fault.warn)


def _address(job: TrainingJob, role: str, index: int) -> str:
    """Return the address of a replica as in a job file, without a hash in the job's name."""
    return f"{job.written_name}-{role}-{index}.{job.network.subdomain or job.written_name}"


def _hosts(role: JobRole, name: str, hosts: list[str]) -> str:
    """Return the addresses of a role's replicas, with the ports of these hosts; "" for no role."""
    job = role.job
    ports = [host.rpartition(":")[2] for host in hosts] * job.replicas
    count = job.roles[name].replicas if name in job.roles else 0
    return ",".join(f"{_address(job, name, i)}:{ports[i]}" for i in range(count))


def first_fault(role: JobRole, hosts: Iterable[str], expected: Expected) -> Fault | None:
    """Return what is wrong with the first wrong one of several addresses; see `fault_of`."""
    return next(filter(None, (fault_of(role, host, expected) for host in hosts)), None)


def fault_of(role: JobRole, value: str, expected: Expected) -> Fault | None:
    """Return what is wrong with an address of rank 0; None if nothing is, or in doubt.

    Args:
        role: the role that uses the address.
        value: the address, with the values of variables.
        expected: what the address may be.
    """
    text = value.rpartition("//")[2]
    if re.search(COMPUTED, text):
        return None
    host = text if text in LOCALHOST else _host(text)
    port = re.search(r":\d+$", text)
    right = first_address(role, port[0] if port else "")
    if host in LOCALHOST or differs(text):
        if host == INTERFACE or not (expected.alone and _is_first_alone(role)):
            what = host if host in LOCALHOST else "a different address in each pod"
            return Fault(f"is {what}, so each pod connects only to itself", right, itself=True)
    elif expected.meets and "$" not in host:
        if re.fullmatch(IP, host):
            if not role.job.network.on_host:
                why = "but pods get their IP addresses when they start"
                return Fault(f"is the IP address {host}, {why}", right)
        elif fault := _other_host(role, host, right, first=expected.first):
            return fault
    if expected.port and re.fullmatch(r"[\w.-]+", text):
        return Fault(f"is {host}, without a port", right, warn=False)
    return None


def _other_host(role: JobRole, host: str, right: str, *, first: bool) -> Fault | None:
    """Return a fault if a host is named as a replica, but is none, or not rank 0; else None."""
    job, label, missing = role.job, host.partition(".")[0], f"is {host}, which is not a replica"
    names = "|".join(map(re.escape, (job.name, job.written_name)))
    own = re.fullmatch(rf"(?:{names})-(.+-\d+)", label)
    if not own:
        roles = "|".join((*ROLE_NAMES, *job.roles))
        like_a_role = rf"(.*-)?({roles})(-\d+)?(-svc|-service|-headless)?"
        is_like = re.fullmatch(like_a_role, label)
        return Fault(f"{missing} of this job", right) if is_like else None
    if first and _positions(role.topology, merged=label == host).get(own[1], 0) > 0:
        return Fault(f"is {host}, which is not rank 0 of this job", right)
    name = own[1].rpartition("-")[0]
    known = {*job.roles, *(each.name for each in role.topology.roles)}
    # Role worker-0 is the first Job of worker in a JobSet.
    is_role = name in ROLE_NAMES or f"{name}-0" in known
    if label == host and is_role and name not in known:
        return Fault(f"{missing} of this job", right, "no-such-peer", warn=False)
    return None


def _host(text: str) -> str:
    """Return an address without its port and path."""
    name = text.partition("/")[0]
    return name.rpartition(":")[0] if ":" in name else name


def first_address(role: JobRole, port: str) -> str:
    """Return the address of rank 0 for a role, with `:<port>` if its variable lacks the port."""
    job = role.job
    for name, has_port in ADDRESSES.items():
        if name in role.env:
            return f"$({name})" if has_port else f"$({name}){port}"
    first = next(iter(role.topology.roles), role) if _has_first(role.topology) else role
    return f"{_address(job, first.name, 0)}{port}"


def _is_first_alone(role: JobRole) -> bool:
    """Return True if the only replica of a role is rank 0."""
    if len(role.roles) != 1 or role.roles[0].replicas > 1:
        return False
    (of_job,) = role.roles
    addresses = [str(of_job.env[name]) for name in ADDRESSES if name in of_job.env]
    own = f"{role.job.name}-{of_job.name}-{of_job.index or 0}"
    named = any(re.search(rf"\b{own}\b", address) for address in addresses)
    if addresses and not role.job.network.on_host:
        return named
    return named or of_job is role.topology.roles[0] or not _has_first(role.topology)


def _has_first(topology: Topology) -> bool:
    """Return True if the job has one rank 0. Otherwise, each role may have its own.

    It has one if the framework assigns ranks, or an address in a variable.
    """
    return topology.ranked or any(ADDRESSES.keys() & role.env.keys() for role in topology.roles)


def _positions(topology: Topology, *, merged: bool) -> dict[str, int]:
    """Return the position of each replica, `<role>-<index>`, among all replicas of the job.

    Args:
        topology: the job's topology.
        merged: True to include the names of roles that are merged. Only bare names resolve.
    """
    positions: dict[str, int] = {}
    start = 0
    has_first = _has_first(topology)
    for role in topology.roles:
        first = role.index or 0
        names = [f"{role.name}-{first + index}" for index in range(role.replicas)]
        parts = ((part, topology.job.roles[part].replicas) for part in role.merged)
        old_names = [f"{part}-{index}" for part, count in parts for index in range(count)]
        for each in (names, old_names if merged else []):
            positions |= {name: start + offset for offset, name in enumerate(each)}
        start += role.replicas if has_first else 0
    return positions
