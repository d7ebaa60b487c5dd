"""What a module of this package offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology


@dataclass(frozen=True, slots=True)
class Framework:
    """How the replicas of a job find each other.

    Attributes:
        title: the name, as people write it.
        summary: one sentence for `mlgen frameworks`.
        roles: the roles that it knows; None if a job may have roles of any name.
        topology: lays out a job that matches the schema; raises `MlgenError` with every problem.
        options: a JSON Schema for each field of `spec.options`.
    """

    title: str
    summary: str
    roles: tuple[str, ...] | None
    topology: Callable[[TrainingJob], Topology]
    options: Mapping[str, Any]
