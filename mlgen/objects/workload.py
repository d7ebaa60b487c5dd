"""Roles → their Jobs and StatefulSets; thousands of Jobs of single replicas are copies of one.

Such Jobs differ in a few values: index, name, some variables, ports on the node. One Job is built
with unique placeholder values, which the copies replace. Equal parts are the same dict or list in
all copies, so they are checked and written once. Do not modify them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from mlgen.jobfile.model import PERMANENT_EXIT_CODES, TrainingJob
from mlgen.kubernetes.names import KUEUE_QUEUE
from mlgen.kubernetes.objects import INT32_MAX
from mlgen.objects import placement
from mlgen.objects.labels import MAX_REPLICAS, SUPERVISOR, WAITS, metadata, selector, workload_name
from mlgen.objects.pod import pod_template
from mlgen.objects.skeleton import filled
from mlgen.topology import INDEX, Role, Topology

IGNORE_DISRUPTION: dict[str, Any] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""The podFailurePolicy rule that does not count a drained or preempted pod as failed."""


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
        service=job.subdomain,
        # A StatefulSet has no field to suspend it.
        replicas=0 if _is_suspended(topology, role) else role.replicas,
        selector=selector(job, role),
        template=pod_template(topology, role),
    )


def _job(topology: Topology, role: Role) -> dict[str, Any]:
    """Return an Indexed Job, or a plain Job for a replica that has its own Job.

    Such a replica sets its own hostname, which the Job controller would override in an Indexed Job
    (pkg/controller/job/job_controller.go, manageJob).
    """
    job = topology.job
    queued = placement.is_queued(topology) and not placement.is_group(topology) and not job.jobset
    job_metadata = metadata(job, workload_name(job, role), role.name, role)
    if queued:
        job_metadata["labels"][KUEUE_QUEUE] = job.scheduling.queue
        if placement.is_sliced(job, role):
            job_metadata.setdefault("annotations", {}).setdefault(placement.ELASTIC, "true")
    if role.orders and topology.supervised:
        job_metadata.setdefault("annotations", {})[SUPERVISOR] = WAITS
    indexed = role.index is None or job.jobset
    per_index, failed, together = _limits(job, role)
    success = role.success if role.replicas > 1 else None
    return filled(
        "job",
        metadata=job_metadata,
        suspend=_is_suspended(topology, role) or None,
        completion_mode="Indexed" if indexed else None,
        replicas=role.replicas if indexed else None,
        backoff_limit_per_index=per_index,
        max_failed_indexes=failed,
        backoff_limit=together,
        deadline=role.spec.active_deadline_seconds or job.run_policy.active_deadline_seconds,
        # With a supervisor, it is deleted together with the supervisor's Job.
        # JobSet deletes its Jobs with itself.
        ttl=None
        if topology.supervised or job.jobset
        else job.run_policy.ttl_seconds_after_finished,
        succeeded_indexes=success.indexes if success else None,
        succeeded_count=success.count if success else None,
        failure_rules=_failure_rules(topology, role) or None,
        # Kueue deletes a pod that is more than the group has. So no pod may be created before the
        # pod that it replaces has ended, which is the default only with a podFailurePolicy.
        replacement="Failed" if placement.is_group(topology) else None,
        template=pod_template(topology, role),
    )


def _is_suspended(topology: Topology, role: Role) -> bool:
    """Return True if a role is suspended, with the job or until others are complete or ready.

    Kueue suspends a Job in a queue when it is created, with its webhook or else its controller, and
    resumes it (kubernetes-sigs/kueue, pkg/controller/jobframework/defaults.go and reconciler.go).
    A second `kubectl apply` must not suspend it again. Kueue holds a pod group by scheduling gates,
    so it would never resume the Jobs of these pods. JobSet suspends its Jobs itself.
    """
    if topology.job.jobset or placement.is_queued(topology):
        return False
    return topology.job.run_policy.suspend or bool(role.orders)


def _limits(job: TrainingJob, role: Role) -> tuple[int | None, int | None, int | None]:
    """Return backoffLimitPerIndex, maxFailedIndexes and backoffLimit; None is omitted.

    backoffLimitPerIndex is None if the failures of all replicas are counted together, backoffLimit
    if only the limit per index applies. The API server rejects a limit per index for pods with
    restartPolicy OnFailure. In a gang, failures are counted per index: otherwise the more replicas
    have failed, the longer the Job controller delays the pods of a resumed Job
    (pkg/controller/job/backoff_utils.go).
    """
    spec = role.spec
    independent = role.tolerates_failure and role.restart != "OnFailure"
    if spec.backoff_limit_per_index is not None:
        per_index, together = spec.backoff_limit_per_index, spec.backoff_limit
    elif role.index is None and (independent or (role.restarts_together and not job.jobset)):
        per_index, together = _retries(job, role), None
    else:
        return None, None, _retries(job, role)
    failed = spec.max_failed_indexes
    if failed is None and role.tolerates_failure and not role.gang:
        failed = role.replicas
    return per_index, failed, together


def _retries(job: TrainingJob, role: Role) -> int:
    """Return the number of retries of failed pods, from the role or from its restart policy.

    In a gang, the supervisor counts the retries, so the Job's own limit must not apply. JobSet
    counts the restarts of Jobs that have failed, so the first failure must fail the Job.
    """
    if role.restarts_together:
        return 0 if job.jobset else INT32_MAX
    if role.spec.backoff_limit is not None:
        return role.spec.backoff_limit
    if role.restart == "Always":
        return INT32_MAX
    if role.restart == "Never":
        return job.run_policy.backoff_limit or 0
    return 0 if role.restart == "Workflow" else job.run_policy.retries


def _failure_rules(topology: Topology, role: Role) -> list[dict[str, Any]]:
    """Return the rules of a Job's podFailurePolicy.

    The API server rejects a podFailurePolicy for pods with restartPolicy OnFailure. A workflow
    restarts the whole job after any failure, so a preempted pod must count as failed there.
    """
    job, ignored = topology.job, IGNORE_DISRUPTION
    together = role.restarts_together
    if job.jobset and role.gang:
        ignored = {**ignored, "action": "FailJob"}  # JobSet then restarts the gang
    if placement.is_group(topology):
        conditions = [*ignored["onPodConditions"], {"type": placement.TERMINATED, "status": "True"}]
        ignored = {**ignored, "onPodConditions": conditions}
    if (together and not job.jobset) or (role.restart in UNRULED and not together):
        return []
    if role.restart != "ExitCode":
        return [ignored]
    retryable = role.spec.retryable_exit_codes
    exit_codes = {
        "containerName": role.spec.main_container,
        "operator": "NotIn" if retryable else "In",
        "values": sorted(retryable or PERMANENT_EXIT_CODES),
    }
    action = "FailJob" if _limits(job, role)[0] is None else "FailIndex"
    return [ignored, {"action": action, "onExitCodes": exit_codes}]


UNRULED = ("Always", "OnFailure", "Workflow")
"""The restart policies of roles without a podFailurePolicy, unless they restart together."""

FEW = 3
"""Up to this number of replicas, Jobs are built individually."""

NO_NUMBER = -(10**15)
"""A placeholder: ports and indexes are always above this number."""

_equal_fields = attrgetter(*({f.name for f in fields(Role)} - {"index", "env", "host_ports"}))


def workloads(topology: Topology) -> Iterator[tuple[Role, dict[str, Any]]]:
    """Yield each role with its Job or StatefulSet.

    Raises:
        MlgenError: see `pod_template`.
    """
    for _, group in groupby(topology.roles, _form):
        roles = list(group)
        env = roles[0].env
        varying = [name for name in env if any(role.env[name] != env[name] for role in roles)]
        texts = [role.env[name] for role in roles for name in varying]
        if len(roles) > FEW and all(map(_is_plain, texts)):
            yield from zip(roles, _copies(topology, roles, varying), strict=True)
        else:
            yield from ((role, workload(topology, role)) for role in roles)


def _form(role: Role) -> tuple[Any, ...]:
    """Return the fields that must be equal in replicas whose Jobs are copies of one Job."""
    return *_equal_fields(role), [*role.env], [*role.host_ports]


def _is_plain(value: Any) -> bool:
    """Return True if a value refers only to the index, so its variable's position is fixed."""
    return isinstance(value, str) and "$(" not in value.replace(INDEX, "")


def _copies(
    topology: Topology, roles: Sequence[Role], varying: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the Job of each replica, a copy of one Job with the replica's values.

    Args:
        topology: the job's topology.
        roles: the replicas.
        varying: the variables in which they differ.
    """

    def values(role: Role) -> list[Any]:
        env = [role.env[name] for name in varying]
        return [workload_name(topology.job, role), str(role.index), *env, *role.host_ports.values()]

    placeholder = replace(
        roles[0],
        workload="\0name",
        index=NO_NUMBER,
        env={**roles[0].env, **{name: f"\0{name}" for name in varying}},
        host_ports={name: NO_NUMBER - i for i, name in enumerate(roles[0].host_ports)},
    )
    model = workload(topology, placeholder)
    slots = _slots(model, {value: number for number, value in enumerate(values(placeholder))})
    return (_with(model, slots, values(role)) for role in roles)


def _slots(node: Any, numbers: Mapping[Any, int]) -> Any:
    """Return the positions of values in an object, as nested mappings to numbers; None if none."""
    if not isinstance(node, dict | list):
        return numbers.get(node)
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    by_key = {key: _slots(value, numbers) for key, value in pairs}
    return {key: slots for key, slots in by_key.items() if slots is not None} or None


def _with(node: Any, slots: Any, values: Sequence[Any]) -> Any:
    """Return a copy of an object with new values in its slots; parts without slots are shared."""
    if isinstance(slots, int):
        return values[slots]
    copy = node.copy()
    for key, slot in slots.items():
        copy[key] = _with(node[key], slot, values)
    return copy
