"""The tables of this package, `schemas/frameworks/*.json`, as Python values."""

from typing import Any

from mlgen.problems import Problem, ValuePath, from_row
from mlgen.resources import table
from mlgen.topology import INDEX, PodField

COMMANDS: Any = table("frameworks/commands")
"""The programs and variables of command lines that have rules.

`_launch.Launcher` describes the column `launchers`. The other columns:

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
    variables: rows by the name of a variable:
        same_as: the framework's variable with the same meaning.
        counts: `replicas`, or `processes`, of which a replica can have several.
        is_address: true if its value is the rendezvous address.
        options: the options of a launcher that make it ignore the variable. Without this column,
            no launcher reads the variable, or the launcher sets it itself.
"""


def variables(name: str, **values: object) -> dict[str, str | PodField]:
    """Return the environment variables of a row of `schemas/frameworks/variables.json`.

    They have the order of the row. A variable is a pod field, such as `status.podIP`, or a text
    with placeholders for values, as in `problem`. `{index}` is the index of the replica.
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
        rule: the name of the row; see `problems.from_row`. The default code is `combination`.
        path: the path below `spec`. Used if the row has no `path`, which separates steps by "/".
        **values: the values for the placeholders in the row.
    """
    row = table("frameworks/problems")[rule]
    if "path" in row:
        path = tuple(part.format(**values) for part in row["path"].split("/"))
    return from_row(row, ("spec", *path), "combination", **values)
