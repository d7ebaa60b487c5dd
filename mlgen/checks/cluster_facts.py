"""The messages in `schemas/checks/cluster.json`."""

from typing import Any

from mlgen.checks.pods import Located, Pods, role_path
from mlgen.problems import Problem, ValuePath, from_row
from mlgen.resources import table

FACTS: Any = table("checks/cluster")


def problem(rule: str, path: ValuePath, /, **values: object) -> Problem:
    """Return the problem of a row of `problems`; see `problems.from_row`."""
    return from_row(FACTS["problems"][rule], path, "combination", **values)


def at_pod(pods: Pods, path: ValuePath, rule: str, /, **values: object) -> Located:
    """Return the problem of a value in a pod, by default at the role in the job file.

    Args:
        pods: the pods.
        path: of the value in their object.
        rule: the name of the row.
        **values: the values of the placeholders.
    """
    return Located(pods.item, path, problem(rule, role_path(pods.item), **values))
