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
from mlgen.launch.role import job_roles, of_all_roles, of_launchers, of_roles
from mlgen.problems import Problem
from mlgen.topology import Topology


def launch_problems(topology: Topology) -> Iterator[Problem]:
    """Yield the problems of how the programs of a job are started."""
    roles = job_roles(topology)
    for role in roles:
        yield from of_roles.broken_by(role)
        for launched in role.launched:
            yield from of_launchers.broken_by(launched)
            if slots := slots_of(launched):
                yield from of_slots.broken_by(slots)
    if roles:
        yield from of_all_roles.broken_by(roles)
