"""Variants of a job: a name with a hash, the combinations of a matrix, and targets.

A `Target` is a tool that runs or applies the objects: Argo Workflows, JobSet, Argo CD or Flux. To
add one, copy `gitops.py`, and add it to `_target` in `mlgen/rendering.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import Object
from mlgen.problems import Problem
from mlgen.topology import Topology


class Target:
    """The cluster itself, for which nothing changes. Each tool overrides what it changes."""

    def job(self, job: TrainingJob) -> TrainingJob:
        """Return the job without the policies that the tool implements or cannot keep."""
        return job

    def topology(self, topology: Topology, job: TrainingJob, spec: Mapping[str, Any]) -> Topology:
        """Return the topology with the changes of the tool, and with the problems of them.

        Args:
            topology: of the job that the method `job` returns.
            job: with all its policies.
            spec: of the job file.
        """
        return topology

    def objects(self, topology: Topology, objects: Sequence[Object]) -> list[Object]:
        """Return the objects of a valid job as the tool gets them.

        Args:
            topology: as the method `topology` returns it.
            objects: all objects of that topology.
        """
        return [*objects]

    def problems(self, topology: Topology, objects: Sequence[Object]) -> Iterator[Problem]:
        """Yield the problems of the objects that the method `objects` returns."""
        yield from ()

    def settings(self, topology: Topology, objects: Sequence[Object]) -> list[str]:
        """Return lines for the configuration of the tool, which the summary of the job lists.

        Args:
            topology: as the method `topology` returns it.
            objects: as the method `objects` returns them.
        """
        return []


def conflict(path: tuple[str, ...], message: str, hint: str) -> Problem:
    """Return the warning that a field of `spec` conflicts with the target."""
    return Problem(("spec", *path), message, "combination", hint, warning=True)
