"""A role → its Job or StatefulSet."""

from typing import Any

from mlgen.jobfile.model import PERMANENT_EXIT_CODES, TrainingJob
from mlgen.kubernetes.labels import KUEUE_QUEUE
from mlgen.objects.labels import TOLERATES_FAILURE, metadata, selector, workload_name
from mlgen.objects.placement import lone
from mlgen.objects.pod import template
from mlgen.objects.skeleton import filled
from mlgen.topology import SEEN, Role, Success, Topology

# A drained or preempted pod is replaced, and that is no failure of the training.
IGNORE_DISRUPTION = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def workload(topology: Topology, role: Role) -> dict[str, Any]:
    """Return a StatefulSet for a role that serves, else a Job."""
    return _stateful_set(topology, role) if role.serves else _job(topology, role)


def _stateful_set(topology: Topology, role: Role) -> dict[str, Any]:
    job = topology.job
    return filled(
        "statefulset",
        metadata=metadata(job, workload_name(job, role), role.name, role),
        service=job.name,
        # A StatefulSet cannot be suspended, only emptied.
        replicas=0 if job.run_policy.suspend else role.replicas,
        selector=selector(job, role),
        template=template(topology, role),
    )


def _job(topology: Topology, role: Role) -> dict[str, Any]:
    """An Indexed Job, but for a replica with a Job of its own.

    The Job controller gives the pods of an Indexed Job host names by their index, over any other
    (pkg/controller/job/job_controller.go, manageJob), and such a replica has its own.
    """
    job, spec = topology.job, role.spec
    queued = job.scheduling.gang == "kueue" and lone(topology)
    meta = metadata(job, workload_name(job, role), role.name, role)
    if role.tolerates_failure:
        meta["labels"][TOLERATES_FAILURE] = "true"
    if queued:
        meta["labels"][KUEUE_QUEUE] = job.scheduling.queue
    return filled(
        "job",
        metadata=meta,
        # Kueue lets a Job go by itself; a pod group is held by gates that it puts on the pods.
        suspend=job.run_policy.suspend or queued,
        indexed=role.index is None,
        replicas=role.replicas,
        per_index=_per_index(job, role),
        failed_indexes=_failed_indexes(job, role),
        backoff_limit=_backoff_limit(job, role),
        deadline=spec.active_deadline_seconds or job.run_policy.active_deadline_seconds,
        ttl=_ttl(topology),
        success=_success(role.success) if role.replicas > 1 and role.success else None,
        failure_rules=_failure_rules(job, role),
        template=template(topology, role),
    )


def _ttl(topology: Topology) -> int | None:
    """What is gone before the supervisor has asked for it looks deleted by hand."""
    job = topology.job
    ttl = job.run_policy.ttl_seconds_after_finished
    return ttl if ttl is None or not topology.supervised else max(ttl, SEEN)


def _per_index(job: TrainingJob, role: Role) -> int | None:
    """How often a replica may fail, where each counts for itself within one Job.

    Kubernetes cannot count one that restarts in its pod so.
    """
    if role.spec.backoff_limit_per_index is not None:
        return role.spec.backoff_limit_per_index
    apart = role.tolerates_failure and role.index is None and role.restart != "OnFailure"
    return _retries(job, role) if apart else None


def _failed_indexes(job: TrainingJob, role: Role) -> int | None:
    most = role.spec.max_failed_indexes
    if most is None and role.tolerates_failure and _per_index(job, role) is not None:
        return role.replicas
    return most


def _backoff_limit(job: TrainingJob, role: Role) -> int | None:
    """How often replicas may fail, all together; None where each counts for itself alone."""
    if _per_index(job, role) is None:
        return _retries(job, role)
    return role.spec.backoff_limit if role.spec.backoff_limit_per_index is not None else None


def _retries(job: TrainingJob, role: Role) -> int:
    if role.spec.backoff_limit is not None:
        return role.spec.backoff_limit
    return 0 if role.restart in ("Never", "Workflow") else job.run_policy.backoff_limit


def _success(success: Success) -> dict[str, Any]:
    fields = {"succeededIndexes": success.indexes, "succeededCount": success.count}
    return {name: value for name, value in fields.items() if value is not None}


def _failure_rules(job: TrainingJob, role: Role) -> list[dict[str, Any]]:
    """Return the rules that judge a failed pod; Kubernetes has none for pods that restart.

    A workflow judges by itself, and for a gang a preempted pod is as bad as one that failed.
    """
    if role.restart in ("OnFailure", "Workflow"):
        return []
    if role.restart == "Never":
        return [IGNORE_DISRUPTION]
    codes = role.spec.retryable_exit_codes
    permanent = {
        "containerName": role.spec.main_container,
        "operator": "NotIn" if codes else "In",
        "values": sorted(codes or PERMANENT_EXIT_CODES),
    }
    action = "FailJob" if _per_index(job, role) is None else "FailIndex"
    return [IGNORE_DISRUPTION, {"action": action, "onExitCodes": permanent}]
