"""Roles → their Jobs and StatefulSets; thousands of Jobs of single replicas are copies of one.

Such Jobs differ in a few values: index, name, some variables, ports on the node. Two of them are
built; the others differ where these do. What is equal is the same dict or list in all of them, so
it is checked and written once. Nothing may change it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any

from mlgen.jobfile.model import PERMANENT_EXIT_CODES, TrainingJob
from mlgen.kubernetes.labels import KUEUE_QUEUE
from mlgen.kubernetes.limits import INT32_MAX
from mlgen.objects import placement
from mlgen.objects.labels import (
    MAX_REPLICAS,
    SUPERVISOR,
    WAITS,
    metadata,
    selector,
    workload_name,
)
from mlgen.objects.pod import pod_template
from mlgen.objects.skeleton import filled
from mlgen.problems import ValuePath
from mlgen.topology import INDEX, INDEX_NAME, Role, Success, Topology

IGNORE_DISRUPTION: dict[str, Any] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""The rule that replaces a drained or preempted pod without counting it as failed."""


def workload(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the StatefulSet of a role that serves, or the Job of any other role."""
    manifest = _stateful_set(topology, role) if role.serves else _job(topology, role)
    if role.max_replicas and role.max_replicas > role.replicas:
        annotations = manifest["metadata"].setdefault("annotations", {})
        annotations[MAX_REPLICAS] = str(role.max_replicas)
    return manifest


def _stateful_set(topology: Topology, role: Role) -> dict[str, Any]:
    job = topology.job
    return filled(
        "statefulset",
        metadata=metadata(job, workload_name(job, role), role.name, role),
        service=job.name,
        # A StatefulSet has no field to suspend it.
        replicas=0 if _is_suspended(topology, role) else role.replicas,
        selector=selector(job, role),
        template=pod_template(topology, role),
    )


def _job(topology: Topology, role: Role) -> dict[str, Any]:
    """Return an Indexed Job, or a plain Job for a replica that has a Job of its own.

    Such a replica sets its own hostname, which the Job controller would override in an Indexed Job
    (pkg/controller/job/job_controller.go, manageJob).
    """
    job = topology.job
    queued = job.scheduling.gang == "kueue" and placement.is_single_job(topology)
    job_metadata = metadata(job, workload_name(job, role), role.name, role)
    if queued:
        job_metadata["labels"][KUEUE_QUEUE] = job.scheduling.queue
    if role.orders and topology.supervised:
        job_metadata.setdefault("annotations", {})[SUPERVISOR] = WAITS
    indexed = role.index is None
    return filled(
        "job",
        metadata=job_metadata,
        suspend=_is_suspended(topology, role) or None,
        completion_mode="Indexed" if indexed else None,
        replicas=role.replicas if indexed else None,
        backoff_limit_per_index=_backoff_limit_per_index(job, role),
        max_failed_indexes=_max_failed_indexes(job, role),
        backoff_limit=_backoff_limit(job, role),
        deadline=role.spec.active_deadline_seconds or job.run_policy.active_deadline_seconds,
        ttl=_ttl(topology),
        success_rule=_success_rule(role.success) if role.replicas > 1 and role.success else None,
        failure_rules=_failure_rules(topology, role) or None,
        template=pod_template(topology, role),
    )


def _is_suspended(topology: Topology, role: Role) -> bool:
    """Return whether a role is suspended, with the job or until others are complete or ready.

    Kueue resumes a single Job. It holds a pod group by scheduling gates instead, so it would never
    resume the Jobs and StatefulSets of these pods.
    """
    if topology.job.scheduling.gang == "kueue":
        return placement.is_single_job(topology)
    return topology.job.run_policy.suspend or bool(role.orders)


def _ttl(topology: Topology) -> int | None:
    """Return ttlSecondsAfterFinished of a Job; None if it is deleted with the supervisor's."""
    return None if topology.supervised else topology.job.run_policy.ttl_seconds_after_finished


def _backoff_limit_per_index(job: TrainingJob, role: Role) -> int | None:
    """Return backoffLimitPerIndex, or None if the failures of all replicas are counted together.

    The API server rejects it for pods with restartPolicy OnFailure. In a gang, the Job controller
    delays the pods of a resumed Job the longer, the more replicas have failed together, unless it
    counts by index (pkg/controller/job/backoff_utils.go).
    """
    if role.spec.backoff_limit_per_index is not None:
        return role.spec.backoff_limit_per_index
    if role.index is not None:
        return None
    independent = role.tolerates_failure and role.restart != "OnFailure"
    return _retries(job, role) if independent or role.restarts_together else None


def _max_failed_indexes(job: TrainingJob, role: Role) -> int | None:
    """Return maxFailedIndexes: the user's, or all replicas if the role tolerates failures."""
    limit = role.spec.max_failed_indexes
    if _backoff_limit_per_index(job, role) is None:
        return None
    if limit is None and role.tolerates_failure and not role.gang:
        return role.replicas
    return limit


def _backoff_limit(job: TrainingJob, role: Role) -> int | None:
    """Return backoffLimit, or None if only the limit per index applies."""
    if _backoff_limit_per_index(job, role) is None:
        return _retries(job, role)
    return role.spec.backoff_limit if role.spec.backoff_limit_per_index is not None else None


def _retries(job: TrainingJob, role: Role) -> int:
    """Return how often failed pods are retried: as the role sets, or as its restart policy does.

    In a gang, the supervisor counts, and the Job must not fail before all start again.
    """
    if role.restarts_together:
        return INT32_MAX
    if role.spec.backoff_limit is not None:
        return role.spec.backoff_limit
    if role.restart == "Never":
        return job.run_policy.backoff_limit or 0
    return 0 if role.restart == "Workflow" else job.run_policy.retries


def _success_rule(success: Success) -> dict[str, Any]:
    """Return the rule of a Job's successPolicy."""
    fields = {"succeededIndexes": success.indexes, "succeededCount": success.count}
    return {name: value for name, value in fields.items() if value is not None}


def _failure_rules(topology: Topology, role: Role) -> list[dict[str, Any]]:
    """Return the rules of a Job's podFailurePolicy.

    The API server rejects a podFailurePolicy for pods with restartPolicy OnFailure. A workflow
    restarts the whole job after any failure, so a preempted pod has to count as failed there.
    """
    job, ignored = topology.job, IGNORE_DISRUPTION
    if placement.is_group(topology):
        conditions = [*ignored["onPodConditions"], {"type": placement.TERMINATED, "status": "True"}]
        ignored = {**ignored, "onPodConditions": conditions}
    if role.restarts_together or role.restart in ("OnFailure", "Workflow"):
        return []
    if role.restart == "Never":
        return [ignored]
    retryable = role.spec.retryable_exit_codes
    exit_codes = {
        "containerName": role.spec.main_container,
        "operator": "NotIn" if retryable else "In",
        "values": sorted(retryable or PERMANENT_EXIT_CODES),
    }
    action = "FailJob" if _backoff_limit_per_index(job, role) is None else "FailIndex"
    return [ignored, {"action": action, "onExitCodes": exit_codes}]


FEW = 3
"""The Jobs of so few replicas are built one by one."""

VARYING = ("index", "env", "host_ports")
"""The fields in which replicas of one role may differ."""

Source = tuple[str, str]
"""What a value is: a variable or port and its name, or one of these two."""

NAME: Source = ("role", "name")
OWN_INDEX: Source = ("role", "index")

_same_fields = attrgetter(*(f.name for f in fields(Role) if f.name not in VARYING))


def workloads(topology: Topology) -> Iterator[tuple[Role, dict[str, Any]]]:
    """Yield each role with its Job or StatefulSet.

    Raises:
        MlgenError: see `pod_template`.
    """
    for _, group in groupby(topology.roles, attrgetter("name")):
        roles = list(group)
        model = _Model(topology, *roles[-2:]) if len(roles) > FEW else None
        for role in roles:
            yield role, (model.copied(role) if model else None) or workload(topology, role)


class _Model:
    """The Job of one replica, which is copied for others.

    Attributes:
        topology: of the job.
        role: the replica.
        manifest: its Job.
        slots: see `_slots`.
    """

    def __init__(self, topology: Topology, role: Role, other: Role) -> None:
        self.topology, self.role = topology, role
        self.manifest = workload(topology, role)
        pairs = list(_differences(self.manifest, workload(topology, other), ()))
        values = _values(topology, role), _values(topology, other)
        self.slots = _slots(self.manifest, pairs, *values)
        self.env = {name: value for name, value in role.env.items() if value == other.env.get(name)}

    def copied(self, role: Role) -> dict[str, Any] | None:
        """Return the Job of another replica; None if they differ in more than values."""
        mine = self.role
        if self.slots is None or _same_fields(role) != _same_fields(mine):
            return None
        if list(role.env) != list(mine.env) or list(role.host_ports) != list(mine.host_ports):
            return None
        if any(role.env[name] != value for name, value in self.env.items()):
            return None
        manifest: dict[str, Any] = _filled(self.manifest, self.slots, _values(self.topology, role))
        return manifest


def _values(topology: Topology, role: Role) -> dict[Source, Any]:
    """Return the values in which a replica may differ from others."""
    values: dict[Source, Any] = {("env", name): value for name, value in role.env.items()}
    values |= {("port", name): port for name, port in role.host_ports.items()}
    values[NAME] = workload_name(topology.job, role)
    values[OWN_INDEX] = str(role.index)
    return values


def _differences(first: Any, second: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the path of each value in which two objects differ, and both values."""
    if first == second:
        return
    if isinstance(first, dict) and isinstance(second, dict) and list(first) == list(second):
        for key in first:
            yield from _differences(first[key], second[key], (*path, key))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from _differences(*pair, (*path, number))
    else:
        yield path, first, second


def _slots(
    manifest: Any,
    pairs: Iterable[tuple[ValuePath, Any, Any]],
    values: Mapping[Source, Any],
    others: Mapping[Source, Any],
) -> dict[Any, Any] | None:
    """Return the source of each value that differs, in mappings like the object itself.

    Args:
        manifest: the Job of a replica.
        pairs: its values that differ from those of another replica, with these.
        values: of the replica.
        others: those of the other one.

    Returns:
        None if the source of a value is unknown.
    """
    slots: dict[Any, Any] = {}
    for path, first, second in pairs:
        holder, inner = manifest, slots
        for step in path[:-1]:
            holder, inner = holder[step], inner.setdefault(step, {})
        if path[-3:-2] == ("env",):
            name = holder["name"]
            candidates = [OWN_INDEX if name == INDEX_NAME else ("env", name)]
        else:
            candidates = [source for source in values if source[0] != "env"]
        sources = (s for s in candidates if values.get(s) == first and others.get(s) == second)
        inner[path[-1]] = next(sources, None)
        # The order of variables depends on those that they refer to.
        if inner[path[-1]] is None or "$(" in str(first).replace(INDEX, ""):
            return None
    return slots


def _filled(node: Any, slots: Mapping[Any, Any], values: Mapping[Source, Any]) -> Any:
    """Return a copy of an object with other values; what has no slots is not copied."""
    copy = node.copy()
    for key, slot in slots.items():
        is_source = type(slot) is tuple
        copy[key] = values[slot] if is_source else _filled(node[key], slot, values)
    return copy
