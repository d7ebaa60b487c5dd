"""The tables of this package, `schemas/frameworks/*.json`, as Python values."""

from mlgen.problems import Problem, ValuePath, from_row
from mlgen.resources import table
from mlgen.topology import INDEX, PodField


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
