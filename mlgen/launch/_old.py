"""Temporary: the functions that rules used before `Line` and `JobRole`."""

from mlgen.launch.line import Line, lines_of
from mlgen.launch.role import JobRole
from mlgen.shell import once  # noqa: F401

Placed = tuple


def launches_of(spec):
    return lines_of(spec).launches


def words_of(spec):
    return lines_of(spec).words


def scripts_of(spec):
    return tuple(lines_of(spec).scripts)


def commands_of(spec):
    return tuple(tuple(zip(line.words, line.paths)) for line in lines_of(spec).lines)


def _line(placed):
    return Line(tuple(w for w, _ in placed), tuple(p for _, p in placed))


def launches_in(placed):
    launch = _line(placed).launch
    return (launch,) if launch else ()


def program_index(words):
    return Line(tuple(words)).start


def trains(words):
    return Line(tuple(words)).trains


def settings_of(spec):
    return JobRole.settings.func(_Role(spec))


class _Role(JobRole):
    def __init__(self, spec):
        self.spec, self.lines, self.roles = spec, lines_of(spec), []


def values_of(spec, roles, same_as):
    role = _Role(spec)
    role.roles = list(roles)
    return role.values


from mlgen.launch.line import *  # noqa
from mlgen.launch.line import (
    C10D_PORT,
    FOREVER,
    HOSTFILES,
    LAUNCHERS,
    MEETING_BACKENDS,
    MODULES,
    PROGRAMS,
    File,
    Launch,
    Script,
    files_of,
    rendezvous_port,
    ssh_port,
    sshd_port,
    working_dir_of,
)  # noqa
from mlgen.launch.role import *  # noqa
from mlgen.launch.role import (
    COMPUTED,
    differs,
    entries,
    env_of,
    expanded,
    missing_in,
    roles_of,
    text_of_value,
    users_of,
    variables_of,
)  # noqa

Files = list


from dataclasses import replace
import re
def at_flag(launch, rule, role, /, **values):
    from mlgen.frameworks._tables import problem
    found = problem(rule, launch=launch, **values)
    found = replace(found, warning=found.warning or launch.may_be_skipped)
    place = launch.place(f"{found.message} {found.hint}")
    hint = found.hint
    if place[:1] == ("volumes",):
        is_script = place == launch.path
        hint = re.sub(r"\$\((\w+)\)", r"$\1", hint) if is_script else hint.replace("write", "pass")
    return replace(found, path=(*found.path, "roles", role, *place), hint=hint)
