"""The type of the constant `FRAMEWORK`, which every framework module defines."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology


@dataclass(frozen=True)
class Framework:
    """A machine-learning framework: its roles, its options, and how replicas find each other.

    Attributes:
        title: the name of the framework as its project spells it.
        summary: one sentence for `mlgen frameworks`.
        roles: the names of its roles; None if a job may have roles of any name.
        topology: lays out a job that matches the schema; raises `MlgenError` with every problem.
        example: returns the fields of `spec` that are the framework's own in a first job, such as
            command, options and roles, for a number of replicas that compute and of GPUs in each.
        options: a JSON Schema for each field of `spec.options`.
        renamed_options: the old names of options, each with its current name. An old name is
            accepted with a warning; its schema is that of the current one.
        idle_roles: returns the roles of a job that do not compute. GPUs in `spec.resources`, for
            all roles, are not for them.
    """

    title: str
    summary: str
    roles: tuple[str, ...] | None
    topology: Callable[[TrainingJob], Topology]
    example: Callable[[int, int], Mapping[str, Any]]
    options: Mapping[str, Any]
    renamed_options: Mapping[str, str] = field(default_factory=dict)
    idle_roles: Callable[[TrainingJob], Collection[str]] = lambda _job: ()
