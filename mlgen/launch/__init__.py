"""How the programs of a job are started: command lines, and the rules about them.

`line` reads the command line of a container once. `role` adds what a role of the job has: its
variables, and the values of the framework. The other modules contain rules, by what they look at.
"""

from collections.abc import Iterator

from mlgen.launch import (  # noqa: F401  # they register rules
    exit_codes,
    mpi,
    options,
    ranks,
    scripts,
    variables,
)
from mlgen.launch.mpi import of_slots, slots_of
from mlgen.launch.role import (
    JobRole,
    of_all_roles,
    of_launchers,
    of_options,
    of_ray,
    of_remote,
    of_roles,
    of_scripts,
    of_variables,
)
from mlgen.problems import Problem
from mlgen.topology import Topology


def launch_problems(topology: Topology) -> Iterator[Problem]:
    """Yield the problems of how the programs of a job are started."""
    roles = [JobRole(topology, spec) for spec in topology.job.roles.values()]
    for role in roles:
        yield from of_roles.broken_by(role)
        if role.lines.scripts:
            yield from of_scripts.broken_by(role)
        if role.variables or role.settings:
            yield from of_variables.broken_by(role)
        for launched in role.launched:
            yield from of_launchers.broken_by(launched)
            if launched.launch.options:
                yield from of_options.broken_by(launched)
            if launched.raw.program == "ray":
                yield from of_ray.broken_by(launched)
            elif not launched.raw.launcher.in_each_pod:
                yield from of_remote.broken_by(launched)
            if slots := slots_of(launched):
                yield from of_slots.broken_by(slots)
    if len(roles) > 1 or (roles and roles[0].variables):
        yield from of_all_roles.broken_by(roles)
