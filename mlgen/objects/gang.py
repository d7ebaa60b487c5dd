"""The PodGroup, which makes a gang scheduler start all pods of a job together.

- Volcano: `PodGroup` of `scheduling.volcano.sh/v1beta1`,
- coscheduling: `PodGroup` of `scheduling.x-k8s.io/v1alpha1`,
- Kubernetes' own: `PodGroup` of `scheduling.k8s.io/v1beta1`,
- Kueue: none; it counts pods by their labels (`placement`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.quantity import times, total
from mlgen.objects.errors import template_error
from mlgen.objects.labels import metadata
from mlgen.objects.placement import pod_count
from mlgen.objects.skeleton import filled
from mlgen.topology import Role, Topology

API_VERSIONS = {
    "volcano": "scheduling.volcano.sh/v1beta1",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1",
    "kubernetes": "scheduling.k8s.io/v1beta1",
}

Workloads = Sequence[tuple[Role, dict[str, Any]]]


def pod_group(topology: Topology, workloads: Workloads) -> Iterator[dict[str, Any]]:
    """Return the PodGroup, if the job's gang scheduler uses one.

    Args:
        topology: the job.
        workloads: each role with its Job or StatefulSet.

    Raises:
        MlgenError: a container requests a resource by a value that is not an amount.
    """
    job, scheduling = topology.job, topology.job.scheduling
    if scheduling.gang not in API_VERSIONS:
        return
    members = scheduling.min_member
    if members is None:
        members = pod_count(topology)
    is_native, is_volcano = scheduling.gang == "kubernetes", scheduling.gang == "volcano"
    resources = scheduling.min_resources or _min_resources(workloads, members)
    fields = {
        "schedulingPolicy": {"gang": {"minCount": members}} if is_native else None,
        "minMember": None if is_native else members,
        "minResources": None if is_native else dict(resources),
        "queue": scheduling.queue,
        "priorityClassName": scheduling.priority_class_name if is_native or is_volcano else None,
        "scheduleTimeoutSeconds": scheduling.schedule_timeout_seconds,
    }
    yield filled(
        "podgroup",
        api_version=API_VERSIONS[scheduling.gang],
        metadata=metadata(job, job.name, "gang"),
        spec={name: value for name, value in fields.items() if value not in (None, {})},
    )


def _min_resources(workloads: Workloads, members: int) -> dict[str, str]:
    """Return the resources that so many pods request; those of the deciding role count first."""
    amounts: dict[str, list[str]] = {}
    at_once = [pair for pair in workloads if not pair[0].orders]
    for role, workload in sorted(at_once, key=lambda pair: not pair[0].decides):
        pods = min(role.replicas, members)
        members -= pods
        if pods:
            for name, amount in _pod_requests(role, workload["spec"]["template"]["spec"]).items():
                amounts.setdefault(name, []).append(times(amount, pods))
    return {name: total(amounts_of_roles) for name, amounts_of_roles in amounts.items()}


def _pod_requests(role: Role, spec: dict[str, Any]) -> dict[str, str]:
    """Return the resources that the scheduler reserves for a pod.

    Raises:
        MlgenError: a value is not an amount.
    """
    try:
        return pod_resources.requests(spec)
    except ValueError as error:
        raise template_error(role, str(error), "bad-value") from None
