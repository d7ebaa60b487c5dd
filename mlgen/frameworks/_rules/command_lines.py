"""Command lines and variables of ranked replicas, against the replicas, processes and GPUs.

Launchers such as torchrun run once in each replica, and must agree on the number of replicas. A
variable in which replicas differ cannot be the same in all of them. What a program does with its
variables is its own affair, so most of these contradictions are warnings.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from mlgen.bounds import NUMBER_DIGITS
from mlgen.frameworks._launch import Launch, launches_of, words_of
from mlgen.frameworks._rules import rank_variables
from mlgen.frameworks._rules.rank_variables import roles_of
from mlgen.jobfile import gpus
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.quantity import natural
from mlgen.problems import Problem
from mlgen.shell import is_python, is_shell, simple_commands, text_index
from mlgen.topology import INDEX, INDEX_NAME, Topology

PROCESSES = "PET_NPROC_PER_NODE"

NODES = "PET_NNODES"
"""The variable that tells torchrun the number of replicas. Frameworks with it have ranks."""


@dataclass(frozen=True)
class Launched:
    """A launcher that the replicas of a role run.

    Attributes:
        topology: of the job.
        spec: the role in the job file.
        launch: the launcher.
        env: the framework's variables of the role.
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
        """True if each launcher must know its rank: with another rendezvous, ranks are assigned."""
        backend = self.launch.options.get("rdzv_backend", self.spec.env.get("PET_RDZV_BACKEND"))
        return backend == "static" or (backend is None and "PET_RDZV_BACKEND" not in self.env)

    def problem(self, message: str, hint: str, *, warning: bool = True) -> Problem:
        """Return a problem of the command line."""
        path = ("spec", "roles", self.spec.name, *self.launch.path)
        return Problem(path, message, "launch", hint, warning)


def problems(topology: Topology) -> Iterator[Problem]:
    """Return where command lines and variables contradict the job."""
    for name, spec in topology.job.roles.items():
        roles = roles_of(topology, name)
        env = roles[0].env if roles else {}
        for launch in launches_of(spec):
            launched = Launched(topology, spec, launch, env)
            for check in CHECKS.get(launch.program, ()):
                yield from check(launched)
        yield from _processes_option(spec, env)
    yield from rank_variables.problems(topology)


def _nodes(launched: Launched) -> Iterator[Problem]:
    """Compare the number of nodes of a launcher with the replicas."""
    launch, replicas = launched.launch, launched.replicas
    option = "num_machines" if launch.program == "accelerate" else "nnodes"
    numbers = re.findall(r"\d+", launch.literal(option) or "")
    bounds = [int(text[:NUMBER_DIGITS]) for text in numbers]  # more digits are no less too many
    ranked = NODES in launched.env
    if ranked and "standalone" in launch.options and replicas > 1:
        yield launched.problem(*_alone("--standalone", replicas))
    elif bounds:
        flag = f"--{option}={launch.literal(option)}"
        most = max(*bounds, 0)
        scaled_to = int(str(launched.env.get(NODES, 0)).rpartition(":")[2])
        everyone = max(launched.topology.job.replicas, scaled_to)
        if min(bounds) > everyone:
            message = f"{flag} waits for {min(bounds)} pods, but the job has {everyone}"
            hint = f"write --{option}={replicas}"
            yield launched.problem(message, hint, warning=not ranked)
        elif ranked and most == 1 < replicas:
            yield launched.problem(*_alone(flag, replicas))
        elif ranked and most < replicas:
            message = f"with {flag}, {replicas - most} of the {replicas} replicas do not take part"
            yield launched.problem(message, f"write --{option}={replicas}")


def _alone(flag: str, replicas: int) -> tuple[str, str]:
    """Return message and hint for replicas that do not train together."""
    return f"with {flag}, each of the {replicas} replicas trains alone", f"remove {flag}"


def _node_rank(launched: Launched) -> Iterator[Problem]:
    """Report a rank that is the same in several replicas: the rendezvous never completes."""
    launch, replicas = launched.launch, launched.spec.replicas
    prefix = ("num_machines", "machine") if launch.program == "accelerate" else ("nnodes", "node")
    count, rank = launch.literal(prefix[0]), launch.number(f"{prefix[1]}_rank")
    ranked, flag = NODES in launched.env, f"--{prefix[1]}_rank={rank}"
    alone = count in ("1", "1:1") or (prefix[0] not in launch.options and not ranked)
    if rank is None or alone or "standalone" in launch.options or not launched.is_static:
        return
    hint = f"write --{prefix[1]}_rank=$({'RANK' if ranked else INDEX_NAME})"
    own_rank = _own_rank(launched) if ranked else None
    if replicas > 1:
        message = f"{flag} is the same in all {replicas} replicas, which need different ranks"
        yield launched.problem(message, hint, warning=False)
    elif own_rank not in (None, rank):
        yield launched.problem(f"{flag}, but the rank of this replica is {own_rank}", hint)


def _own_rank(launched: Launched) -> int | None:
    """Return the rank of a role's only replica; None if it is unknown."""
    name = launched.spec.name
    role = roles_of(launched.topology, name)[0]
    index = role.merged.index(name) if name in role.merged else role.index or 0
    rank = str(role.env.get("PET_NODE_RANK", "")).replace(INDEX, str(index))
    return natural(rank)


def _processes(launched: Launched) -> Iterator[Problem]:
    """Compare the processes that torchrun starts with `nprocPerNode` and the GPUs."""
    launch, job = launched.launch, launched.topology.job
    flag = launch.number("nproc_per_node")
    option = job.options.get("nprocPerNode") if NODES in launched.env else None
    if flag and isinstance(option, int) and option != flag:
        message = f"--nproc_per_node={flag} overrides nprocPerNode: {option}"
        yield launched.problem(message, "remove one of the two")
    count = gpus.count(launched.spec)
    if flag and 0 < count < flag:
        message = f"--nproc_per_node={flag} starts more processes than the pod has GPUs, {count}"
        yield launched.problem(message, f"write --nproc_per_node={count}")


def _all_processes(launched: Launched) -> Iterator[Problem]:
    """Compare the processes that accelerate starts, on all machines, with the GPUs."""
    launch = launched.launch
    total, machines = launch.number("num_processes"), launch.number("num_machines") or 1
    count = gpus.count(launched.spec)
    if total and 0 < count * machines < total and "cpu" not in launch.options:
        message = (
            f"--num_processes={total} starts more processes than there are GPUs,"
            f" {count} in each of {machines} pods"
        )
        yield launched.problem(message, f"write --num_processes={count * machines}")


def _deepspeed(launched: Launched) -> Iterator[Problem]:
    """Warn of the deepspeed launcher in each replica: it starts processes in its own pod only.

    Without a hostfile, and without --no_ssh, it trains alone (deepspeed/launcher/runner.py).
    """
    elsewhere = {"hostfile", "no_ssh", "launcher"} & set(launched.launch.options)
    if NODES in launched.env and launched.replicas > 1 and not elsewhere:
        message, _ = _alone("the deepspeed launcher", launched.replicas)
        yield launched.problem(message, "write torchrun instead, or use framework: deepspeed")


def _processes_option(spec: RoleSpec, env: Mapping[str, object]) -> Iterator[Problem]:
    """Compare `nprocPerNode` with the GPUs, and with a program that is started only once."""
    command = ("spec", "roles", spec.name, "command")
    if "PET_RDZV_ENDPOINT" in env and (script := _lone_script(spec)):
        message = f"elasticPolicy needs torchrun: python starts {script} without a rank"
        yield Problem(command, message, "launch", f"write torchrun {script}", warning=True)
    value = str(env.get(PROCESSES, ""))
    processes, count = natural(value) or 0, gpus.count(spec)
    if processes in (0, 1) or PROCESSES in spec.env:
        return
    if "WORLD_SIZE" in env and (script := _lone_script(spec)):
        message = (
            f"python starts one process of {script} in each replica, but because of nprocPerNode:"
            f" {processes}, WORLD_SIZE is {env['WORLD_SIZE']}"
        )
        hint = f"write torchrun {script}, or remove nprocPerNode, unless it starts the others"
        yield Problem(command, message, "launch", hint, warning=True)
    elif 0 < count < processes and not any(
        "nproc_per_node" in launch.options for launch in launches_of(spec)
    ):
        message = f"nprocPerNode: {processes} is more than the GPUs of a pod, {count}"
        path = ("spec", "options", "nprocPerNode")
        yield Problem(path, message, "launch", f"write nprocPerNode: {count}", warning=True)


def _lone_script(spec: RoleSpec) -> str | None:
    """Return the script that a role runs with python, in one process; None if it is not known."""
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


PREFIX = r"(?s)exec|nohup|time|[A-Za-z_]\w*=.*"
"""A word before a program: another that runs it, or a variable for it."""

SEVERAL = (
    r"nproc|gpu|device|process|spawn|launch|strategy|xargs|parallel|(?<!&)&(?!&)|\b(for|while)\b"
)
"""Words of a command line that may start several processes."""


CHECKS: Mapping[str, tuple[Callable[[Launched], Iterator[Problem]], ...]] = {
    "torchrun": (_nodes, _node_rank, _processes),
    "accelerate": (_nodes, _node_rank, _all_processes),
    "deepspeed": (_deepspeed,),
}
"""By launcher."""
