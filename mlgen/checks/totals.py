"""Objects of a job → the resources of all its pods together."""

from collections.abc import Iterable
from dataclasses import dataclass

from mlgen.checks.pods import workloads
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_resources import SHARED, Amounts, Kind
from mlgen.kubernetes.quantity import times, total
from mlgen.objects.labels import ROLE, workload_name
from mlgen.topology import Topology


@dataclass(frozen=True)
class Totals:
    """The resources of a job, by name, as quantities.

    Attributes:
        requests: the total requests of the pods of all roles.
        limits: their total limits, for resources that all of them limit.
        auxiliary: the total requests of other pods, such as the supervisor's.
        auxiliaries: the components of these other pods.
    """

    requests: Amounts
    limits: Amounts
    auxiliary: Amounts
    auxiliaries: tuple[str, ...]


def totals(topology: Topology, objects: Iterable[Object]) -> Totals:
    """Return the resources of a job's pods.

    Excludes resources that only init containers request, such as mlgen's helpers, because they are
    free when training starts.

    Args:
        topology: contains the number of replicas, which is 0 in suspended objects.
        objects: the objects of the job.
    """
    names = {workload_name(topology.job, role): role for role in topology.roles}
    items = workloads(objects)
    others = [item for name, item in items.items() if name not in names]
    of_roles: dict[str, Object] = {}
    counts: dict[str, int] = {}
    for name, item in items.items():
        role = names.get(name)
        if role:
            # Replicas with their own Jobs have equal requests.
            of_roles.setdefault(role.name, item)
            counts[role.name] = counts.get(role.name, 0) + role.replicas
    roles = list(of_roles.values())
    counted = list(zip(roles, counts.values(), strict=True))
    limits = _sum(counted, "limits")
    unlimited = {name for item in roles for name in SHARED - _of_pod(item, "limits").keys()}
    return Totals(
        _sum(counted, "requests"),
        {name: amount for name, amount in limits.items() if name not in unlimited},
        _sum([(item, 1) for item in others], "requests"),
        tuple(item["spec"]["template"]["metadata"]["labels"][ROLE] for item in others),
    )


def _sum(items: Iterable[tuple[Object, int]], kind: Kind) -> Amounts:
    """Return the sum of requests or limits of workloads, each with its number of pods."""
    amounts: dict[str, list[str]] = {}
    for item, count in items:
        for name, amount in _of_pod(item, kind).items():
            amounts.setdefault(name, []).append(times(amount, count))
    return {name: total(of_name) for name, of_name in amounts.items()}


def _of_pod(workload: Object, kind: Kind) -> Amounts:
    return pod_resources.lasting(workload["spec"]["template"]["spec"], kind)
