"""Warnings for containers of a role's templates that keep a Job from completing."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from mlgen.jobfile.model import RoleSpec, containers_of
from mlgen.kubernetes.merge import merged
from mlgen.problems import Problem, ValuePath
from mlgen.topology import Topology

CONTAINERS = ("spec", "containers")


def problems(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each container of a Job that does not, or may not, end by itself."""
    for spec in _specs_of_jobs(topology):
        beside = _beside(spec)
        if not beside:
            continue
        from mlgen.kubernetes.sidecars import is_sidecar, may_be_sidecar  # few jobs need it

        paths = _paths(spec)
        for container in beside:
            name = str(container.get("name"))
            path = paths.get(name, ("spec", "roles", spec.name, "template"))
            if is_sidecar(container):
                message = (
                    f"the container {name} does not end by itself, so no pod of the Job would"
                    " complete; it is rendered as a sidecar"
                )
                hint = "write it under initContainers with restartPolicy: Always"
                yield Problem(path, message, "never-ends", hint, warning=True)
            elif may_be_sidecar(container):
                message = f"a pod of the Job completes only when the container {name} has ended too"
                hint = "unless it does, write it under initContainers with restartPolicy: Always"
                yield Problem(path, message, "never-ends", hint, warning=True)


def _specs_of_jobs(topology: Topology) -> Iterator[RoleSpec]:
    """Yield the roles of the job file that are Jobs; also those that are merged into one."""
    serves = {role.spec.name: role.serves for role in topology.roles}
    merged_roles = serves.keys() - topology.job.roles.keys()
    for spec in topology.job.roles.values():
        if not serves.get(spec.name, not merged_roles):
            yield spec


def _paths(spec: RoleSpec) -> dict[str, ValuePath]:
    """Return the path of each container in the role's template, else in that of all roles."""
    paths: dict[str, ValuePath] = {}
    of_role: ValuePath = ("spec", "roles", spec.name, "template")
    for template in reversed(spec.templates):
        holder = of_role if template is spec.templates[-1] else ("spec", "template")
        for index, container in enumerate(containers_of(template)):
            paths.setdefault(str(container.get("name")), (*holder, *CONTAINERS, index))
    return paths


def _beside(spec: RoleSpec) -> list[dict[str, Any]]:
    """Return the containers of the templates, merged, without the training container."""
    if not spec.templates:
        return []
    template: Any = reduce(merged, spec.templates, {})
    return [item for item in containers_of(template) if item.get("name") != spec.main_container]
