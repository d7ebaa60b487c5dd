"""The PodGroup: what a gang scheduler must find room for at once.

- Volcano: `PodGroup` of `scheduling.volcano.sh/v1beta1`,
- coscheduling: `PodGroup` of `scheduling.x-k8s.io/v1alpha1`,
- Kueue needs none; it counts the pods by their labels (`placement`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.kubernetes.quantity import parse, times, total
from mlgen.objects.labels import metadata
from mlgen.objects.placement import pods
from mlgen.objects.skeleton import filled
from mlgen.problems import MlgenError, Problem
from mlgen.topology import Role, Topology

API_VERSIONS = {
    "volcano": "scheduling.volcano.sh/v1beta1",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1",
}

Workloads = Sequence[tuple[Role, dict[str, Any]]]


def group(topology: Topology, workloads: Workloads) -> Iterator[dict[str, Any]]:
    """Return the PodGroup, if the job's scheduler has one.

    Args:
        topology: the job.
        workloads: each role with its Job or StatefulSet.

    Raises:
        MlgenError: a template asks for an amount that is none.
    """
    job, asked = topology.job, topology.job.scheduling
    if asked.gang not in API_VERSIONS:
        return
    members = pods(topology) if asked.min_member is None else asked.min_member
    fields = {
        "minMember": members,
        "minResources": dict(asked.min_resources or _resources(workloads, members)),
        "queue": asked.queue,
        "priorityClassName": asked.priority_class_name if asked.gang == "volcano" else None,
        "scheduleTimeoutSeconds": asked.schedule_timeout_seconds,
    }
    yield filled(
        "podgroup",
        api_version=API_VERSIONS[asked.gang],
        metadata=metadata(job, job.name, "gang"),
        spec={name: value for name, value in fields.items() if value not in (None, {})},
    )


def _resources(workloads: Workloads, members: int) -> dict[str, str]:
    """What the first so many pods request, those of the deciding role before all others."""
    amounts: dict[str, list[str]] = {}
    for role, workload in sorted(workloads, key=lambda pair: not pair[0].decides):
        count = min(role.replicas, members)
        members -= count
        if count:
            for name, amount in _requests(role, workload["spec"]["template"]["spec"]).items():
                amounts.setdefault(name, []).append(times(amount, count))
    return {name: total(found) for name, found in amounts.items()}


def _requests(role: Role, spec: dict[str, Any]) -> dict[str, str]:
    """What the scheduler sets aside for a pod.

    The containers together, or the init container that needs most, if that is more; one that goes
    on beside the containers counts with them. Without a request, the limit is the request:
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    init = spec.get("initContainers") or []
    beside = [container for container in init if container.get("restartPolicy") == "Always"]
    before = [container for container in init if container not in beside]
    try:
        together = [_own(container) for container in (*spec["containers"], *beside)]
        names = dict.fromkeys(name for amounts in together for name in amounts)
        found = {name: total(a[name] for a in together if name in a) for name in names}
        for amounts in map(_own, before):
            for name, amount in amounts.items():
                if name not in found or parse(found[name]) < parse(amount):
                    found[name] = total([amount])
    except ValueError as error:
        path = ("spec", "roles", role.spec.name, "template")
        raise MlgenError([Problem(path, str(error), "bad-value")]) from None
    return found


def _own(container: dict[str, Any]) -> dict[str, str]:
    resources = container.get("resources") or {}
    amounts = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return {name: str(amount) for name, amount in amounts.items()}
