"""Check how command lines start programs: scripts of shells, and the programs of launchers.

`schemas/launch/launchers.json` lists the options of each launcher, with their source.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile

from mlgen.launch._old import at_flag
from mlgen.launch._old import (
    FOREVER,
    LAUNCHERS,
    MODULES,
    PROGRAMS,
    Launch,
    Placed,
    Script,
    commands_of,
    launches_in,
    launches_of,
    program_index,
    scripts_of,
    trains,
    words_of,
)
from mlgen.launch._old import roles_of, users_of
from mlgen.frameworks._tables import problem
from mlgen.launch.line import COMMANDS
from mlgen.jobfile.model import RoleSpec, TrainingJob, containers_of
from mlgen.problems import Problem, ValuePath, listed, similar
from mlgen.shell import (
    cut,
    has_carriage_returns,
    is_python,
    is_shell,
    once,
    program,
    simple_commands,
    unclosed,
)
from mlgen.topology import Topology

CLOSE = 0.85
"""Similarity from which an unknown option counts as a typing error, not as a new option."""

SHORTEST = 4
"""The length from which an option is compared with others."""

VARIABLE = r"\$\{?([A-Z]+_[A-Z0-9_]+)\b(?!:?[-+=?])"
"""A variable in a script, unless it has a default."""

NAME, OWN = r"\b([A-Z]+_[A-Z0-9_]+)", r"\b([A-Z]+_[A-Z0-9_]+):?[-+=?]"
"""A variable anywhere in a script, and one that it sets, or that has a default."""

TESTS = r"(?<!\S)\[|\btest\b|\bcase\b"
"""A pattern of commands that test whether a variable is set."""

PRINTS = r"(?:^|[\n;&])[^\S\n]*(?:echo|printf)\b[^\n;&|<>]*(?=[\n;&]|$)"
"""A pattern of commands that only print variables."""

PROGRAM_TESTS = r"\b(if|which|type|command -v)\b|\["
"""A pattern of scripts that may test whether a program exists."""

FOLLOWING = 100
"""The number of words in which training is found that follows another command by mistake."""

DASHES = "\N{EN DASH}\N{EM DASH}"

Doubts = Iterator[Problem]


def command_problems(topology: Topology) -> Doubts:
    """Return the problems of the command lines of all roles."""
    roles = topology.job.roles
    ranks_by_mpi = "launcher" in roles or any(
        not launch.launcher.in_each_pod for spec in roles.values() for launch in launches_of(spec)
    )
    for name, spec in roles.items():
        words = [(script.text, script.path) for script in scripts_of(spec)]
        breaks = [(word, path) for text, path in words if (word := cut(text))]
        for word, path in breaks:
            yield problem("line-break", ("roles", name, *path), word=word)
        yield from _line_ends(spec)
        env = {variable for role in roles_of(topology, name) for variable in role.env}
        yield from _batch_variables(spec, env, ranks_by_mpi=ranks_by_mpi)
        yield from _programs(spec)
        yield from _scripts(spec)
        yield from _daemons(topology.job, spec)
        for launch in launches_of(spec):
            checks = [check for check in CHECKS if not (breaks and check is _no_program)]
            yield from (each for check in checks for each in check(topology.job, spec, launch))


def _batch_variables(spec: RoleSpec, env: Collection[str], *, ranks_by_mpi: bool) -> Doubts:
    """Report variables of batch systems, unless the script has a default, a test or a value.

    Args:
        spec: the role.
        env: the names of its variables from mlgen.
        ranks_by_mpi: True if a launcher of the job gives its processes their ranks.
    """
    for script in () if spec.may_have_more_env else scripts_of(spec):
        for name in _undefined(script):
            systems = COMMANDS["batch_systems"].items()
            system = next((system for start, system in systems if name.startswith(start)), None)
            known = name in spec.env or (system in LAUNCHERS and ranks_by_mpi)
            if system and not known:
                meanings = COMMANDS["batch_meanings"].items()
                own = next((own for part, own in meanings if part in name and own in env), None)
                hint = f"write ${own}" if own else f"define {name} in env"
                path = ("roles", spec.name, *script.path)
                yield problem("batch-variable", path, system=system, name=name, hint=hint)


@once
def _undefined(script: Script) -> list[str]:
    """Return the variables that a script uses without a value, a default or a test."""
    names = dict.fromkeys(re.findall(VARIABLE, script.text))
    text = re.sub(PRINTS, "", script.text) if names else ""
    commands = (re.split(TESTS, command, maxsplit=1) for command in re.split(r"[\n;]", text))
    tested = {name for _, *rest in commands for name in re.findall(NAME, " ".join(rest))}
    own = {*re.findall(OWN, text)} | tested
    used = {*re.findall(NAME, text)}
    return [name for name in names if name in used and name not in own]


def _programs(spec: RoleSpec) -> Doubts:
    """Report programs that pods do not have, and words that cannot be a program or an option."""
    tests = any(re.search(PROGRAM_TESTS, script.text) for script in scripts_of(spec))
    for row, path, values in _of_programs(commands_of(spec), tests=tests):
        yield problem(row, ("roles", spec.name, *path), **values)


@once
def _of_programs(
    commands: Sequence[Placed], *, tests: bool
) -> Iterator[tuple[str, ValuePath, dict[str, str]]]:
    """Yield the rows of these problems, their paths below the role, and their values."""
    for placed in commands:
        words = [word for word, _ in placed]
        for word, path in placed:
            if re.match(rf"[{DASHES}][a-zA-Z]", word):
                meant = f"--{word.lstrip(DASHES)}"
                yield "other-dash", path, {"word": word, "meant": meant}
        start = program_index(words)
        if start is None:
            continue
        name, following = program(words[start]), words[start + 1 :]
        at = placed[start][1]
        system = COMMANDS["system_programs"].get(name)
        if system and not tests:
            yield "needs-system", at, {"flag": name, "system": system}
        command = next((each for each in PROGRAMS if each[:-1] == (name,)), None)
        if command and following and following[0].endswith(".py"):
            meant = " ".join((*command, following[0]))
            yield "no-subcommand", at, {"name": name, "word": following[0], "meant": meant}
        options = [*dropwhile(lambda word: re.fullmatch(r"-[^m]\w*", word), following), ""]
        if not is_python(name) or options[0] != "-m" or not options[1]:
            continue
        module = options[1]
        package = module.partition(".")[0]
        own = [each for each in MODULES if each.partition(".")[0] == package]
        close = similar(module, own, CLOSE)
        if module.endswith(".py") or "/" in module:
            yield "module-of-file", at, {"word": module}
        elif close and module != close and not module.startswith(f"{close}."):
            yield "unknown-module", at, {"module": module, "meant": close}


def _scripts(spec: RoleSpec) -> Doubts:
    """Report scripts that a shell rejects, and training that is an argument of another command."""
    for script in scripts_of(spec):
        path, quote = ("roles", spec.name, *script.path), unclosed(script.text)
        commands = simple_commands(script.text)
        if quote:
            yield problem("unclosed-quote", path, quote=quote)
        elif script.text.strip() and not commands:
            yield problem("only-comments", path)
        for words in commands:
            before = program(words[0]) in COMMANDS["before_training"] and "--" not in words
            starts = range(1, min(len(words), FOLLOWING)) if before else ()
            at = next((index for index in starts if _is_started(words[index:])), None)
            if at:
                texts = {"word": words[at], "name": words[0]}
                yield problem("not-separated", path, **texts)


def _line_ends(spec: RoleSpec) -> Doubts:
    """Report scripts whose lines end with a carriage return."""
    paths = {script.path: None for script in scripts_of(spec) if "\r\n" in script.text}
    for name, volume in spec.volumes.items():
        for file, text in (volume.get("files") or {}).items():
            if has_carriage_returns(file, text):
                paths["volumes", name, "files", file] = None
    for path in paths:
        yield problem("line-ends", ("roles", spec.name, *path))


def _daemons(job: TrainingJob, spec: RoleSpec) -> Doubts:
    """Report a last command that continues in the background, and workers without sshd."""
    commands = [[word for word, _ in placed] for placed in commands_of(spec)]
    last = commands[-1] if commands else [""]
    path = ("roles", spec.name, "command")
    daemon = program(last[0]) == "sshd" and not any(re.match(r"-\w*[Ddt]", word) for word in last)
    if daemon or (last[0] == "service" and last[-1] == "start"):
        yield problem("daemon", path, command=" ".join(last))
    by_ssh = job.options.get("transport") == "ssh" and spec.name == "worker"
    several = [each for template in spec.templates for each in containers_of(template)]
    # Without a command, the entrypoint of the image may start sshd.
    replaces = spec.command and len(commands) == 1 and not several
    if by_ssh and replaces and re.match(FOREVER, " ".join(last)):
        yield problem("no-sshd", path, command=" ".join(last))


def _is_started(words: Sequence[str]) -> bool:
    """Return True for words that begin with python or a launcher, and name a Python script."""
    named = is_python(words[0]) or any(program(words[0]) == each[0] for each in PROGRAMS)
    return named and any(word.endswith(".py") for word in words[1:]) and trains(words)


def _no_program(_: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report a launcher without a program, if all of its options are known."""
    row, submits = launch.launcher, launch.script == ("job", "submit")
    if (launch.script and not submits) or {*row.without_program} & {*launch.options}:
        return
    names = {
        name for name in launch.options if not name.startswith(tuple(f"{p}_" for p in row.pairs))
    }
    if names <= row.known:
        yield at_flag(launch, "no-program", spec.name)


def _kind_of_program(_: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report a program that the launcher cannot start, or that is a launcher itself."""
    row, script = launch.launcher, launch.script
    word = script[0] if script else ""
    if launch.inner and launch.inner not in row.may_start:
        yield at_flag(launch, "launcher-in-launcher", spec.name, inner=launch.inner)
    elif row.runs_python and "module" in launch.options and word.endswith(".py"):
        yield at_flag(launch, "module-of-file", spec.name, word=word)
    elif row.runs_python and not {"module", "no_python"} & {*launch.options}:
        if is_python(word):
            end = next(
                (i for i, each in enumerate(script[1:], 1) if not re.match(r"-(?!m$)", each)), 1
            )
            words = " ".join(script[:end])
            yield at_flag(launch, "python-of-python", spec.name, word=word, words=words)
        elif is_shell(word) or word.endswith(".sh"):
            yield at_flag(launch, "python-of-shell", spec.name, word=word)
    elif script[1:] and re.fullmatch(r"[A-Z][A-Z0-9_]*|\d+", word):
        yield at_flag(launch, "value-as-program", spec.name, word=word)
    elif launch.program in ("mpirun", "horovodrun") and re.fullmatch(r"[\w-]+\.py", word):
        yield at_flag(launch, "script-without-python", spec.name, word=word)


def _flags(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report misspelled options, options of another implementation, and of missing systems.

    argparse accepts unique beginnings of options:
    https://docs.python.org/3/library/argparse.html#allow-abbrev
    """
    row, known = launch.launcher, launch.launcher.known
    own = job.options.get("implementation", "OpenMPI")
    for name, written in launch.written.items():
        raw = written.lstrip("-").replace("-", "_")
        dash = "_" if "_" in written and "_" in row.separators else row.separators[0]
        close = raw if raw in known else similar(raw, known, CLOSE) or _meant(raw, launch)
        strange = re.search(rf"[^a-zA-Z0-9{row.separators}]", written.lstrip("-"))
        # argparse rejects the beginning of several options.
        starts = {row.aliases.get(each, each) for each in known if each.startswith(raw)}
        is_start = len(starts) == 1 or (starts and not row.modules)
        misspelled = strange if raw in known else not is_start
        if len(raw) >= SHORTEST and close and misspelled and " " not in written:
            meant = f"--{close.replace('_', dash)}"
            yield at_flag(launch, "unknown-flag", spec.name, flag=written, meant=meant)
        others = [each for each, names in row.only.items() if raw in names]
        if others and own not in others and "launcher" in job.roles:
            values = {"flag": written, "others": listed(others, "and"), "first": others[0]}
            yield at_flag(launch, "other-implementation", spec.name, own=own, **values)
        pattern, right = row.values.get(name, ("(?s).*", ""))
        value = launch.literal(name)
        if value is not None and not re.fullmatch(pattern, value):
            yield at_flag(launch, "bad-value", spec.name, flag=written, value=value, right=right)
        system = row.needs.get(f"{name}={launch.options[name]}")
        if system:
            flag = f"{written}{'=' if launch.options[name] else ''}{launch.options[name]}"
            yield at_flag(launch, "needs-system", spec.name, flag=flag, system=system)


def _meant(raw: str, launch: Launch) -> str:
    """Return the option with the meaning that an option has in other launchers; "" for none."""
    own = launch.launcher
    for row in LAUNCHERS.values() if own.flags and raw not in own.known else ():
        for column in ("nodes", "rank", "processes", "all_processes", "port"):
            if getattr(row, column) == raw:
                total = own.all_processes if column == "processes" else ""
                return getattr(own, column) or total or ""
    return ""


def _mpi(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report a launcher in the workers, and a root user whom Open MPI refuses.

    `kubectl exec` also starts processes in a worker that runs another program.
    """
    reached = job.options.get("transport") != "ssh"
    several = not launch.launcher.in_each_pod and launch.program != "ray"
    launcher = job.roles.get("launcher")
    if not launcher or not several:
        return
    waits = bool(re.match(FOREVER, " ".join(words_of(launcher))))
    if spec.name == "worker" and (
        waits or any(each.program == launch.program for each in launches_of(launcher))
    ):
        found = at_flag(launch, "launcher-in-worker", spec.name)
        yield replace(found, warning=found.warning or reached)
    if spec is launcher and "worker" in job.roles:
        own = words_of(job.roles["worker"])
        if own and own == launch.script:
            path = ("roles", "worker", "command")
            yield replace(problem("program-in-worker", path, text=" ".join(own)), warning=reached)
    is_open_mpi = job.options.get("implementation", "OpenMPI") == "OpenMPI"
    allowed = "allow_run_as_root" in launch.options or "ALLOW_RUN_AS_ROOT" in repr(spec)
    if (
        launch.program == "mpirun"
        and spec is launcher
        and 0 in users_of(job, spec)
        and is_open_mpi
        and not (allowed or spec.may_have_more_env)
    ):
        yield at_flag(launch, "root-refused", spec.name)


def _ray_port(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report a port of the head at which it does not listen."""
    head = job.roles.get("head")
    found = re.search(r":(\d{1,5})/?$", address := launch.literal("address") or "")
    if not (found and head and job.framework == "ray") or job.network.on_host:
        return
    if not re.search(r"-head-0\b", address[: found.start()]):
        return
    starts = [each for each in launches_of(head) if each.script[:1] == ("start",)]
    option = "port" if launch.script[:1] == ("start",) else "dashboard_port"
    known = all(option not in each.options or each.number(option) for each in starts)
    default = (head.port or 6379) if option == "port" else 8265
    own = next((number for each in starts if (number := each.number(option))), default)
    if (starts or not words_of(head)) and known and int(found[1]) != own:
        flag = f"--address={launch.options['address']}"
        right = flag.replace(f":{found[1]}", f":{own}")
        yield at_flag(launch, "ray-other-port", spec.name, flag=flag, own=own, right=right)


def _ray(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report `ray start` that ends at once or starts a second head, and options of a program.

    Without `--`, ray job submit reads options anywhere (python/ray/dashboard/modules/job/cli.py).
    """
    commands = commands_of(spec)
    if launch.program != "ray":
        return
    yield from _ray_port(job, spec, launch)
    if launch.script[:1] == ("start",):
        if "block" not in launch.options and launches_in(commands[-1]) == (launch,):
            yield at_flag(launch, "ray-not-blocking", spec.name)
        if job.framework == "ray" and spec.name != "head" and "head" in launch.options:
            yield at_flag(launch, "ray-second-head", spec.name, role=spec.name)
        host = launch.options.get("dashboard_host", "127.0.0.1")
        if spec.name == "head" and "submitter" in job.roles and host in ("127.0.0.1", "localhost"):
            yield at_flag(launch, "ray-dashboard", spec.name)
    elif launch.script[:2] == ("job", "submit") and not launch.dashed:
        words = launch.script[2:]
        words = words[: words.index("--")] if "--" in words else words
        flags = (word for word in words if re.match(r"--?[a-zA-Z]", word))
        names = {flag: flag.lstrip("-").partition("=")[0].replace("-", "_") for flag in flags}
        flag = next(
            (flag for flag, name in names.items() if name not in launch.launcher.known), None
        )
        if flag:
            yield at_flag(launch, "ray-no-dashes", spec.name, flag=flag, word=words[0])


CHECKS: tuple[Callable[[TrainingJob, RoleSpec, Launch], Doubts], ...] = (
    _no_program,
    _kind_of_program,
    _flags,
    _mpi,
    _ray,
)
"""The rules for each launcher that a role runs."""
