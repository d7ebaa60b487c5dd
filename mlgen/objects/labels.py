"""Names, labels and selectors of a job's objects."""

import re
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.values import mapping, value_at
from mlgen.topology import INDEX_NAME, Role
from mlgen.version import ANNOTATION, VERSION

COMPONENT = "app.kubernetes.io/component"
INSTANCE = "app.kubernetes.io/instance"
MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"

JOB = "mlgen.dev/job"
ROLE = "mlgen.dev/role"
DECIDES = "mlgen.dev/decides"
REPLICA_INDEX = "mlgen.dev/replica-index"

SUPERVISES = "mlgen.dev/supervises"
"""The label with the name of the job, of a supervisor's pod and of the ConfigMap with its status.

Without the label JOB, the pod is not a replica, and a cleanup by that label keeps the ConfigMap.
Users and tools such as Argo CD may overwrite the recommended labels, so mlgen does not select by
them.
"""

OWNER = "mlgen.dev/owner"
"""The annotation of a job's objects with the person who runs it."""

MATRIX = "mlgen.dev/matrix"
"""The annotation of a combination of a matrix: all of its values, as JSON."""

MATRIX_VALUE = "matrix.mlgen.dev/"
"""The prefix of the labels with the values of a combination, such as `matrix.mlgen.dev/lr`."""

SET = "mlgen.dev/set"
"""The label of a job's pods under a GitOps tool: a hash of the job's objects.

While the tool replaces a changed job, Services select only pods with the new value.
"""

SUPERVISOR = "mlgen.dev/supervisor"
"""The annotation of a Job with the supervisor's last action on it, as JSON; see WAITS."""

WAITS = "waits"
"""The value of SUPERVISOR in a Job that starts when another role is complete or ready.

Re-applying the manifests writes it again. So the supervisor can distinguish a Job that waits from a
Job that the user suspended by hand.
"""

PROGRAM = "mlgen.dev/program"
"""The annotation of a ConfigMap with a program of mlgen: `mlgen:VERSION@sha256:DIGEST`."""

SOURCE = "mlgen.dev/source"
"""The annotation of the deciding Job with the job file, as JSON, which `mlgen apply` writes."""

MAX_REPLICAS = "mlgen.dev/max-replicas"
"""The annotation with the maximum number of replicas to which a workload can be scaled."""


def index_label(role: Role) -> str:
    """Return the label to which the role's controller writes the index of a pod."""
    return SET_INDEX if role.serves else JOB_INDEX


def selector(job: TrainingJob, role: Role | None = None) -> dict[str, str]:
    """Return the labels that select the pods of a job or of one role.

    If the role is a replica with its own Job, they select only that replica.
    """
    match_labels = {JOB: job.name}
    if role:
        match_labels[ROLE] = role.name
    if role and role.index is not None:
        match_labels[REPLICA_INDEX] = str(role.index)
    return match_labels


def labels(job: TrainingJob, component: str, role: Role | None = None) -> dict[str, str]:
    """Return the labels of a role's pods."""
    return app_labels(job, component) | _own_labels(job, role)


TOOLS = r"[^/]*(mlgen\.dev|kubernetes\.io|k8s\.io|helm\.sh|volcano\.sh|argoproj\.io|fluxcd\.io)/.*"
"""Labels with which a tool or controller finds the objects that it manages.

A pod must not have them: it would be managed on its own, for example by Kueue. And pod templates
cannot change, so an upgrade of a Helm chart, which is in `helm.sh/chart`, would be rejected.
"""


def pod_labels(job: TrainingJob, role: Role) -> dict[str, str]:
    """Return the labels of a role's pods, with the user's labels, for example for cost reports."""
    return labels(job, role.name, role) | users_labels(job)


def users_labels(job: TrainingJob) -> dict[str, str]:
    """Return the labels in the job file that pods also have: without those of tools."""
    return {name: value for name, value in job.labels.items() if not re.fullmatch(TOOLS, name)}


def app_labels(job: TrainingJob, component: str) -> dict[str, str]:
    """Return Kubernetes' recommended labels for an object: name, instance and component.

    Pods that are not replicas have these labels and the user's, without the job's own label. So the
    job's pod affinity and spread constraints do not apply to them, and the job's Service does not
    select them. https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
    """
    return {"app.kubernetes.io/name": job.framework, INSTANCE: job.name, COMPONENT: component}


def _own_labels(job: TrainingJob, role: Role | None) -> dict[str, str]:
    """Return mlgen's labels, and the labels of the role's framework."""
    own_labels = selector(job, role) | dict(role.labels if role else {})
    if role and role.decides and not job.decides_together:
        own_labels[DECIDES] = "true"
    return own_labels


def metadata(
    job: TrainingJob, name: str, component: str, role: Role | None = None
) -> dict[str, Any]:
    """Return the metadata of an object, with the labels and annotations of mlgen and the user."""
    object_labels = app_labels(job, component)
    object_labels |= {PART_OF: job.part_of} if job.part_of else {}
    object_labels |= {MANAGED_BY: "mlgen"} | _own_labels(job, role) | dict(job.labels)
    return {
        "name": name,
        **({"namespace": job.namespace} if job.namespace else {}),
        "labels": object_labels,
        **({"annotations": dict(job.annotations)} if job.annotations else {}),
    }


def sign(metadata: dict[str, Any]) -> None:
    """Write the version of mlgen to the metadata of the object that represents a job.

    Only one object has it, and no pod, so an upgrade of mlgen alone changes one line and restarts
    no job.
    """
    metadata["annotations"] = {**metadata.get("annotations", {}), ANNOTATION: VERSION}


def workload_name(job: TrainingJob, role: Role) -> str:
    """Return the name of a role's Job or StatefulSet: `<job>-<role>` or `<job>-<role>-<index>`.

    JobSet adds the index of a Job to the name of its replicated Job. Here, that index is always 0.
    """
    name = role.workload or f"{job.name}-{numbered(role)}"
    return f"{name}-0" if job.jobset and not role.workload else name


def numbered(role: Role) -> str:
    """Return the name of a role, with the index of the replica if it has its own Job."""
    return role.name if role.index is None else f"{role.name}-{role.index}"


def is_rendered_jobset(data: Any) -> bool:
    """Return True for a JobSet that mlgen has rendered."""
    return value_at(data, ("kind",)) == "JobSet" and JOB in mapping(data, "metadata", "labels")


def config_name(job: str, part: str = "config") -> str:
    """Return the name of a job's ConfigMap: `<job>.<part>`.

    The name of a job contains no dot. So the part before the dot is the job, and the ConfigMaps of
    two jobs never have the same name.

    Args:
        job: the name of the job.
        part: `config` for its scripts and framework files, `status` for its conditions,
            `supervisor`, or `manifests`.
    """
    return f"{job}.{part}"


def part_of(item: dict[str, Any]) -> str:
    """Return the part of a ConfigMap's name, as in `config_name`; "" if it is not in this form.

    An overlay may have added text to both ends of the name.
    """
    name = item["metadata"].get("name") if item.get("kind") == "ConfigMap" else ""
    part = str(name).partition(".")[2]
    return "" if "." in part else part.partition("-")[0]


def files_name(job: str, volume: str) -> str:
    """Return the name of the ConfigMap of a volume with `files`: `<job>.files.<volume>`.

    The name of a volume contains no dot, so it is never the name of another ConfigMap of the job.
    """
    return config_name(job, f"files.{volume}")


def helper_name(job: TrainingJob, helper: str) -> str:
    """Return the name of an object of a pod that is no replica: `<job>-<helper>`."""
    return f"{job.name}-{helper}"


def status_name(job: str) -> str:
    """Return the name of the ConfigMap with the conditions of the job of this name."""
    return config_name(job, "status")


INDEX_FORMS = rf"\d+|\[\d+-\d+\]|\$\({INDEX_NAME}\)"
"""A pattern for the index in an address: a number, a range, or the index variable."""
