"""The tables of this room, `schemas/frameworks/*.json` and `schemas/options/*.json`, as values."""

from typing import Any

from mlgen.problems import Problem, ValuePath, from_row
from mlgen.resources import table
from mlgen.topology import INDEX, PodField

COMMANDS: Any = table("frameworks/commands")
"""What mlgen knows of the programs and variables of command lines.

The launchers are described by `_launch.Launcher`. Besides them:

    wrappers: words before a program: programs that run another one, and words of the shell.
    installers: words that are followed by names of packages, which may be those of launchers.
    filters: programs that copy their input, and succeed whatever ends it.
    trailing: commands after training, which succeed whatever training did.
    variables: what is known of a variable, by its name:
        same_as: the variable of a framework besides or before which programs read it.
        counts: `replicas`, or `processes`, of which a replica can have several.
        is_address: its value is the address at which all replicas meet.
        options: those of a launcher with which it does not read the variable. Other variables of a
            framework are not read by any launcher, or set by it.
"""


def variables(name: str, **values: object) -> dict[str, str | PodField]:
    """Return the environment variables of a row of `schemas/frameworks/variables.json`.

    Their order is that of the row. One is a text that contains values, as in `problem`; `{index}`
    is the index of the replica. Or it is a field of the pod, such as `status.podIP`.
    """
    env: dict[str, str | PodField] = {}
    for variable, text in table("frameworks/variables")[name].items():
        if isinstance(text, dict):
            env[variable] = PodField(text["field"])
        elif variable != "$comment":
            env[variable] = text.format(index=INDEX, **values)
    return env


def problem(rule: str, path: ValuePath = (), /, **values: object) -> Problem:
    """Return a problem of the job file, from its row in `schemas/frameworks/problems.json`.

    Args:
        rule: the name of the row: see `problems.from_row`. Its code is `combination` by default.
        path: below `spec`, if the row has no `path`, in which steps are separated by slashes.
        **values: those in the texts of the row.
    """
    row = table("frameworks/problems")[rule]
    if "path" in row:
        path = tuple(part.format(**values) for part in row["path"].split("/"))
    return from_row(row, ("spec", *path), "combination", **values)
