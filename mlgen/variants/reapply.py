"""The effect of applying a job again on fields that others have changed since.

`kubectl apply` and `helm upgrade` restore the values of the manifests, whatever the supervisor, a
queue or an autoscaler has written. With server-side apply, another manager's field is a conflict:
https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts. The manifests omit such
fields where they can: `suspend` of Jobs that only the supervisor or Kueue suspends.
"""

from collections.abc import Iterable, Iterator

from mlgen.objects import placement
from mlgen.topology import Role, Topology


def warning(topology: Topology) -> str:
    """Return the way to apply a job again, or "" if every way is right."""
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
