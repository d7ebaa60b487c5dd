"""A role → its Job or StatefulSet."""

from typing import Any

from mlgen.jobfile.model import PERMANENT_EXIT_CODES, TrainingJob
from mlgen.kubernetes.labels import KUEUE_QUEUE
from mlgen.kubernetes.limits import INT32_MAX
from mlgen.objects import kueue
from mlgen.objects.labels import (
    MAX_REPLICAS,
    SUPERVISOR,
    WAITS,
    metadata,
    selector,
    workload_name,
)
from mlgen.objects.placement import is_single_job
from mlgen.objects.pod import pod_template
from mlgen.objects.skeleton import filled
from mlgen.topology import Role, Success, Topology

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
    queued = job.scheduling.gang == "kueue" and is_single_job(topology)
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
        return is_single_job(topology)
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
    if kueue.is_group(topology):
        conditions = [*ignored["onPodConditions"], {"type": kueue.TERMINATED, "status": "True"}]
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
