"""A role's command line → the launcher that it runs, with the launcher's options.

`schemas/frameworks/commands.json` lists the launchers. mlgen looks for them in `command` and
`args`, including the script of `sh -c`, and in the scripts of the job's `files` that these run. It
splits a script as a shell does, but expands no variables. A port that contains a variable, such as
`$MASTER_PORT`, is the port that mlgen sets.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from mlgen.frameworks._tables import COMMANDS
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.quantity import natural
from mlgen.problems import ValuePath
from mlgen.shell import OPTION, is_python, is_shell, program, simple_commands, text_index


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
        meets_anywhere: True if the rendezvous address may be any replica, not only rank 0.
        shared: the options that must have the same value in all pods. Of an address, its port.
        ordered: the options whose numbers must not decrease in this order.
        config: the option for a file in which its other options have defaults.
        framework: the framework of jobs that it starts.
        reads: the variable without which it starts processes only in its own pod, if no option
            names other pods.
        device_lists: the options that list the indexes of the GPUs to use.
        required: the options that it needs for several pods, with variables that have their values.
        port: the option for the rendezvous port.
        ssh_port: the option for the port of sshd in other pods.
        hosts: the options whose names of hosts must be in the hostfile.
        reaches: the options that make it start processes in other pods.
        placement: the options that override the slots of mlgen's hostfile.
        orders: options that change the order of the hosts, but not the number of slots, with the
            values for which this is true.
        placement_variables: parts of the names of variables that do the same.
        elastic: the option without which it ignores torchrun's variables of an elastic rendezvous.
        like: the launcher whose columns apply, except for those of its own row.
        alone_without_options: True if it starts one process, without ranks, unless it has options.
        alone: the pattern of programs that train in one process.
        exits_with_1: set if it exits with 1 after any failure of its processes; else None. If the
            value has `options` or `arguments`, it does so only with one of these options, or if
            its script begins with these arguments.
        flags: the other options, which have a value; () if they are not all listed.
        separators: the characters that may separate the words of an option.
        runs_python: True if it runs its program with python, unless an option says otherwise.
        may_start: the launchers that its program may be.
        only: the options, without aliases, that only one implementation has.
        needs: `option=value` → the program without which it fails, and which pods lack.
        values: the pattern of an option's values, and the values in words.
        without_program: the options with which it needs no program.
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
    meets_anywhere: bool = False
    shared: Sequence[str] = ()
    ordered: Sequence[str] = ()
    config: str = ""
    framework: str = ""
    reads: str = ""
    device_lists: Sequence[str] = ()
    required: Mapping[str, Sequence[str]] = field(default_factory=dict)
    port: str = ""
    ssh_port: str = ""
    hosts: Sequence[str] = ()
    reaches: Sequence[str] = ()
    placement: Sequence[str] = ()
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    placement_variables: Sequence[str] = ()
    elastic: str = ""
    like: str = ""
    alone_without_options: bool = False
    alone: str = ""
    exits_with_1: Mapping[str, Any] | None = None
    flags: Sequence[str] = ()
    separators: str = "-_"
    runs_python: bool = False
    may_start: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    without_program: Sequence[str] = ()

    @property
    def known(self) -> set[str]:
        """All options; empty if the row does not list them."""
        meanings = (self.nodes, self.rank, self.processes, self.all_processes, self.port)
        others = (self.switches, self.pairs, self.ranges, self.addresses, self.placement)
        names = {*self.flags, *chain(*others, *self.only.values()), *chain(*self.aliases.items())}
        return {*names, *filter(None, (*meanings, self.ssh_port))} if self.flags else set()


_ROWS = COMMANDS["launchers"]
LAUNCHERS = {name: Launcher(**_ROWS.get(row.get("like"), {}) | row) for name, row in _ROWS.items()}
"""The supported launchers. The rules about command lines read the columns of this table."""

PROGRAMS = {tuple(words.split()): name for name, row in LAUNCHERS.items() for words in row.programs}
MODULES = {module: name for name, row in LAUNCHERS.items() for module in row.modules}

C10D_PORT = 29400
"""The port of `--rdzv_endpoint HOST` without a port: torch/distributed/elastic/rendezvous/
c10d_rendezvous_backend.py, DEFAULT_PORT."""

MEETING_BACKENDS = (None, "static", "c10d")
"""Rendezvous backends whose endpoint is one of the replicas. Others need a separate server."""

HOSTFILES = (None, "/etc/mpi/hostfile", "/job/hostfile")
"""The values of --hostfile that mean mlgen's own hostfile; None: the option is not used."""

SSH_ARGUMENTS = "OMPI_MCA_plm_rsh_args"
"""The variable with Open MPI's ssh arguments; `--mca plm_rsh_args` on mpirun's command line."""

SHEBANG = r"#!.*sh\b"
"""The first line of a file that a shell runs."""

TRAINING = (
    r"^(?=\S*( |$))\S*(train|tune)|^\S+ train( |$)|^(python|pypy)\S* (-\S+ )*-m \S*(train|tune)"
)
"""A command line of a program that trains: `train.sh`, `axolotl train`, `python -m a.train`."""

FOREVER = r"(\S*/)?(sleep (inf|\d+d|\d{6,})|tail (\S+ )*(-f|--follow|-F)\b)"
"""A command that does not end by itself."""

SSH_PORT = r"""(?:^|\s)(?:-p\s*|-o\s*["']?Port[\s=]\s*)(\d{1,9}\b)"""


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
        path: the path below the role of the launcher's name; see `Placed`.
        paths: the path of each option.
        written: the spelling of each option, with its dashes.
        dashed: True if `--` ends the options.
        may_be_skipped: True if a script may run another command instead.
    """

    program: str
    options: Mapping[str, str]
    script: tuple[str, ...] = ()
    path: ValuePath = ("command",)
    paths: Mapping[str, ValuePath] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    dashed: bool = False
    may_be_skipped: bool = field(default=False, compare=False)

    @property
    def launcher(self) -> Launcher:
        """The meaning of its options."""
        return LAUNCHERS[self.program]

    @property
    def inner(self) -> str | None:
        """The launcher that it starts; None if it starts another program."""
        if "module" in self.options:
            return MODULES.get(self.script[0]) if self.script else None
        start = program_index(self.script)
        named = None if start is None else _launcher(self.script, start)
        return named[0] if named else None

    def place(self, text: str) -> ValuePath:
        """Return the path of the first option that a message names, else of the launcher."""
        flags = (flag.replace("-", "_") for flag in re.findall(r"(?<!\S)--?([\w-]+)", text))
        names = [self.launcher.aliases.get(flag, flag) for flag in flags]
        pairs = tuple(f"{name}_" for name in names if name in self.launcher.pairs)
        named = (at for name, at in self.paths.items() if pairs and name.startswith(pairs))
        first = next(named, self.path)
        return next((self.paths[name] for name in names if name in self.paths), first)

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
"""The words of a command, each with its path below the role: an item of command or args,
`template`, or the file of a volume that contains it."""


@dataclass(frozen=True)
class Script:
    """A shell script that a role runs.

    Attributes:
        text: the script.
        options: the shell's options.
        path: the field below the role that contains the script.
    """

    text: str
    options: tuple[str, ...]
    path: ValuePath


File = tuple[str, str, ValuePath]
"""A file of a job file: absolute path in the container, content, and path below the role."""

Files = tuple[File, ...]

BRANCHES = r"\b(if|case|while|until)\b|\|\|[^\S\n]*(?!exit|true|:|echo|\{)\S|\w[^\S\n]*\(\)"
"""Parts of a shell script that choose among commands: conditions, alternatives and functions."""

LAUNCHES = 50
"""The number of launchers of a role that are checked. Rules compare each one with the others."""

DEPTH = 30
"""The number of scripts that run each other and are read."""

PATH_MAX = 4096
"""The length of a path, limits.h of Linux."""


def words_of(spec: RoleSpec) -> tuple[str, ...]:
    """Return the command and args of a role's training container, with its templates merged."""
    return tuple(word for word, _ in _placed(spec))


def launches_of(spec: RoleSpec) -> tuple[Launch, ...]:
    """Return the first launchers that a role runs, in the order of its command line."""
    return _read(spec)[2]


def commands_of(spec: RoleSpec) -> tuple[Placed, ...]:
    """Return the simple commands that a role runs, without the shells that run them."""
    return _read(spec)[0]


def scripts_of(spec: RoleSpec) -> tuple[Script, ...]:
    """Return the shell scripts that a role runs: of `sh -c`, and of the job's `files`."""
    return _read(spec)[1]


def files_of(spec: RoleSpec) -> Files:
    """Return the files that a role's volumes contain according to the job file."""
    return tuple(
        (posixpath.join(volume["mountPath"], file), text, ("volumes", name, "files", file))
        for name, volume in spec.volumes.items()
        for file, text in volume.get("files", {}).items()
        if "subPath" not in volume
    )


def working_dir_of(spec: RoleSpec) -> str:
    """Return the working directory of a role's training container; "" for the image's."""
    return spec.patched("workingDir", spec.working_dir) or ""


def _placed(spec: RoleSpec) -> Placed:
    """Return the words of a role's command and args, as `objects.pod` merges its templates."""
    container: dict[str, Any] = {"command": [*spec.command], "args": [*spec.args]}
    patched: set[str] = set()
    for patch in spec.container_patches:
        patches = {name: patch[name] for name in container if name in patch}
        patched |= patches.keys()
        container = merged(container, patches)
    return tuple(
        (str(word), ("template",) if name in patched else (name, index))
        for name in ("command", "args")
        for index, word in enumerate(container.get(name) or [])
    )


Parts = tuple[tuple[Placed, ...], tuple[Script, ...], tuple[Launch, ...]]
"""The simple commands, the scripts and the launchers of a role."""


def _read(spec: RoleSpec) -> Parts:
    return _parts(_placed(spec), files_of(spec), working_dir_of(spec))


@lru_cache(maxsize=8)
def _parts(placed: Placed, files: Files, folder: str) -> Parts:
    commands, scripts = _commands(placed, {file[0]: file for file in reversed(files)}, folder)
    branches = {script.path for script in scripts if re.search(BRANCHES, script.text)}
    launches = (
        replace(launch, may_be_skipped=launch.path in branches)
        for words in commands
        for launch in launches_in(words)
    )
    return tuple(commands), tuple(scripts), tuple(islice(launches, LAUNCHES))


def _commands(
    placed: Placed, files: dict[str, File], folder: str, depth: int = 0
) -> tuple[list[Placed], list[Script]]:
    """Return the simple commands and the scripts that a command runs.

    Args:
        placed: the words of the command.
        files: the files that may be scripts, and are not yet read, by path. Each is read once.
        folder: the working directory.
        depth: the number of scripts around the command.
    """
    words = [word for word, _ in placed]
    start = program_index(words)
    if start is None:
        return ([placed] if placed else []), []
    index = text_index(words, start)
    if index is not None:
        text, path = placed[index]
    else:
        # `source FILE` and `sh -e FILE` read a file, and so does a command that is one.
        reads = is_shell(words[start]) or words[start] in ("source", ".")
        rest = range(start + 1, len(words)) if reads else (start,)
        index = next((at for at in rest if not re.fullmatch(OPTION, words[at])), start)
        name = posixpath.normpath(posixpath.join(folder, words[index]))
        found = files.get(name) if depth < DEPTH else None
        if found is None or not (reads or re.match(SHEBANG, found[1])):
            return [placed], []
        _, text, path = files.pop(name)
    first = text.partition("\n")[0].split()[1:] if text.startswith("#!") else []
    options = (*words[start + 1 : index], *first)
    commands: list[Placed] = []
    scripts = [Script(text, options, path)]
    for command in simple_commands(text):
        if command[0] == "cd":
            folder = posixpath.join(folder, *command[1:2])[:PATH_MAX]
        inner = _commands(tuple((word, path) for word in command), files, folder, depth + 1)
        commands += inner[0]
        scripts += inner[1]
    return commands, scripts


def trains(words: Sequence[str]) -> bool:
    """Return True if a simple shell command runs a launcher, or a script with python.

    Also for other programs and modules that are named after training.
    """
    start = program_index(words)
    if start is None:
        return False
    scripts = any(word.endswith(".py") for word in words[start + 1 :])
    named = re.search(TRAINING, " ".join((program(words[start]), *words[start + 1 :])))
    return bool(_launcher(words, start) or named) or (is_python(words[start]) and scripts)


def launches_in(placed: Placed) -> tuple[Launch, ...]:
    """Return the launcher of a simple command, if any."""
    words = [word for word, _ in placed]
    start = program_index(words)
    named = None if start is None else _launcher(words, start)
    if not named:
        return ()
    launcher, after = named
    return (_parsed(launcher, placed[after:], placed[after - 1][1]),)


def program_index(words: Sequence[str]) -> int | None:
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
        elif not wrapped or _launcher(words, index) or is_shell(name) or is_python(name):
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


def _parsed(launcher: str, placed: Placed, path: ValuePath) -> Launch:
    """Return a launcher with the words after its name parsed."""
    row, options, paths = LAUNCHERS[launcher], dict[str, str](), dict[str, ValuePath]()
    written, dashed = dict[str, str](), False
    queue = [word for word, _ in placed]
    subcommand: list[str] = []
    if launcher == "ray":
        size = 2 if queue[:1] == ["job"] else 1
        subcommand, queue = queue[:size], queue[size:]
    while queue and queue[0].startswith("-") and queue[0] != "-":
        at = placed[-len(queue)][1]
        word = queue.pop(0)
        if dashed := word == "--":
            break
        text, equals, value = word.lstrip("-").partition("=")
        name = text.replace("-", "_")
        if not equals and name in row.pairs and len(queue) > 1:
            name, value = f"{name}_{queue.pop(0).partition('=')[0]}", queue.pop(0)
        elif not equals and name not in row.switches and _is_value(queue):
            value = queue.pop(0)
            if name in row.ranges and _is_value(queue):
                queue.pop(0)
        name = row.aliases.get(name, name)
        options[name], paths[name], written[name] = value, at, word.partition("=")[0]
    script = (*subcommand, *queue)
    return Launch(launcher, options, script, path, paths, written, dashed)


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
    if "rdzv_endpoint" not in launch.launcher.addresses:
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
    commands = re.split(r"[;&|\n]", " ".join(words_of(worker)))
    after = (re.split(r"\bsshd\b", command, maxsplit=1)[1:] for command in commands)
    matches = (re.search(SSH_PORT, rest[0]) for rest in after if rest)
    return next((int(match[1]) for match in matches if match), None)
