"""A role → its Job or StatefulSet."""

from typing import Any

from mlgen.job import Job
from mlgen.objects.labels import metadata, selector, workload_name
from mlgen.objects.pod import template
from mlgen.objects.skeleton import filled
from mlgen.topology import Role, Success

PERMANENT = tuple(range(1, 128))
"""Exit codes that a new start does not mend, as Kubeflow has it (pkg/util/train/train_util.go)."""

# A drained or preempted pod is replaced, and that is no failure of the training.
IGNORE_DISRUPTION = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def workload(job: Job, role: Role) -> dict[str, Any]:
    """Return a StatefulSet for a role that serves, else a Job."""
    return _stateful_set(job, role) if role.serves else _job(job, role)


def _stateful_set(job: Job, role: Role) -> dict[str, Any]:
    return filled(
        "statefulset",
        metadata=metadata(job, workload_name(job, role), role.name, role),
        service=job.name,
        # A StatefulSet cannot be suspended, only emptied.
        replicas=0 if job.run_policy.suspend else role.replicas,
        selector=selector(job, role),
        template=template(job, role),
    )


def _job(job: Job, role: Role) -> dict[str, Any]:
    """An Indexed Job, but for a replica with a Job of its own.

    The Job controller gives the pods of an Indexed Job host names by their index, over any other
    (pkg/controller/job/job_controller.go, manageJob), and such a replica has its own.
    """
    policy = job.run_policy
    return filled(
        "job",
        metadata=metadata(job, workload_name(job, role), role.name, role),
        suspend=policy.suspend,
        indexed=role.index is None,
        replicas=role.replicas,
        per_index=role.tolerates_failure and role.restart != "OnFailure",
        retries=0 if role.restart == "Never" else policy.backoff_limit,
        deadline=policy.active_deadline_seconds,
        ttl=policy.ttl_seconds_after_finished,
        success=_success(role.success) if role.replicas > 1 and role.success else None,
        failure_rules=_failure_rules(role),
        template=template(job, role),
    )


def _success(success: Success) -> dict[str, Any]:
    fields = {"succeededIndexes": success.indexes, "succeededCount": success.count}
    return {name: value for name, value in fields.items() if value is not None}


def _failure_rules(role: Role) -> list[dict[str, Any]]:
    """Return the rules that judge a failed pod; Kubernetes has none for pods that restart."""
    if role.restart == "OnFailure":
        return []
    if role.restart == "Never":
        return [IGNORE_DISRUPTION]
    codes = role.spec.retryable_exit_codes
    permanent = {
        "containerName": role.spec.main_container,
        "operator": "NotIn" if codes else "In",
        "values": sorted(codes or PERMANENT),
    }
    action = "FailIndex" if role.tolerates_failure else "FailJob"
    return [IGNORE_DISRUPTION, {"action": action, "onExitCodes": permanent}]
