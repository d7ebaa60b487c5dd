"""Check how command lines start programs: scripts of shells, and the programs of launchers.

`schemas/frameworks/commands.json` lists the options of each launcher, with their source.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from mlgen.frameworks._command_rules import at_flag
from mlgen.frameworks._launch import (
    Launch,
    commands_of,
    launches_in,
    launches_of,
    scripts_of,
)
from mlgen.frameworks._settings import roles_of
from mlgen.frameworks._tables import COMMANDS, problem
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import Problem, listed, similar
from mlgen.shell import cut, is_python, is_shell
from mlgen.topology import Topology

CLOSE = 0.85
"""Similarity from which an unknown option counts as a typing error, not as a new option."""

SHORTEST = 4
"""The length from which an option is compared with others."""

VARIABLE = r"\$\{?([A-Z]+_[A-Z0-9_]+)\b(?!:?[-+=?])"
"""A variable in a script, unless it has a default."""

TESTS = r"(?<!\S)\[|\btest\b|\bcase\b"
"""A pattern of commands that test whether a variable is set."""

PRINTS = r"(?:^|[\n;&])\s*(?:echo|printf)\b[^\n;&|<>]*(?=[\n;&]|$)"
"""A pattern of commands that only print variables."""

Doubts = Iterator[Problem]


def command_problems(topology: Topology) -> Doubts:
    """Return the problems of the command lines of all roles."""
    for name, spec in topology.job.roles.items():
        words = [(script.text, script.path) for script in scripts_of(spec)]
        breaks = [(word, path) for text, path in words if (word := cut(text))]
        for word, path in breaks:
            yield problem("line-break", ("roles", name, *path), word=word)
        env = {variable for role in roles_of(topology, name) for variable in role.env}
        yield from _batch_variables(spec, env)
        for launch in launches_of(spec):
            checks = [check for check in CHECKS if not (breaks and check is _no_program)]
            yield from (each for check in checks for each in check(topology.job, spec, launch))


def _batch_variables(spec: RoleSpec, env: Collection[str]) -> Doubts:
    """Report variables of batch systems, unless the script has a default, a test or a value.

    Args:
        spec: the role.
        env: the names of its variables from mlgen.
    """
    for script in () if spec.may_have_more_env else scripts_of(spec):
        for name in dict.fromkeys(re.findall(VARIABLE, script.text)):
            systems = COMMANDS["batch_systems"].items()
            system = next((system for start, system in systems if name.startswith(start)), None)
            used = rf"\b{name}=|({TESTS})[^\n;]*\b{name}\b|\b{name}:?[-+=?]"
            text = re.sub(PRINTS, "", script.text)
            known = name in spec.env or re.search(used, text) or name not in text
            if system and not known:
                meanings = COMMANDS["batch_meanings"].items()
                own = next((own for part, own in meanings if part in name and own in env), None)
                hint = f"write ${own}" if own else f"define {name} in env"
                path = ("roles", spec.name, *script.path)
                yield problem("batch-variable", path, system=system, name=name, hint=hint)


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
        close = raw if raw in known else similar(raw, known, CLOSE)
        strange = re.search(rf"[^a-zA-Z0-9{row.separators}]", written.lstrip("-"))
        is_start = any(option.startswith(raw) for option in known)
        misspelled = strange if raw in known else not is_start
        if len(raw) >= SHORTEST and close and misspelled and " " not in written:
            meant = f"--{close.replace('_', dash)}"
            yield at_flag(launch, "unknown-flag", spec.name, flag=written, meant=meant)
        others = [each for each, names in row.only.items() if raw in names]
        if others and own not in others and "launcher" in job.roles:
            values = {"flag": written, "others": listed(others, "and"), "first": others[0]}
            yield at_flag(launch, "other-implementation", spec.name, own=own, **values)
        system = row.needs.get(f"{name}={launch.options[name]}")
        if system:
            flag = f"{written}{'=' if launch.options[name] else ''}{launch.options[name]}"
            yield at_flag(launch, "needs-system", spec.name, flag=flag, system=system)


def _mpi(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report a launcher in the workers, and a root user whom Open MPI refuses."""
    several = not launch.launcher.in_each_pod and launch.program != "ray"
    launcher = job.roles.get("launcher")
    if not launcher or not several:
        return
    if spec.name == "worker" and any(
        each.program == launch.program for each in launches_of(launcher)
    ):
        yield at_flag(launch, "launcher-in-worker", spec.name)
    users = {job.security.run_as_user, *_users(spec)}
    is_open_mpi = job.options.get("implementation", "OpenMPI") == "OpenMPI"
    allowed = "allow_run_as_root" in launch.options or "ALLOW_RUN_AS_ROOT" in repr(spec)
    if (
        launch.program == "mpirun"
        and spec is launcher
        and 0 in users
        and is_open_mpi
        and not (allowed or spec.may_have_more_env)
    ):
        yield at_flag(launch, "root-refused", spec.name)


def _users(spec: RoleSpec) -> Iterator[Any]:
    """Yield the user in the security contexts of a role's templates."""
    pods = [template.get("spec") or {} for template in spec.templates]
    for holder in (*pods, *spec.container_patches):
        yield (holder.get("securityContext") or {}).get("runAsUser")


def _ray(job: TrainingJob, spec: RoleSpec, launch: Launch) -> Doubts:
    """Report `ray start` that ends at once or starts a second head, and options of a program.

    Without `--`, ray job submit reads options anywhere (python/ray/dashboard/modules/job/cli.py).
    """
    commands = commands_of(spec)
    if launch.program != "ray":
        return
    if launch.script[:1] == ("start",):
        if "block" not in launch.options and launches_in(commands[-1]) == (launch,):
            yield at_flag(launch, "ray-not-blocking", spec.name)
        if job.framework == "ray" and spec.name == "worker" and "head" in launch.options:
            yield at_flag(launch, "ray-second-head", spec.name, role=spec.name)
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
