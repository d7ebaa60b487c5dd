"""The names and labels by which the objects of a job know each other."""

from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.topology import INDEX_NAME, Role

INSTANCE = "app.kubernetes.io/instance"

JOB = "mlgen.dev/job"
ROLE = "mlgen.dev/role"
DECIDES = "mlgen.dev/decides"
TOLERATES_FAILURE = "mlgen.dev/tolerates-failure"
REPLICA_INDEX = "mlgen.dev/replica-index"
TENSORBOARD = "mlgen.dev/tensorboard"


def index_label(role: Role) -> str:
    """Return the label in which Kubernetes writes a replica's index."""
    return SET_INDEX if role.serves else JOB_INDEX


def selector(job: TrainingJob, role: Role | None = None) -> dict[str, str]:
    """Return the labels that select a job's pods, or those of one role, or of its one replica."""
    found = {JOB: job.name}
    if role:
        found[ROLE] = role.name
    if role and role.index is not None:
        found[REPLICA_INDEX] = str(role.index)
    return found


def labels(job: TrainingJob, component: str, role: Role | None = None) -> dict[str, str]:
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


def metadata(
    job: TrainingJob, name: str, component: str, role: Role | None = None
) -> dict[str, Any]:
    """Return the metadata of an object: its name and namespace, our labels and the user's."""
    found: dict[str, Any] = {"name": name}
    if job.namespace:
        found["namespace"] = job.namespace
    found["labels"] = labels(job, component, role) | dict(job.labels)
    if job.annotations:
        found["annotations"] = dict(job.annotations)
    return found


def workload_name(job: TrainingJob, role: Role) -> str:
    """Return the name of a role's Job or StatefulSet: `<job>-<role>`, and the replica's index."""
    index = "" if role.index is None else f"-{role.index}"
    return role.workload or f"{job.name}-{role.name}{index}"


def config_name(job: TrainingJob) -> str:
    """Return the name of the job's ConfigMap."""
    return f"{job.name}-config"


def status_name(job: str) -> str:
    """Return the name of the ConfigMap with a job's conditions, by the job's name."""
    return f"{job}-status"


INDEX_FORMS = rf"\d+|\[\d+-\d+\]|\$\({INDEX_NAME}\)"
"""A pattern for the index in an address: a number, a range of them, or the reader's own."""
