"""The command line of a container → its commands, scripts, and launchers with their options.

`Lines` reads it once, as a shell does, but expands no variables. `schemas/launch/launchers.json`
lists the launchers. A port that contains a variable, such as `$MASTER_PORT`, is the port that mlgen
sets.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.values import merged
from mlgen.problems import ValuePath
from mlgen.resources import table
from mlgen.shell import OPTION, is_python, is_shell, program, sequence, simple_commands, text_index

COMMANDS: Any = table("launch/launchers")
"""The programs and variables of command lines that have rules.

`Launcher` describes the column `launchers`. The other columns:

    wrappers: words before a program: programs that run another program, and shell keywords.
    batch_systems: the beginning of the names of variables → the system that sets them.
    batch_meanings: parts of the names of these variables → mlgen's variable with that meaning.
    system_programs: programs of batch systems → the system that has them.
    before_training: programs and built-ins that start no training, although its command line may
        follow them by mistake.
    installers: words that package names follow. A package may have the name of a launcher.
    filters: programs that copy their input, and succeed however the input ends.
    trailing: commands after training that succeed independent of the training.
    calls: patterns of calls in Python programs, the variable that these read, and the framework
        that sets it.
    own_launchers: programs that start torchrun themselves: the commands that do so, and the
        variables from which they take the number of pods and the rank of their own.
    parallel_sizes: the options of programs whose product is a number of processes, which the
        processes of the job must be a multiple of; or `in_cluster`, a number of GPUs that a program
        requests from a cluster.
    variables: rows by the name of a variable:
        same_as: the framework's variable with the same meaning.
        counts: `replicas`, or `processes`, of which a replica can have several.
        is_address: true if its value is the rendezvous address.
        options: the options of a launcher that make it ignore the variable. Without this column,
            no launcher reads the variable, or the launcher sets it itself.
"""


@dataclass(frozen=True)
class Launcher:
    """A launcher in `schemas/launch/launchers.json`: its options, by their meaning.

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

    @cached_property
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

SOURCES = (".", "source")
"""The commands of a shell that read a script without running it as a program."""

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

    @cached_property
    def inner(self) -> str | None:
        """The launcher that it starts; None if it starts another program."""
        if "module" in self.options:
            return MODULES.get(self.script[0]) if self.script else None
        inner = Line(self.script).launch
        return inner.program if inner else None

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


@dataclass(frozen=True)
class Script:
    """A shell script that a container runs.

    Attributes:
        text: the script.
        options: the shell's options.
        path: the field below the role that contains the script.
        shell: the name of the shell; "" if unknown.
    """

    text: str
    options: tuple[str, ...]
    path: ValuePath
    shell: str = ""

    @cached_property
    def sequence(self) -> list[tuple[list[str], str]]:
        """Its commands, and the operators after them. [] for a complex script."""
        return sequence(self.text) or []


class File(NamedTuple):
    """A file of a job file: absolute path in the container, content, and path below the role."""

    file: str
    text: str
    path: ValuePath


BRANCHES = r"\b(if|case|while|until)\b|\|\|[^\S\n]*(?!exit|true|:|echo|\{)\S|\w[^\S\n]*\(\)"
"""Parts of a shell script that choose among commands: conditions, alternatives and functions."""

LAUNCHES = 50
"""The number of launchers of a role that are checked. Rules compare each one with the others."""

DEPTH = 30
"""The number of scripts that run each other and are read."""

PATH_MAX = 4096
"""The length of a path, limits.h of Linux."""


@dataclass(frozen=True)
class Line:
    """A simple command that a container runs: `exec torchrun --nnodes=2 train.py`.

    Attributes:
        words: its words, without quotes. Variables are kept as written.
        paths: the path of each word below the role: an item of command or args, `template`, or the
            file of a volume that contains it. () if unknown.
        shell: the script that contains the command; None if no shell runs it.
        folder: the working directory; "" for the image's.
    """

    words: tuple[str, ...]
    paths: tuple[ValuePath, ...] = ()
    shell: Script | None = None
    folder: str = ""

    @cached_property
    def start(self) -> int | None:
        """The index of the program that wrappers such as `nohup` finally run; None without one."""
        wrapped = False
        for index, word in enumerate(self.words):
            name = program(word)
            variable, equals, _ = word.partition("=")
            if equals and variable.isidentifier():  # it sets a variable for the program
                continue
            if name in COMMANDS["installers"]:
                return None
            if name in COMMANDS["wrappers"] or "entrypoint" in name:
                wrapped = True
            elif not wrapped or self._named(index) or is_shell(name) or is_python(name):
                return index
        return None

    @property
    def program(self) -> str:
        """The name of that program, without its path; "" without one."""
        return "" if self.start is None else program(self.words[self.start])

    @property
    def path(self) -> ValuePath:
        """The path of that program; () if unknown."""
        return () if self.start is None or not self.paths else self.paths[self.start]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program."""
        return () if self.start is None else self.words[self.start + 1 :]

    @cached_property
    def launch(self) -> Launch | None:
        """The launcher that it runs, with its options; None for another program."""
        named = None if self.start is None else self._named(self.start)
        return named and self._parsed(*named)

    @property
    def trains(self) -> bool:
        """True if it runs a launcher, a script with python, or a program named after training."""
        if self.start is None:
            return False
        named = re.search(TRAINING, " ".join((self.program, *self.arguments)))
        scripts = any(word.endswith(".py") for word in self.arguments)
        return bool(self._named(self.start) or named) or (is_python(self.program) and scripts)

    @property
    def executables(self) -> Iterator[str]:
        """The words that are run as programs, without an interpreter.

        Launchers such as `mpirun` run one of their arguments, which is a program if it ends in
        `.sh`.
        """
        for before, word in zip(("", *self.words), self.words, strict=False):
            is_read = before in SOURCES or is_shell(before)
            if before in ("", "exec") or (word.endswith(".sh") and not is_read):
                yield word

    def _named(self, start: int) -> tuple[str, int] | None:
        """Return the launcher that starts at an index, and the index after its name; else None."""
        words, name = self.words, program(self.words[start])
        if not is_python(name):
            for after in (start + 1, start + 2):
                key = (name, *words[start + 1 : after])
                if key in PROGRAMS:
                    return PROGRAMS[key], after
            return None
        for index in range(start + 1, len(words)):
            if words[index] == "-m" and index + 1 < len(words):
                launcher = MODULES.get(words[index + 1])
                return (launcher, index + 2) if launcher else None
            if not words[index].startswith("-"):
                name = program(words[index])
                return (name, index + 1) if name in LAUNCHERS else None
        return None

    def _parsed(self, launcher: str, after: int) -> Launch:
        """Return a launcher with the words after its name parsed."""
        row, options, paths = LAUNCHERS[launcher], dict[str, str](), dict[str, ValuePath]()
        written, dashed = dict[str, str](), False
        queue = [*self.words[after:]]
        subcommand: list[str] = []
        if launcher == "ray":
            size = 2 if queue[:1] == ["job"] else 1
            subcommand, queue = queue[:size], queue[size:]
        while queue and queue[0].startswith("-") and queue[0] != "-":
            at = self.paths[-len(queue)] if self.paths else ()
            word = queue.pop(0)
            if dashed := word == "--":
                break
            text, equals, value = word.lstrip("-").partition("=")
            name = text.replace("-", "_")
            has_value = name in row.flags
            if not equals and name in row.pairs and len(queue) > 1:
                name, value = f"{name}_{queue.pop(0).partition('=')[0]}", queue.pop(0)
            elif not equals and name not in row.switches and _is_value(queue, has_value=has_value):
                value = queue.pop(0)
                if name in row.ranges and _is_value(queue):
                    queue.pop(0)
            name = row.aliases.get(name, name)
            options[name], paths[name], written[name] = value, at, word.partition("=")[0]
        path = self.paths[after - 1] if self.paths else ()
        skipped = bool(self.shell and re.search(BRANCHES, self.shell.text))
        script = (*subcommand, *queue)
        return Launch(launcher, options, script, path, paths, written, dashed, skipped)


def _is_value(queue: Sequence[str], *, has_value: bool = False) -> bool:
    """Return True if the next word can be an option's value, not a program or script.

    If the option has a value, it may be a script: `--host-discovery-script hosts.sh`.
    """
    if not queue or queue[0].startswith("-"):
        # A value such as "-p 2222" has a space, which an option does not have.
        return bool(queue) and " " in queue[0]
    return has_value or not (is_python(queue[0]) or queue[0].endswith((".py", ".sh")))


class Lines:
    """The commands that a container runs, read once.

    They are in `command` and `args`, including the script of `sh -c`, and in the scripts of the
    job's `files` that these run. Commands in substitutions and here-documents are omitted.

    Attributes:
        words: the words of `command` and `args`.
        paths: the path of each word; see `Line.paths`.
        files: the files of the job file in the container.
        lines: the simple commands, without the shells that run them.
        scripts: the shell scripts.
    """

    def __init__(
        self,
        words: Sequence[str],
        paths: Sequence[ValuePath] = (),
        files: Sequence[File] = (),
        folder: str = "",
    ) -> None:
        self.words, self.paths, self.files = tuple(words), tuple(paths), tuple(files)
        self.lines: list[Line] = []
        self.scripts: list[Script] = []
        if words:
            # Each file is read once. Of two files with one path, the first counts.
            unread = {each.file: each for each in reversed(self.files)}
            self._read(Line(self.words, self.paths, None, folder), unread)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The first launchers that it runs, in the order of the lines."""
        return tuple([line.launch for line in self.lines if line.launch][:LAUNCHES])

    @property
    def text(self) -> str:
        """The words of `command` and `args`, with blanks between them."""
        return " ".join(self.words)

    @property
    def sshd_port(self) -> int | None:
        """The port of sshd, `sshd -p 2200`; None if there is none."""
        commands = re.split(r"[;&|\n]", self.text)
        after = (re.split(r"\bsshd\b", command, maxsplit=1)[1:] for command in commands)
        matches = (re.search(SSH_PORT, rest[0]) for rest in after if rest)
        return next((int(match[1]) for match in matches if match), None)

    def _read(self, line: Line, unread: dict[str, File], depth: int = 0) -> None:
        """Add the commands and scripts that a command runs."""
        words, start = line.words, line.start
        index = None if start is None else text_index(words, start)
        if start is None:
            self.lines.append(line)
            return
        if index is not None:
            text, path = words[index], line.paths[index] if line.paths else ()
        else:
            # `source FILE` and `sh -e FILE` read a file, and so does a command that is one.
            reads = is_shell(words[start]) or words[start] in SOURCES
            rest = range(start + 1, len(words)) if reads else (start,)
            index = next((at for at in rest if not re.fullmatch(OPTION, words[at])), start)
            name = posixpath.normpath(posixpath.join(line.folder, words[index]))
            found = unread.get(name) if depth < DEPTH else None
            if found is None or not (reads or re.match(SHEBANG, found.text)):
                self.lines.append(line)
                return
            _, text, path = unread.pop(name)
        first = text.partition("\n")[0].split() if text.startswith("#!") else []
        outer = line.shell.shell if line.shell and words[start] in ("source", ".") else ""
        shell = outer or program(next(filter(is_shell, (words[start], *first)), ""))
        script = Script(text, (*words[start + 1 : index], *first[1:]), path, shell)
        self.scripts.append(script)
        folder = line.folder
        for command in simple_commands(text):
            if command[0] == "cd":
                folder = posixpath.join(folder, *command[1:2])[:PATH_MAX]
            inner = Line(tuple(command), (path,) * len(command), script, folder)
            self._read(inner, unread, depth + 1)


def lines_of(spec: RoleSpec) -> Lines:
    """Return the commands of a role's training container, with its templates merged."""
    found: Lines | None = spec.__dict__.get("_lines")
    if found is None:
        container: dict[str, Any] = {"command": [*spec.command], "args": [*spec.args]}
        patched: set[str] = set()
        for patch in spec.container_patches:
            patches = {name: patch[name] for name in container if name in patch}
            patched |= patches.keys()
            container = merged(container, patches)
        words, paths = _placed(container, patched)
        folder = spec.patched("workingDir", spec.working_dir) or ""
        found = Lines(words, paths, files_of(spec), folder)
        spec.__dict__["_lines"] = found  # a role is frozen, so its lines do not change
    return found


def container_lines(container: Mapping[str, Any]) -> Lines:
    """Return the commands of a container of a rendered pod. Paths are below the container."""
    return Lines(*_placed(container))


def files_of(spec: RoleSpec) -> list[File]:
    """Return the files that a role's volumes contain according to the job file."""
    return [
        File(posixpath.join(volume["mountPath"], file), text, ("volumes", name, "files", file))
        for name, volume in spec.volumes.items()
        for file, text in volume.get("files", {}).items()
        if "subPath" not in volume
    ]


def _placed(
    container: Mapping[str, Any], patched: Collection[str] = ()
) -> tuple[list[str], list[ValuePath]]:
    """Return the words of a container's command and args, and the path of each word.

    A field that a template has patched has the path `template`.
    """
    words: list[str] = []
    paths: list[ValuePath] = []
    for name in ("command", "args"):
        for index, word in enumerate(container.get(name) or []):
            words.append(str(word))
            paths.append(("template",) if name in patched else (name, index))
    return words, paths


def rendezvous_port(*specs: RoleSpec) -> int | None:
    """Return the rendezvous port in the first launcher's flags.

    None if there is no such flag, or its value is known only at run time.
    """
    for spec in specs:
        for launch in lines_of(spec).launches:
            if port := _rendezvous_port(launch):
                return port
    return None


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
    for launch in lines_of(launcher).launches:
        port = launch.number(launch.launcher.ssh_port)
        if port:
            return port
        texts.append(launch.literal("mca_plm_rsh_args") or "")
    matches = (re.search(SSH_PORT, text) for text in texts)
    return next((int(match[1]) for match in matches if match), None)


ONE_SHOT = re.compile(r"--?(once|one-time|oneshot|version|help)\b")
"""Options that make a known program exit by itself."""

ENDLESS = re.compile(r"\bsleep\s+(infinity|inf\b|\d{3,}d)|\bwhile\s+(true|:|\[\s*1\s*\])\s*(;|\n)")
"""Parts of a command that run forever, unless another part (ENDS) stops them. See also FOLLOWS."""

COMMAND, TAIL = re.compile(r"[^;|&\n]+"), re.compile(r"\btail(?=\s)")
FOLLOWS = re.compile(r"\s(-[a-zA-Z]*[fF]|--follow)\b")
"""An option with which `tail` runs forever."""

ENDS = re.compile(r"\b(break|exit|return|kill|pkill|timeout|trap)\b|--pid\b")

BACKGROUND = re.compile(r"&\s*(\n|$|\w)")
"""The end of a command that runs in the background."""

ROLES = re.compile(
    r"(^|[-_])(agent|collector|daemon|dashboard|exporter|forwarder|log|logger|logging|logs|metrics"
    r"|monitor|monitoring|proxy|server|shipper|sidecar|watcher|ui)([-_]|$)"
)
"""Words in the name of a container that probably runs until it is stopped."""


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return True if a container clearly runs until it is stopped, as a proxy or log shipper does.

    Its program or command decides. A pod of a Job completes when all of its containers have ended.
    Kubernetes stops only native sidecars (init containers with `restartPolicy: Always`) then:
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    text = container_lines(container).text
    endless = ENDLESS.search(text) or _follows(text)
    if endless:
        return not (ENDS.search(text) or BACKGROUND.search(text, endless.end()))
    return _is_known(container) and not ONE_SHOT.search(text)


def _follows(text: str) -> re.Match[str] | None:
    """Return the option of the first `tail` that runs forever."""
    for command in COMMAND.finditer(text) if "tail" in text else ():
        tail = TAIL.search(text, command.start(), command.end())
        if tail and (found := FOLLOWS.search(text, tail.end(), command.end())):
            return found
    return None


def may_be_sidecar(container: Mapping[str, Any]) -> bool:
    """Return True if a container may run forever, judged by its name, ports and probes."""
    if ONE_SHOT.search(container_lines(container).text):
        return False
    serves = any(container.get(name) for name in ("ports", "livenessProbe", "readinessProbe"))
    return serves or any(ROLES.search(name) for name in _names(container))


def _is_known(container: Mapping[str, Any]) -> bool:
    """Return True for a program in `schemas/launch/sidecars.json`: its command, name or image."""
    command = container.get("command") or []
    # A command, such as a shell, may use the image for another purpose.
    names = [program(str(command[0]))] if command else _names(container)
    return any(name in table("launch/sidecars") for name in names)


def _names(container: Mapping[str, Any]) -> list[str]:
    """Return the name of a container, and of its image without registry, tag and digest."""
    image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2]
    return [str(container.get("name") or ""), image.partition(":")[0]]
