"""The facts about nodes, devices and storage, and the problems with them.

`schemas/checks/cluster.json` contains the facts and the messages. Its columns:

    rows, doubts: rules of single values, in the form of `schemas/kubernetes/rules.json`. Those of
        doubts are warnings.
    system, programs, scratch, shared_memory, file: patterns of paths that images need, or may need,
        of paths that programs write to, and of names that are files.
    amounts: the largest amount of each resource on one node.
    devices: the device resources of each vendor.
    misplaced: patterns of device resources, each with the right one.
    accelerators: a pattern of resources, of which a node has those of one vendor.
    visible: variables that select devices, each with the resource.
    own_files: files of mlgen, with how a job gets them.
    vendors: labels of nodes, each with the start of the resources that these nodes have.
    instances, tpu: the devices of machine types and TPU hosts.
    writes, checkpoints, lost: patterns of options and variables with a directory.
    copies: a pattern of programs that write to their last argument.
    opens: a pattern of loops that wait for a port of a host.
    search_paths, shell_variables: patterns of variables that only a shell would expand.
    scripts: a pattern of variables whose value a shell runs.
    prose: a pattern of values that are sentences or JSON, which may contain any `$NAME`.
    git: patterns of addresses that git cannot clone.
"""

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
