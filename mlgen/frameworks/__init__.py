"""The frameworks: every module of this package is one, found by its name.

A framework says how the replicas of a job find each other. It has

- a docstring, whose first line `mlgen frameworks` prints,
- `ROLES`: the roles that it knows, or None where any may be given,
- `OPTIONS`: what may stand in the job file's `spec.options`: a JSON Schema for each name,
- `topology(job)`: a `Job` → its `Topology`; raises `MlgenError` with every problem that it finds.

It sees no Kubernetes object and no YAML. CONTRIBUTING.md says what belongs to a new one.
"""

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from mlgen.job import Job
    from mlgen.topology import Topology


class Framework(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    ROLES: tuple[str, ...] | None
    OPTIONS: dict[str, Any]

    def topology(self, job: "Job") -> "Topology":
        """Lay a job out."""


def names() -> list[str]:
    """Return the names of all frameworks, sorted; none of them is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def get(name: str) -> Framework:
    """Import a framework by name."""
    return cast("Framework", import_module(f"{__name__}.{name}"))
