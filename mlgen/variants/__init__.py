"""Variants of a job: a name with a hash, the combinations of a matrix, and targets.

A `Target` is a tool that runs or applies the objects: Argo Workflows, JobSet, Argo CD or Flux. To
add one, copy `workflow.py`, and add it to `_target` in `mlgen/rendering.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import Object
from mlgen.objects import placement
from mlgen.problems import Problem
from mlgen.topology import Role, Topology


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


def reapply(topology: Topology) -> str:
    """Return the way to apply a job again, or "" if every way is right.

    `kubectl apply` and `helm upgrade` restore the values of the manifests, whatever the supervisor,
    a queue or an autoscaler has written. With server-side apply, another manager's field is a
    conflict: https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts. The
    manifests omit such fields where they can: `suspend` of Jobs that only the supervisor or Kueue
    suspends.
    """
    if topology.job.jobset or topology.job.workflow:
        return ""
    effects = list(_effects(topology))
    if not effects:
        return ""
    together = " and ".join(effects)
    return f"apply with kubectl apply --server-side: otherwise, applying again {together}"


def _effects(topology: Topology) -> Iterator[str]:
    """Yield the effects of a client-side apply."""
    job, roles = topology.job, topology.roles
    ordered = _names(role for role in roles if role.orders)
    if topology.supervised and ordered:
        yield f"stops and restarts {ordered}"
    stopped = _names(role for role in roles if role.serves)
    if topology.supervised and stopped and job.run_policy.clean_pod_policy == "Running":
        yield f"restarts {stopped} after training"
    is_partial = placement.is_queued(topology) and placement.PARTIAL in job.annotations
    scaled = [role for role in roles if is_partial or (role.max_replicas or 0) > role.replicas]
    if scaled:
        numbers = ", ".join(f"{role.name} back to {role.replicas}" for role in scaled)
        yield f"scales {numbers}"


def _names(roles: Iterable[Role]) -> str:
    """Return the names of roles, each once."""
    return ", ".join(dict.fromkeys(role.name for role in roles))
