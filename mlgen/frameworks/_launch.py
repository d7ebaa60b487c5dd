"""A role's command line → the launcher that it runs, with the launcher's options.

`schemas/frameworks/commands.json` lists the launchers. mlgen looks for them in `command` and
`args`, including the script of `sh -c`. It splits the script as a shell does, but expands no
variables. A port that contains a variable, such as `$MASTER_PORT`, is the port that mlgen sets.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mlgen.frameworks._tables import COMMANDS
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.quantity import natural
from mlgen.problems import ValuePath
from mlgen.shell import is_python, is_shell, program, simple_commands, text_index


@dataclass(frozen=True)
class Launcher:
    """A launcher in `schemas/frameworks/commands.json`: its options, by their meaning.

    Options are named as in `Launch.options`: without leading dashes, and with `_` for `-`. Options
    that are not listed here have one value.

    Attributes:
        source: the source code that defines the options.
        programs: the command words that start it.
        modules: the module names that start it with `python -m`.
        switches: the options without a value.
        aliases: alternative names of options → the name in `Launch.options`.
        pairs: the options with a name and a value: `--mca NAME VALUE` is the option `mca_NAME`.
        ranges: the options with two values; only the first is kept.
        in_each_pod: True if each pod runs it, and it sets the ranks of the processes in its pod.
            Otherwise, one pod runs it, and it starts processes in all pods.
        nodes: the option for the number of pods; "" if there is none.
        rank: the option for the rank of its own pod.
        processes: the option for the number of processes in each pod.
        all_processes: the option for the number of processes in all pods together.
        addresses: the options for the rendezvous address.
        port: the option for the rendezvous port.
        ssh_port: the option for the port of sshd in other pods.
        reaches: the options that make it start processes in other pods.
        placement: the options that override the slots of mlgen's hostfile.
        placement_variables: parts of the names of variables that do the same.
        exits_with_1: set if it exits with 1 after any failure of its processes; else None. If the
            value has `options` or `arguments`, it does so only with one of these options, or if
            its script begins with these arguments.
    """

    source: str
    programs: Sequence[str]
    modules: Sequence[str] = ()
    switches: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    pairs: Sequence[str] = ()
    ranges: Sequence[str] = ()
    in_each_pod: bool = False
    nodes: str = ""
    rank: str = ""
    processes: str = ""
    all_processes: str = ""
    addresses: Sequence[str] = ()
    port: str = ""
    ssh_port: str = ""
    reaches: Sequence[str] = ()
    placement: Sequence[str] = ()
    placement_variables: Sequence[str] = ()
    exits_with_1: Mapping[str, Any] | None = None


LAUNCHERS = {name: Launcher(**row) for name, row in COMMANDS["launchers"].items()}
"""The supported launchers. The rules about command lines read the columns of this table."""

PROGRAMS = {tuple(words.split()): name for name, row in LAUNCHERS.items() for words in row.programs}
MODULES = {module: name for name, row in LAUNCHERS.items() for module in row.modules}

C10D_PORT = 29400
"""The port of `--rdzv_endpoint HOST` without a port: torch/distributed/elastic/rendezvous/
c10d_rendezvous_backend.py, DEFAULT_PORT."""

MEETING_BACKENDS = (None, "static", "c10d")
"""Rendezvous backends whose endpoint is one of the replicas. Others need a separate server."""

SSH_ARGUMENTS = "OMPI_MCA_plm_rsh_args"
"""The variable with Open MPI's ssh arguments; `--mca plm_rsh_args` on mpirun's command line."""

SSH_PORT = r"""(?:^|\s)(?:-p\s*|-o\s*["']?Port[\s=]\s*)(\d{1,9}\b)"""
SSHD_PORT = rf"\bsshd\b[^;&|\n]*?{SSH_PORT}"


@dataclass(frozen=True)
class Launch:
    """A launcher and its options.

    Attributes:
        program: a key of `LAUNCHERS`: `torchrun` also for `python -m torch.distributed.run`, and
            `mpirun` also for `mpiexec`.
        options: values by name, without leading dashes and with `_` for `-`; the last one counts.
            A switch has the value "". `-n` and similar options are `np`: see `Launcher.aliases`.
        script: the words after the launcher's own options. For ray, they begin with the
            subcommand: ("start",) or ("job", "submit", "python", "train.py").
        path: the field below the role that contains the options: command, args or template.
    """

    program: str
    options: Mapping[str, str]
    script: tuple[str, ...] = ()
    path: ValuePath = ("command",)

    @property
    def launcher(self) -> Launcher:
        """The meaning of its options."""
        return LAUNCHERS[self.program]

    def literal(self, name: str) -> str | None:
        """Return the value of an option; None if it is absent, or known only at run time.

        The name is "" if the launcher has no option with that meaning.
        """
        value = self.options.get(name) if name else None
        return None if value is None or "$" in value or "`" in value else value

    def number(self, name: str) -> int | None:
        """Return the value of an option that is a whole number; else None."""
        value = self.literal(name)
        return natural(value or "")


Placed = tuple[tuple[str, ValuePath], ...]
"""The words of a command line, each with the field below the role that contains it."""


def words_of(spec: RoleSpec) -> tuple[str, ...]:
    """Return the command and args of a role's training container, with its templates merged."""
    return tuple(word for word, _ in _placed(spec))


def launches_of(spec: RoleSpec) -> tuple[Launch, ...]:
    """Return all launchers that a role runs, in the order of its command line."""
    return _launches(_placed(spec))


def _placed(spec: RoleSpec) -> Placed:
    """Return the words of a role's command and args, as `objects.pod` merges its templates."""
    container: dict[str, Any] = {"command": [*spec.command], "args": [*spec.args]}
    fields = {name: (name,) for name in container}
    for patch in spec.container_patches:
        patched = {name: patch[name] for name in fields if name in patch}
        fields |= dict.fromkeys(patched, ("template",))
        container = merged(container, patched)
    return tuple(
        (str(word), field) for name, field in fields.items() for word in container.get(name) or []
    )


def trains(words: Sequence[str]) -> bool:
    """Return True if a simple shell command runs a launcher, or a script with python."""
    start = _start(words)
    if start is None:
        return False
    scripts = any(word.endswith(".py") for word in words[start + 1 :])
    return bool(_launcher(words, start)) or (is_python(words[start]) and scripts)


def text_of(spec: RoleSpec) -> tuple[str, tuple[str, ...], ValuePath] | None:
    """Return a role's shell script, the shell's options, and the field that contains the script.

    None if the role runs a program without a shell.
    """
    placed = _placed(spec)
    words = [word for word, _ in placed]
    start = _start(words)
    index = None if start is None else text_index(words, start)
    if start is None or index is None:
        return None
    return words[index], tuple(words[start + 1 : index]), placed[index][1]


@lru_cache
def _launches(placed: Placed) -> tuple[Launch, ...]:
    """Return the launchers of a command line or a simple shell command.

    Cached, because several checks need the launchers of each role.
    """
    words = [word for word, _ in placed]
    start = _start(words)
    if start is None:
        return ()
    text = text_index(words, start)
    if text is not None:
        at = placed[text][1]
        commands = (tuple((word, at) for word in each) for each in simple_commands(words[text]))
        return tuple(launch for command in commands for launch in _launches(command))
    named = _launcher(words, start)
    if not named:
        return ()
    launcher, after = named
    return (_parsed(launcher, words[after:], placed[min(after, len(words) - 1)][1]),)


def _start(words: Sequence[str]) -> int | None:
    """Return the index of the program that wrappers finally run; None if there is none."""
    wrapped = False
    for index, word in enumerate(words):
        name = program(word)
        if _is_assignment(word):
            continue
        if name in COMMANDS["installers"]:
            return None
        if name in COMMANDS["wrappers"] or "entrypoint" in name:
            wrapped = True
        elif not wrapped or _launcher(words, index) or is_shell(name):
            return index
    return None


def _is_assignment(word: str) -> bool:
    """Return True for `NAME=value`, which sets a variable for the next command."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _launcher(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that starts at an index, and the index after its name; else None."""
    name = program(words[start])
    if is_python(name):
        return _python(words, start + 1)
    for size in (1, 2):
        launcher = PROGRAMS.get((name, *words[start + 1 : start + size]))
        if launcher:
            return launcher, start + size
    return None


def _python(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that `python` runs as a module or a file; see `_launcher`."""
    for index in range(start, len(words)):
        word = words[index]
        if word == "-m" and index + 1 < len(words):
            launcher = MODULES.get(words[index + 1])
            return (launcher, index + 2) if launcher else None
        if not word.startswith("-"):
            name = program(word)
            return (name, index + 1) if name in LAUNCHERS else None
    return None


def _parsed(launcher: str, words: Sequence[str], path: ValuePath) -> Launch:
    """Return a launcher with the words after its name parsed."""
    row, queue, options = LAUNCHERS[launcher], list(words), dict[str, str]()
    subcommand: list[str] = []
    if launcher == "ray":
        size = 2 if queue[:1] == ["job"] else 1
        subcommand, queue = queue[:size], queue[size:]
    while queue and queue[0].startswith("-") and queue[0] != "-":
        word = queue.pop(0)
        if word == "--":
            break
        text, equals, value = word.lstrip("-").partition("=")
        name = text.replace("-", "_")
        if not equals and name in row.pairs and len(queue) > 1:
            name, value = f"{name}_{queue.pop(0).partition('=')[0]}", queue.pop(0)
        elif not equals and name not in row.switches and _is_value(queue):
            value = queue.pop(0)
            if name in row.ranges and _is_value(queue):
                queue.pop(0)
        options[row.aliases.get(name, name)] = value
    return Launch(launcher, options, (*subcommand, *queue), path)


def _is_value(queue: Sequence[str]) -> bool:
    """Return True if the next word can be an option's value, not a program or script."""
    if not queue or queue[0].startswith("-"):
        # A value such as "-p 2222" has a space, which an option does not have.
        return bool(queue) and " " in queue[0]
    return not (is_python(queue[0]) or queue[0].endswith((".py", ".sh")))


def rendezvous_port(*specs: RoleSpec) -> int | None:
    """Return the rendezvous port in the first launcher's flags.

    None if there is no such flag, or its value is known only at run time.
    """
    ports = (_rendezvous_port(launch) for spec in specs for launch in launches_of(spec))
    return next(filter(None, ports), None)


def _rendezvous_port(launch: Launch) -> int | None:
    if launch.program != "torchrun":
        return launch.number(launch.launcher.port)
    if "standalone" in launch.options:
        return None
    backend = launch.literal("rdzv_backend")
    endpoint = launch.options.get("rdzv_endpoint")
    if not endpoint:
        return launch.number("master_port") if backend in (None, "static") else None
    host, _, port = endpoint.rpartition(":")
    if backend not in MEETING_BACKENDS:
        return None
    if (number := natural(port)) is not None:
        return number
    return C10D_PORT if backend == "c10d" and not host else None


def ssh_port(launcher: RoleSpec) -> int | None:
    """Return the ssh port in the flags of a launcher; None if there is none."""
    arguments = launcher.env.get(SSH_ARGUMENTS)
    texts = [arguments] if isinstance(arguments, str) else []
    for launch in launches_of(launcher):
        port = launch.number(launch.launcher.ssh_port)
        if port:
            return port
        texts.append(launch.literal("mca_plm_rsh_args") or "")
    matches = (re.search(SSH_PORT, text) for text in texts)
    return next((int(match[1]) for match in matches if match), None)


def sshd_port(worker: RoleSpec) -> int | None:
    """Return the port of sshd in a role's command, `sshd -p 2200`; None if there is none."""
    match = re.search(SSHD_PORT, " ".join(words_of(worker)))
    return int(match[1]) if match else None
