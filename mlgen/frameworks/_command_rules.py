"""Check command lines and variables of ranked replicas against the replicas, processes and GPUs.

Launchers such as torchrun run once in each replica, and must agree on the number of replicas. A
variable that must differ between replicas, such as a rank, cannot be a constant. A program may use
its variables in other ways, so most of these contradictions are warnings.

`schemas/frameworks/commands.json` lists the meaning of each launcher's options.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from mlgen.bounds import NUMBER_DIGITS
from mlgen.frameworks._launch import Launch, launches_of, words_of
from mlgen.frameworks._tables import COMMANDS, problem
from mlgen.jobfile import gpus
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.quantity import natural
from mlgen.problems import Problem, ValuePath
from mlgen.shell import is_python, is_shell, simple_commands, text_index
from mlgen.topology import INDEX, INDEX_NAME, Role, Topology

PROCESSES = "PET_NPROC_PER_NODE"

NODES = "PET_NNODES"
"""The variable with torchrun's number of replicas. Frameworks that set it assign ranks."""


@dataclass(frozen=True)
class Launched:
    """A launcher that the replicas of a role run.

    Attributes:
        topology: the job's topology.
        spec: the role in the job file.
        launch: the launcher and its options.
        env: the role's variables from the framework.
    """

    topology: Topology
    spec: RoleSpec
    launch: Launch
    env: Mapping[str, object]

    @property
    def replicas(self) -> int:
        """The number of replicas that train together."""
        return self.topology.job.replicas if NODES in self.env else self.spec.replicas

    @property
    def is_static(self) -> bool:
        """True if each launcher needs its rank. Other rendezvous backends assign the ranks."""
        backend = self.launch.options.get("rdzv_backend", self.spec.env.get("PET_RDZV_BACKEND"))
        return backend == "static" or (backend is None and "PET_RDZV_BACKEND" not in self.env)

    def problem(self, rule: str, **values: object) -> Problem:
        """Return a problem of the command line; see `_tables.problem`."""
        return problem(rule, ("roles", self.spec.name, *self.launch.path), **values)

    def alone(self, flag: str, hint: str = "") -> Problem:
        """Return a warning of replicas that train separately. Default hint: remove the flag."""
        hint = hint or f"remove {flag}"
        return self.problem("all-alone", flag=flag, replicas=self.replicas, hint=hint)


def roles_of(topology: Topology, name: str) -> list[Role]:
    """Return the topology's roles for a role of the job file."""
    return [role for role in topology.roles if name in (role.spec.name, *role.merged)]


def launch_problems(topology: Topology) -> Iterator[Problem]:
    """Return the contradictions between the job and its command lines and variables."""
    for name, spec in topology.job.roles.items():
        roles = roles_of(topology, name)
        env = roles[0].env if roles else {}
        for launch in launches_of(spec):
            launched = Launched(topology, spec, launch, env)
            checks = IN_EACH_POD if launch.launcher.in_each_pod else (_reach,)
            for check in checks:
                yield from check(launched)
        yield from _processes_option(spec, env)
    yield from _variables(topology)


def _nodes(launched: Launched) -> Iterator[Problem]:
    """Compare the number of nodes of a launcher with the replicas."""
    launch, replicas, option = launched.launch, launched.replicas, launched.launch.launcher.nodes
    text, ranked = launch.literal(option) or "", NODES in launched.env
    # A number that is cut off here is still too large.
    bounds = [int(number[:NUMBER_DIGITS]) for number in re.findall(r"\d+", text)]
    if ranked and "standalone" in launch.options and replicas > 1:
        yield launched.alone("--standalone")
    elif bounds:
        flag = f"--{option}={text}"
        most = max(*bounds, 0)
        scaled_to = int(str(launched.env.get(NODES, 0)).rpartition(":")[2])
        everyone = max(launched.topology.job.replicas, scaled_to)
        values = {"flag": flag, "option": option, "replicas": replicas}
        if min(bounds) > everyone:
            rule = "never-enough-nodes" if ranked else "too-many-nodes"
            yield launched.problem(rule, **values, least=min(bounds), everyone=everyone)
        elif ranked and most == 1 < replicas:
            yield launched.alone(flag)
        elif ranked and most < replicas:
            yield launched.problem("too-few-nodes", **values, others=replicas - most)


def _node_rank(launched: Launched) -> Iterator[Problem]:
    """Report a rank that several replicas share, so that the rendezvous never completes."""
    launch, replicas = launched.launch, launched.spec.replicas
    row, ranked = launch.launcher, NODES in launched.env
    rank = launch.number(row.rank)
    alone = launch.literal(row.nodes) in ("1", "1:1")
    alone = alone or (row.nodes not in launch.options and not ranked)
    if rank is None or alone or "standalone" in launch.options or not launched.is_static:
        return
    own_rank = _own_rank(launched) if ranked else None
    values = {"row": row, "rank": rank, "variable": "RANK" if ranked else INDEX_NAME}
    if replicas > 1:
        yield launched.problem("same-rank", **values, replicas=replicas)
    elif own_rank not in (None, rank):
        yield launched.problem("other-rank", **values, own=own_rank)


def _own_rank(launched: Launched) -> int | None:
    """Return the rank of a role's only replica; None if it is unknown."""
    name = launched.spec.name
    role = roles_of(launched.topology, name)[0]
    index = role.merged.index(name) if name in role.merged else role.index or 0
    rank = str(role.env.get("PET_NODE_RANK", "")).replace(INDEX, str(index))
    return natural(rank)


def _processes(launched: Launched) -> Iterator[Problem]:
    """Compare a launcher's number of processes in each pod with `nprocPerNode` and the GPUs."""
    launch, job = launched.launch, launched.topology.job
    name = launch.launcher.processes
    number, count = launch.number(name), gpus.count(launched.spec)
    option = job.options.get("nprocPerNode") if NODES in launched.env else None
    if number and isinstance(option, int) and option != number:
        yield launched.problem("overrides-option", name=name, number=number, option=option)
    if number and 0 < count < number:
        yield launched.problem("more-than-gpus-of-pod", name=name, number=number, count=count)


def _all_processes(launched: Launched) -> Iterator[Problem]:
    """Compare the total number of processes of a launcher with the GPUs of all pods."""
    launch, name = launched.launch, launched.launch.launcher.all_processes
    total, machines = launch.number(name), launch.number(launch.launcher.nodes) or 1
    count = gpus.count(launched.spec)
    if total and 0 < count * machines < total and "cpu" not in launch.options:
        values = {"total": total, "count": count, "machines": machines, "most": count * machines}
        yield launched.problem("more-than-gpus-of-job", name=name, **values)


def _reach(launched: Launched) -> Iterator[Problem]:
    """Warn of a multi-pod launcher that runs in each replica, and starts processes only there.

    Without a hostfile, and without --no_ssh, deepspeed trains alone
    (deepspeed/launcher/runner.py).
    """
    launch, reaches = launched.launch, launched.launch.launcher.reaches
    alone = reaches and not set(reaches) & set(launch.options)
    if alone and NODES in launched.env and launched.replicas > 1:
        hint = f"write torchrun instead, or use framework: {launch.program}"
        yield launched.alone(f"the {launch.program} launcher", hint)


def _processes_option(spec: RoleSpec, env: Mapping[str, object]) -> Iterator[Problem]:
    """Compare `nprocPerNode` with the GPUs, and with a script that runs in one process."""
    if "PET_RDZV_ENDPOINT" in env and (script := _lone_script(spec)):
        yield problem("elastic-python", spec=spec, script=script)
    value = str(env.get(PROCESSES, ""))
    processes, count = natural(value) or 0, gpus.count(spec)
    if processes in (0, 1) or PROCESSES in spec.env:
        return
    if "WORLD_SIZE" in env and (script := _lone_script(spec)):
        world = env["WORLD_SIZE"]
        yield problem("one-process", spec=spec, script=script, processes=processes, world=world)
    elif 0 < count < processes and not any(
        "nproc_per_node" in launch.options for launch in launches_of(spec)
    ):
        yield problem("option-more-than-gpus", processes=processes, count=count)


def _lone_script(spec: RoleSpec) -> str | None:
    """Return the script that a role runs with python, in one process; None if unknown."""
    words = list(words_of(spec))
    commands = [words]
    if words and is_shell(words[0]):
        text = text_index(words)
        if text is None or text + 1 < len(words) or re.search(SEVERAL, words[text]):
            return None
        commands = simple_commands(words[text])
    scripts = [script for command in commands for script in _scripts(command)]
    return scripts[0] if len(scripts) == 1 and not launches_of(spec) else None


def _scripts(command: list[str]) -> Iterator[str]:
    """Yield the script of a simple command `python script.py`."""
    words = list(dropwhile(lambda word: re.fullmatch(PREFIX, word), command))
    program, *arguments = words or [""]
    if not is_python(program) or any(re.search(SEVERAL, word) for word in arguments):
        return
    script = next((word for word in arguments if not word.startswith("-")), "")
    if script.endswith(".py"):
        yield script


IN_EACH_POD: tuple[Callable[[Launched], Iterator[Problem]], ...] = (
    _nodes,
    _node_rank,
    _processes,
    _all_processes,
)
"""The rules for a launcher that each pod runs."""

PREFIX = r"(?s)exec|nohup|time|[A-Za-z_]\w*=.*"
"""A word before a program: a wrapper that runs it, or a variable for it."""

SEVERAL = (
    r"nproc|gpu|device|process|spawn|launch|strategy|xargs|parallel|(?<!&)&(?!&)|\b(for|while)\b"
)
"""Words of a command line that may start several processes."""


Constants = Mapping[str, tuple[ValuePath, str]]
"""Variables with a literal value: path below the role, and value."""


def _variables(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each constant that replicas of one job cannot share.

    A value in the job file replaces the framework's value. If a rank is a constant, all replicas
    have the same rank, and wait for the others.
    """
    job = topology.job
    ranks = {
        name
        for role in topology.roles
        for name, value in role.env.items()
        if isinstance(value, str) and INDEX in value
    }
    constants = {name: _constants(spec) for name, spec in job.roles.items()}
    for role_name, values in constants.items():
        roles = roles_of(topology, role_name)
        for name, (path, value) in values.items():
            row = COMMANDS["variables"].get(name, {})
            same_as = name if name in ranks else row.get("same_as", "")
            size = _sharing(topology, constants, name, same_as, value) if same_as in ranks else 0
            own = _other_size(roles, name, value)
            if not (size or own) or _is_unused(job.roles[role_name], name):
                continue
            rule = "same-variable" if size else "other-size"
            hint = f"write $({same_as})" if "same_as" in row else "remove it: mlgen sets it"
            texts = {"name": name, "size": size, "value": value, "own": own, "hint": hint}
            yield problem(rule, ("roles", role_name, *path), **texts)


def _constants(spec: RoleSpec) -> Constants:
    """Return the literal variables of a role's training container."""
    values: dict[str, tuple[ValuePath, Any]] = {
        name: (("env", name), value) for name, value in spec.env.items()
    }
    for patch in spec.container_patches:
        for item in patch.get("env") or []:
            values[item["name"]] = (("template",), item.get("value"))
    return {
        name: (path, value)
        for name, (path, value) in values.items()
        if isinstance(value, str) and "$(" not in value
    }


def _sharing(
    topology: Topology,
    constants: Mapping[str, Constants],
    name: str,
    framework_name: str,
    value: str,
) -> int:
    """Return the number of replicas that have this value, if they need different ones; else 0.

    Args:
        topology: the job's topology.
        constants: the constants of each role in the job file.
        name: the variable's name.
        framework_name: the name of the framework's variable with the same meaning.
        value: the constant.
    """
    needed: set[str] = set()
    size = 0
    for role in topology.roles:
        own = role.env.get(framework_name)
        if not isinstance(own, str):
            continue
        only = own.replace(INDEX, str(role.index or 0)) if role.replicas == 1 else own
        # Roles of the job file that are merged have the same fields.
        source = role.merged[0] if role.merged else role.spec.name
        _, constant = constants[source].get(name, ((), only))
        if constant == value:
            size += role.replicas
            needed |= {only} if INDEX not in only else {only, ""}
    return size if len(needed) > 1 else 0


def _other_size(roles: list[Role], name: str, value: str) -> int | None:
    """Return the framework's number if a constant contradicts it; else None."""
    counted = COMMANDS["variables"].get(name, {}).get("counts")
    own = natural(str(roles[0].env.get(name, ""))) if roles and counted else None
    size = natural(value)
    if not own or size is None:
        return None
    fits = size > 0 and size % own == 0 if counted == "processes" else value == str(own)
    return None if fits else own


def _is_unused(spec: RoleSpec, name: str) -> bool:
    """Return True if a launcher sets a variable itself, or does not read it."""
    launches = [launch for launch in launches_of(spec) if launch.launcher.in_each_pod]
    if not launches or re.search(rf"\$[({{]?{name}\b", " ".join(words_of(spec))):
        return False
    options = COMMANDS["variables"].get(name, {}).get("options")
    return options is None or all(set(options) & set(launch.options) for launch in launches)


LOCALHOST = ("localhost", "127.0.0.1", "::1", "[::1]")


def localhost_problems(topology: Topology) -> Iterator[Problem]:
    """Report a rendezvous at localhost in a job of several pods: each pod reaches only itself.

    A launcher without a number of nodes expects only its own pod.
    """
    if sum(role.replicas for role in topology.roles) <= 1:
        return
    for role in topology.roles:
        path = ("roles", role.spec.name)
        for name, value in role.spec.env.items():
            is_address = "is_address" in COMMANDS["variables"].get(name, {})
            if name in role.env and is_address and _is_elsewhere(role, value):
                hint = "remove it: mlgen sets the address"
                yield problem("localhost", (*path, "env", name), name=name, hint=hint)
        for launch in launches_of(role.spec):
            row = launch.launcher
            sets_nodes = row.in_each_pod and row.nodes in launch.options
            nodes = launch.literal(row.nodes) if sets_nodes else role.env.get(NODES, "1")
            for name in row.addresses if nodes not in ("1", "1:1") else ():
                value = launch.literal(name)
                if value and _is_elsewhere(role, value):
                    first = f"{topology.job.name}-{topology.roles[0].name}-0.{topology.job.name}"
                    address = "$(MASTER_ADDR)" if "MASTER_ADDR" in role.env else first
                    hint = f"use the address of rank 0, {address}"
                    yield problem("localhost", (*path, *launch.path), name=f"--{name}", hint=hint)


def _is_elsewhere(role: Role, address: object) -> bool:
    """Return True if an address is localhost, and rank 0 is not the role's only replica."""
    text = str(address).rpartition("//")[2]
    host = text if text in LOCALHOST else text.rpartition(":")[0]
    return host in LOCALHOST and (role.replicas > 1 or not role.decides or bool(role.index))
