"""The roles of a TrainingJob that the replicated Jobs become, one for each Job."""

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.pod_labels import (
    PLACEMENT,
    exclusive_affinity,
    exclusive_topology,
    pod_metadata,
)
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob
from mlgen.dialects.jobset.restarts import Restarts
from mlgen.dialects.jobset.retries import retry_fields
from mlgen.dialects.jobset.volume_claims import claim_volumes, mounted_volumes

JOB_CONTROLLER = "kubernetes.io/job-controller"
"""The value of `managedBy` of a Job that Kubernetes itself manages."""

SCHEDULING_GROUP = "schedulingGroup"
"""The field of a pod that names its PodGroup in Kubernetes' own API."""

GANG_HINT = "for gang scheduling, pass --set spec.scheduling.gang=volcano"


def write_roles(
    builder: Builder,
    replicated_jobs: list[ReplicatedJob],
    replicated: ReplicatedJob,
    restarts: Restarts,
) -> None:
    """Write a role for each Job of a replicated Job; the roles differ only in their labels."""
    fields = retry_fields(builder, replicated, restarts)
    _report_job_fields(builder, replicated)
    for index, role in enumerate(replicated.roles):
        template = _pod_template(builder, replicated_jobs, replicated, index)
        builder.role(role, template, replicated.main_container)
        for name, (source, value) in fields.items():
            builder.put(("spec", "roles", role, name), source, value)


def _report_job_fields(builder: Builder, replicated: ReplicatedJob) -> None:
    """Report the fields of a Job that are rejected or not rendered; write `managedBy`."""
    spec = replicated.spec
    for name in ("manualSelector", "selector"):
        if spec.get(name):
            message = "mlgen sets the selector of each Job"
            builder.refuse(spec.get(name), message, "remove it")
    if spec.get("managedBy").value != JOB_CONTROLLER:
        builder.put(("spec", "runPolicy", "managedBy"), spec.get("managedBy"))
    for name in ("labels", "annotations"):
        metadata = replicated.source.get("template", "metadata", name)
        if set(metadata.value or {}) - set(PLACEMENT):
            message = f"{name} of a single Job are not rendered"
            hint = f"write {name} in metadata for all objects, or in the pod template for pods"
            builder.differs(metadata, message, hint)
    group = replicated.pod_template.get("spec", SCHEDULING_GROUP)
    if group:
        message = "Kubernetes' own pod groups are not rendered"
        builder.differs(group, message, GANG_HINT)


def _pod_template(
    builder: Builder, replicated_jobs: list[ReplicatedJob], replicated: ReplicatedJob, index: int
) -> SourceValue:
    """Return the pod template of one Job, with the fields that JobSet adds to it."""
    template = replicated.pod_template
    metadata, spec = dict(template.value.get("metadata", {})), dict(template.value["spec"])
    for name in ("subdomain", SCHEDULING_GROUP):
        spec.pop(name, None)
    topology_key = exclusive_topology(builder, replicated)
    if topology_key:
        spec["affinity"] = exclusive_affinity(spec.get("affinity", {}), topology_key)
    labels, annotations = pod_metadata(builder, replicated_jobs, replicated, index)
    metadata["labels"] = metadata.get("labels", {}) | labels
    metadata["annotations"] = metadata.get("annotations", {}) | annotations
    mounted = mounted_volumes(replicated)
    claims = [volume for volume in claim_volumes(builder) if volume["name"] in mounted]
    spec["volumes"] = [*spec.get("volumes", []), *claims]
    return SourceValue({"metadata": metadata, "spec": spec}, template.path)
