"""A role's command line → the launcher that it runs, with the launcher's options.

The launchers are those of `schemas/frameworks/commands.json`. They are found in `command` and
`args`, also in the text of `sh -c`. The text is split as a shell splits it, but nothing in it is
expanded. A port that contains a variable, such as `$MASTER_PORT`, is the one that mlgen decides.
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

    Options are named as in `Launch.options`: without leading dashes, and with `_` for `-`. Those
    that are not named here have one value.

    Attributes:
        source: where the options were read.
        programs: the words with which it starts.
        modules: the names by which `python -m` starts it.
        switches: the options that have no value.
        aliases: the name under which `Launch.options` has an option that has several names.
        pairs: the options with a name and a value: `--mca NAME VALUE` is the option `mca_NAME`.
        ranges: the options with two values, of which the first one is kept.
        in_each_pod: whether each pod runs it, and it sets the ranks of the processes in its pod.
            Otherwise, one pod runs it, and it starts processes in all of them.
        nodes: the option with the number of pods; "" if there is none.
        rank: that with the rank of its own pod among them.
        processes: that with the number of processes in each pod.
        all_processes: that with the number of processes in all pods together.
        addresses: those with the address at which all processes meet.
        port: that with the port there.
        ssh_port: that with the port of sshd in other pods.
        reaches: the options without which it starts processes in its own pod only.
        placement: those with which the slots of mlgen's hostfile do not limit or place processes.
        placement_variables: parts of the names of variables that do the same.
        exits_with_1: given if it exits with 1 after any failure of its processes: only with one of
            its `options`, and with `arguments` first, if it has these. None if it does not.
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
"""The launchers that mlgen knows. A rule about command lines reads the columns of this table."""

PROGRAMS = {tuple(words.split()): name for name, row in LAUNCHERS.items() for words in row.programs}
MODULES = {module: name for name, row in LAUNCHERS.items() for module in row.modules}

C10D_PORT = 29400
"""Of `--rdzv_endpoint HOST` without a port: torch/distributed/elastic/rendezvous/
c10d_rendezvous_backend.py, DEFAULT_PORT."""

MEETING_BACKENDS = (None, "static", "c10d")
"""Rendezvous backends whose endpoint is one of the replicas; others have a server of their own."""

SSH_ARGUMENTS = "OMPI_MCA_plm_rsh_args"
"""Arguments that Open MPI gives to ssh; on mpirun's command line `--mca plm_rsh_args`."""

SSH_PORT = r"""(?:^|\s)(?:-p\s*|-o\s*["']?Port[\s=]\s*)(\d{1,9}\b)"""
SSHD_PORT = rf"\bsshd\b[^;&|\n]*?{SSH_PORT}"


@dataclass(frozen=True)
class Launch:
    """A launcher and its options.

    Attributes:
        program: a key of `LAUNCHERS`: `torchrun` also for `python -m torch.distributed.run`, and
            `mpirun` also for `mpiexec`.
        options: by name, without leading dashes and with `_` for `-`; the last one counts. A
            switch has the value "". `-n` and its like are `np`: see `Launcher.aliases`.
        script: the words after the launcher's own options. Those of ray begin with its
            subcommand: ("start",) or ("job", "submit", "python", "train.py").
        path: the field below the role that has the options: command, args or template.
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

        It is absent if the launcher has none of that meaning: then the name is "".
        """
        value = self.options.get(name) if name else None
        return None if value is None or "$" in value or "`" in value else value

    def number(self, name: str) -> int | None:
        """Return the value of an option that is a whole number; else None."""
        value = self.literal(name)
        return natural(value or "")


Placed = tuple[tuple[str, ValuePath], ...]
"""The words of a command line, each with the field below the role that has it."""


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
    """Return whether a simple command of a shell runs a launcher, or a script with python."""
    start = _start(words)
    if start is None:
        return False
    scripts = any(word.endswith(".py") for word in words[start + 1 :])
    return bool(_launcher(words, start)) or (is_python(words[start]) and scripts)


def text_of(spec: RoleSpec) -> tuple[str, tuple[str, ...], ValuePath] | None:
    """Return the text that a role runs in a shell, the shell's options, and the field of the text.

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
    """Return the launchers of a command line, or of a simple command of a shell.

    Several checks ask for those of each role.
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
    """Return the index of the program that runs in the end; None if there is none."""
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
    """Return True for `NAME=value`, which sets a variable of the command that follows."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _launcher(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that starts at an index, and the index after its name; or None."""
    name = program(words[start])
    if is_python(name):
        return _python(words, start + 1)
    for size in (1, 2):
        launcher = PROGRAMS.get((name, *words[start + 1 : start + size]))
        if launcher:
            return launcher, start + size
    return None


def _python(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that `python` runs as a module or a file, as `_launcher` does."""
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
    """Return True if the next word can be an option's value, and is no program or script."""
    if not queue or queue[0].startswith("-"):
        # A value such as "-p 2222" has a space, which an option does not have.
        return bool(queue) and " " in queue[0]
    return not (is_python(queue[0]) or queue[0].endswith((".py", ".sh")))


def rendezvous_port(*specs: RoleSpec) -> int | None:
    """Return the port at which the processes of these roles meet, from the first launcher's flags.

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
    """Return the port that a launcher's flags tell ssh to connect to; None if there are none."""
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
    """Return the port of sshd in a role's command, `sshd -p 2200`; None if it is not there."""
    match = re.search(SSHD_PORT, " ".join(words_of(worker)))
    return int(match[1]) if match else None
