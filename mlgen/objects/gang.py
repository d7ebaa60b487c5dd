"""The PodGroup, which makes a gang scheduler start all pods of a job together.

- Volcano: `PodGroup` of `scheduling.volcano.sh/v1beta1`,
- coscheduling: `PodGroup` of `scheduling.x-k8s.io/v1alpha1`,
- Kueue: none; it counts pods by their labels (`placement`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.kubernetes.quantity import parse, times, total
from mlgen.objects.errors import template_error
from mlgen.objects.labels import metadata
from mlgen.objects.placement import pod_count
from mlgen.objects.skeleton import filled
from mlgen.topology import Role, Topology

API_VERSIONS = {
    "volcano": "scheduling.volcano.sh/v1beta1",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1",
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
    volcano = scheduling.gang == "volcano"
    fields = {
        "minMember": members,
        "minResources": dict(scheduling.min_resources or _min_resources(workloads, members)),
        "queue": scheduling.queue,
        "priorityClassName": scheduling.priority_class_name if volcano else None,
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
    for role, workload in sorted(workloads, key=lambda pair: not pair[0].decides):
        pods = min(role.replicas, members)
        members -= pods
        if pods:
            for name, amount in _pod_requests(role, workload["spec"]["template"]["spec"]).items():
                amounts.setdefault(name, []).append(times(amount, pods))
    return {name: total(amounts_of_roles) for name, amounts_of_roles in amounts.items()}


def _pod_requests(role: Role, spec: dict[str, Any]) -> dict[str, str]:
    """Return the resources that the scheduler reserves for a pod.

    For each resource: the sum over all containers and sidecars, or the largest amount of an init
    container, whichever is larger.
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers

    Raises:
        MlgenError: a value is not an amount.
    """
    init_containers = spec.get("initContainers") or []
    sidecars = [item for item in init_containers if item.get("restartPolicy") == "Always"]
    sequential = [item for item in init_containers if item not in sidecars]
    try:
        concurrent = [_container_requests(item) for item in (*spec["containers"], *sidecars)]
        names = dict.fromkeys(name for requests in concurrent for name in requests)
        pod_requests = {
            name: total(requests[name] for requests in concurrent if name in requests)
            for name in names
        }
        for requests in map(_container_requests, sequential):
            for name, amount in requests.items():
                if name not in pod_requests or parse(pod_requests[name]) < parse(amount):
                    pod_requests[name] = total([amount])
    except ValueError as error:
        raise template_error(role, str(error), "bad-value") from None
    return pod_requests


def _container_requests(container: dict[str, Any]) -> dict[str, str]:
    """Return a container's requests; a resource without a request defaults to its limit."""
    resources = container.get("resources") or {}
    amounts = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return {name: str(amount) for name, amount in amounts.items()}
