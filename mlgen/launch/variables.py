"""Rules about addresses of rank 0, and about variables and arguments that must fit the whole job.

A value in the job file replaces the framework's value. A program may use its variables in other
ways, so most of the rules about variables are warnings.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mlgen.jobfile.model import TrainingJob, gpu_count
from mlgen.kubernetes.quantity import natural
from mlgen.launch.line import COMMANDS, HOSTFILES, LAUNCHERS, MEETING_BACKENDS
from mlgen.launch.role import (
    COMPUTED,
    LOOPS,
    NNODES,
    REFERENCE,
    VARIABLES,
    JobRole,
    Launched,
    contradicted,
    differs,
    expanded,
    of_all_roles,
    of_options,
    of_roles,
    of_scripts,
    of_variables,
    text_of_value,
)
from mlgen.problems import Code, Problem, ValuePath
from mlgen.shell import is_python, program
from mlgen.topology import INDEX, Topology

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


@of_options
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
    if not launched.expects_others or (row.reaches and alone):
        return
    if launch.script[:2] == ("job", "submit") and any(
        each.script[:1] == ("start",) for each in role.lines.launches
    ):
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


@of_options
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


@of_variables
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
    for host in hosts:
        if fault := fault_of(role, host, expected):
            return fault
    return None


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


READS = r"\b(source|eval)\b|^[^\S\n]*\. "
"""A pattern of scripts that may set any variable."""


@of_all_roles
def same_variable(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a constant in a variable that must differ between replicas, such as a rank.

    All replicas then have the same rank, and wait for the others.

    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {RANK: "0"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {NODE_RANK: "0"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, train.py]
        env: {NODE_RANK: $(RANK)}
        roles: {worker: {replicas: 2}}
    """
    by_name, topology = {role.name: role for role in roles}, roles[0].topology
    ranks = {
        name
        for each in topology.roles
        for name, value in each.env.items()
        if isinstance(value, str) and (INDEX in value or "differs" in VARIABLES.get(name, {}))
    }
    for role in roles:
        for name, (path, value) in role.constants.items():
            row = VARIABLES.get(name, {})
            same_as = name if name in ranks else row.get("same_as", "")
            if same_as not in ranks or not role.is_read(name):
                continue
            needed, size = set[str](), 0
            for each in topology.roles:
                own = each.env.get(same_as)
                if isinstance(own, str):
                    only = own.replace(INDEX, str(each.index or 0)) if each.replicas == 1 else own
                    # Roles of the job file that are merged have the same fields.
                    source = by_name[each.merged[0] if each.merged else each.spec.name]
                    if source.constants.get(name, ((), only))[1] == value:
                        size += each.replicas
                        needed |= {only} if INDEX not in only else {only, ""}
            if len(needed) > 1:
                message = f"{name} is the same in {size} replicas, which need different values"
                hint = f"write $({same_as})" if "same_as" in row else "remove it: mlgen sets it"
                yield role.warning(path, message, hint)


@of_variables
def other_size(role: JobRole) -> Iterator[Problem]:
    """Report a number of replicas or processes that contradicts the job.

    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {WORLD_SIZE: "3"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, train.py]
        env: {WORLD_SIZE: "2"}
        roles: {worker: {replicas: 2}}
    """
    count = gpu_count(role.spec)
    for name, (path, value) in role.constants.items():
        counted = VARIABLES.get(name, {}).get("counts")
        own, size = natural(str(role.env.get(name, ""))) or 0, natural(value)
        # A program may start several processes in each pod, but not a single script.
        several = counted == "processes" or (counted == "ranks" and not role.lone_script)
        if counted == "gpus":
            own, fits = count, not size or not 0 < count < size
        elif several and own and size:
            fits = size % own == 0 and (not count or size <= own * count)
        else:
            fits = not (counted and own) or size is None or value == str(own)
        if not fits and role.is_read(name):
            message = contradicted(name, value, own)
            # A launcher that waits for more replicas never starts to train.
            waits = counted == "replicas" and (size or 0) > own
            warn = not waits or ("options" in VARIABLES[name] and not role.lines.launches)
            yield role.error(path, message, "remove it: mlgen sets it", warn=warn)


@of_variables
def size_in_argument(role: JobRole) -> Iterator[Problem]:
    """Report a number of replicas, processes or hosts in an argument that contradicts the job.

    wrong:
        framework: pytorch
        command: [python, train.py, fit, --trainer.num_nodes=4]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: tensorflow
        command: [python, train.py, "--worker_hosts=a:2222,b:2222"]
        roles: {ps: {replicas: 1}, worker: {replicas: 3}}
    right:
        framework: pytorch
        command: [python, train.py, fit, --trainer.num_nodes=2]
        roles: {worker: {replicas: 2}}
    """
    job, count = role.job, gpu_count(role.spec)
    loops = any(re.search(LOOPS, script.text) for script in role.lines.scripts)
    for row, setting, value in role.arguments:
        own, counted, hosts = job.replicas, row.get("counts"), value.split(",")
        if row.get("hosts"):
            own = job.roles[row["hosts"]].replicas if row["hosts"] in job.roles else 0
        size = natural(value) if counted else len(hosts) if "hosts" in row else None
        if size is None or "$" in value or (counted == "ranks" and loops):
            continue
        if counted == "gpus":
            own, fits = count, not 0 < count < size
        else:
            several = counted == "processes" and size and (not count or size <= own * count)
            fits = size == own or bool(several and size % own == 0)
        if not fits:
            noun = f"{own} hosts" if "hosts" in row else str(own)
            message = contradicted(setting.text, value, noun)
            # A program waits for the other replicas, unless it ignores the file.
            warn = counted != "replicas" or size < own or setting.path[0] == "volumes"
            hint = row.get("hint", f"write {noun}")
            yield role.error(setting.path, message, hint, warn=warn)


@of_variables
def bad_argument(role: JobRole) -> Iterator[Problem]:
    """Report an argument with which replicas train alone, or have the same rank.

    wrong:
        framework: tensorflow
        command: [python, train.py, --distribution_strategy=mirrored]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py, --process_id=0, --num_processes=2]
        roles: {worker: {replicas: 2}}
    right:
        framework: tensorflow
        command: [python, train.py, --distribution_strategy=multi_worker_mirrored]
        roles: {worker: {replicas: 2}}
    """
    count = role.spec.replicas
    for row, setting, value in role.arguments if count > 1 else ():
        if value in row.get("alone", ()):
            flag = f"{setting.text}={value}"
            message = f"with {flag}, each of the {count} replicas trains alone"
            yield role.warning(setting.path, message, row["hint"])
        if "same_as" in row and natural(value) is not None:
            message = f"{setting.text} is the same in {count} replicas, which need different values"
            yield role.warning(setting.path, message, row.get("hint", f"write $({row['same_as']})"))


@of_all_roles
def differs_between_roles(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a port or an identifier that differs between roles that train together.

    wrong:
        framework: pytorch
        roles:
          master: {command: [torchrun, --master_port=29500, train.py]}
          worker: {replicas: 1, command: [torchrun, --master_port=29501, train.py]}
    right:
        framework: pytorch
        command: [torchrun, --master_port=29500, train.py]
        roles: {master: {}, worker: {replicas: 1}}
    """
    seen: dict[str, tuple[str, str]] = {}
    for role in roles:
        if role.env.keys().isdisjoint(NNODES) or role.job.network.on_host:
            continue
        settings: list[tuple[str, str, ValuePath]] = [
            (f"--{option}", value, launch.place(f"--{option}"))
            for launch in role.lines.launches
            for option in launch.launcher.shared
            if (value := launch.literal(option))
        ]
        for name, row in VARIABLES.items():
            if "shared" in row and name in role.env and role.is_read(name):
                path, value = role.constants.get(name, (("env",), str(role.env[name])))
                settings.append((name, value, path))
        for name, text, path in settings:
            value = text.rpartition(":")[2]
            other, first = seen.setdefault(name, (value, role.name)) if value else ("", "")
            if value != other:
                message = (
                    f"{name} is {value}, but {other} in the role {first},"
                    " so the pods wait for each other"
                )
                yield role.error(path, message, "use the same value in both roles")


@of_scripts
def unset_variable(role: JobRole) -> Iterator[Problem]:
    """Report variables in scripts that a framework sets, but not in this job.

    wrong:
        framework: pytorch
        command: [sh, -c, "torchrun --nnodes=2 --node_rank=$NODE_RANK train.py"]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, "torchrun --nnodes=2 --node_rank=$RANK train.py"]
        roles: {worker: {replicas: 2}}
    """
    scripts = role.lines.scripts
    reads = any(re.search(READS, script.text, re.MULTILINE) for script in scripts)
    if reads or role.spec.may_have_more_env or not role.roles:
        return
    for line in role.lines.lines:
        words = line.words
        if not any(is_python(word) or program(word) in LAUNCHERS for word in words):
            continue
        for index, text in enumerate(words):
            for match in re.finditer(REFERENCE, text) if " " not in text else ():
                name = match[1] or match[2] or match[4]
                has_value = match[3] is not None or name in role.values
                if has_value or name not in VARIABLES:
                    continue
                flag = text if text.startswith("-") else words[index - 1]
                option = flag.partition("=")[0].lstrip("-").replace("-", "_")
                own = f"PET_{option.upper()}"
                hint = f"remove --{option}: mlgen sets {own}"
                hint = hint if own in role.env else _definition(role, name)
                where = f"--{option}" if flag.startswith("-") else text
                message = f"{where} uses {name}, which is not set in this job"
                yield role.warning(line.paths[index], message, hint)


def _definition(role: JobRole, name: str) -> str:
    """Return a hint that replaces or defines a variable that is not set."""
    row = VARIABLES[name]
    if row.get("same_as", "") in role.env:
        return f"write ${row['same_as']}"
    if row.get("is_address"):
        return f"set {name}: {first_address(role, '')} in env"
    return f"set {name}: {INDEX} in env" if re.search("RANK|_ID$", name) else f"set {name} in env"


@of_roles
def other_framework(role: JobRole) -> Iterator[Problem]:
    """Report a program in the job's files that joins others as another framework does.

    wrong:
        framework: tensorflow
        command: [python, /code/train.py]
        volumes:
          code:
            mountPath: /code
            files: {train.py: "torch.distributed.init_process_group('gloo')"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, /code/train.py]
        volumes:
          code:
            mountPath: /code
            files: {train.py: "torch.distributed.init_process_group('gloo')"}
        roles: {worker: {replicas: 2}}
    """
    if not role.trains_together or role.job.replicas == 1 or role.lines.launches:
        return
    run = {word for line in role.lines.lines for word in line.words}
    for file, text, path in role.lines.files:
        if not run & {file, posixpath.basename(file)}:
            continue
        code = re.sub(r"(?m)#.*", "", text)
        calls = ((row, re.search(row["pattern"], code)) for row in COMMANDS["calls"])
        found = [(row, match[0]) for row, match in calls if match]
        own = re.findall(r"environ(?:\.setdefault\(|\[).(\w+).(?:,|\]\s*=[^=])", code)
        # A program with several calls chooses among them at run time.
        for row, call in found if len(found) == 1 else ():
            env = {name for each in role.roles for name in each.env}
            if row["reads"] not in {*env, *role.variables, *own}:
                message = (
                    f"{call} reads variables that framework: {role.job.framework} does not set"
                )
                yield role.warning(path, message, f"use framework: {row['framework']}")


@of_variables
def not_json(role: JobRole) -> Iterator[Problem]:
    """Report a variable that is not JSON, although the framework's own value is.

    wrong:
        framework: tensorflow
        command: [python, train.py]
        env: {TF_CONFIG: "{'cluster': {'worker': ['a:2222']}}"}
        roles: {worker: {replicas: 2}}
    right:
        framework: tensorflow
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    """
    env = {name: value for each in role.roles for name, value in each.env.items()}
    for name, (path, value) in role.variables.items():
        if str(env.get(name, "")).startswith("{") and isinstance(value, str):
            try:
                json.loads(re.sub(r"\$\(\w+\)", "0", value))
            except (RecursionError, ValueError):
                yield role.warning(path, f"{name} is not JSON", "remove it: mlgen sets it")
