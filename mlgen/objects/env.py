"""Environment variables of containers: the replica's index, and the order of definitions."""

import re
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.objects.labels import index_label
from mlgen.topology import INDEX, INDEX_NAME, PodField, Role

REFERENCE = re.compile(r"\$\(([^()]+)\)")
"""https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"""


def main_env(role: Role) -> list[dict[str, Any]]:
    """Return the variables of the training container; a user's value replaces the framework's.

    The index comes first, because the others may refer to it.
    """
    user_env = role.spec.env
    env = [_variable(name, value) for name, value in role.env.items() if name not in user_env]
    for name, value in user_env.items():
        env.append({"name": name, **(value if isinstance(value, dict) else {"value": value})})
    return [index_variable(role), *_in_dependency_order(env)]


def index_variable(role: Role) -> dict[str, Any]:
    """Return the variable that holds a replica's index: a literal, or from the pod's label."""
    if role.index is not None:
        return {"name": INDEX_NAME, "value": str(role.index)}
    field = f"metadata.labels['{index_label(role)}']"
    return {"name": INDEX_NAME, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def with_index_variable(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which every container that refers to the index defines it.

    Containers that mlgen renders define it already; those that only a template has do not.
    """
    lists = {key: spec[key] for key in ("initContainers", "containers") if spec.get(key)}
    return spec | {
        key: [_define_index(role, container) for container in containers]
        for key, containers in lists.items()
    }


def _define_index(role: Role, container: dict[str, Any]) -> dict[str, Any]:
    """Return a container with the index variable, if it refers to it and lacks a definition."""
    env = container.get("env") or []
    texts = [*(container.get("command") or []), *(container.get("args") or [])]
    texts += [variable.get("value") or "" for variable in env]
    refers = any(INDEX in text for text in texts)
    if not refers or any(variable["name"] == INDEX_NAME for variable in env):
        return container
    return container | {"env": [index_variable(role), *env]}


def _in_dependency_order(env: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variables in an order in which each one follows those that it refers to.

    Kubernetes expands `$(NAME)` only if NAME is defined earlier in the list. The job file has a
    mapping instead, whose keys tools such as kustomize sort. Variables that are in order, or refer
    to each other in a cycle, are returned unchanged.
    """
    positions = {variable["name"]: position for position, variable in enumerate(env)}
    references = {
        name: [
            reference
            for reference in REFERENCE.findall(env[position].get("value") or "")
            if reference in positions and reference != name
        ]
        for name, position in positions.items()
    }
    if all(
        positions[reference] < positions[name]
        for name, names in references.items()
        for reference in names
    ):
        return env
    try:
        return [env[positions[name]] for name in TopologicalSorter(references).static_order()]
    except CycleError:
        return env


def _variable(name: str, value: str | PodField) -> dict[str, Any]:
    if isinstance(value, PodField):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, "value": value}
