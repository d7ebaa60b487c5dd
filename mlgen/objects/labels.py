"""The names and labels by which the objects of a job know each other."""

from typing import Any

from mlgen.job import Job
from mlgen.topology import Role

INSTANCE = "app.kubernetes.io/instance"

JOB = "mlgen.dev/job"
ROLE = "mlgen.dev/role"
DECIDES = "mlgen.dev/decides"
TOLERATES_FAILURE = "mlgen.dev/tolerates-failure"
REPLICA_INDEX = "mlgen.dev/replica-index"
TENSORBOARD = "mlgen.dev/tensorboard"

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
SET_INDEX = "apps.kubernetes.io/pod-index"


def index_label(role: Role) -> str:
    """Return the label in which Kubernetes writes a replica's index."""
    return SET_INDEX if role.serves else JOB_INDEX


def selector(job: Job, role: Role | None = None) -> dict[str, str]:
    """Return the labels that select a job's pods, or those of one role, or of its one replica."""
    found = {JOB: job.name}
    if role:
        found[ROLE] = role.name
    if role and role.index is not None:
        found[REPLICA_INDEX] = str(role.index)
    return found


def labels(job: Job, component: str, role: Role | None = None) -> dict[str, str]:
    """Return the labels of an object, or of a role's pods.

    The first five are Kubernetes' own:
    https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
    """
    found = {
        "app.kubernetes.io/name": job.framework,
        INSTANCE: job.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": job.part_of or job.name,
        "app.kubernetes.io/managed-by": "mlgen",
        **selector(job, role),
        **(role.labels if role else {}),
    }
    if role and role.decides:
        found[DECIDES] = "true"
    return found


def metadata(job: Job, name: str, component: str, role: Role | None = None) -> dict[str, Any]:
    """Return the metadata of an object: its name and namespace, our labels and the user's."""
    found: dict[str, Any] = {"name": name}
    if job.namespace:
        found["namespace"] = job.namespace
    found["labels"] = labels(job, component, role) | dict(job.labels)
    if job.annotations:
        found["annotations"] = dict(job.annotations)
    return found


def workload_name(job: Job, role: Role) -> str:
    """Return the name of a role's Job or StatefulSet: `<job>-<role>`, and the replica's index."""
    index = "" if role.index is None else f"-{role.index}"
    return role.workload or f"{job.name}-{role.name}{index}"


def config_name(job: Job) -> str:
    """Return the name of the job's ConfigMap."""
    return f"{job.name}-config"
