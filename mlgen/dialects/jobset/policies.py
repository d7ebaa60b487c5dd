"""Fields that apply to a JobSet as a whole: TTL, deadline, suspension, coordinator."""

from mlgen.dialects._builder import Builder
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, require_names
from mlgen.dialects.jobset.roles import GANG_HINT

CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
"""The value of `managedBy` of a JobSet that JobSet itself manages."""


def write_policies(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write `spec.runPolicy`; report what is not rendered."""
    spec = builder.spec
    for name in ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        builder.put(("spec", "runPolicy", name), spec.get(name))
    if spec.get("managedBy").value != CONTROLLER:
        builder.put(("spec", "runPolicy", "managedBy"), spec.get("managedBy"))
    _write_ttl(builder, replicated_jobs)
    if spec.get("scheduling"):
        message = "JobSet creates Kubernetes' own pod groups; here they are not rendered"
        builder.differs(spec.get("scheduling"), message, GANG_HINT)
    _check_coordinator(builder, replicated_jobs)


def _write_ttl(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write the TTL of the Jobs if the JobSet has none; report Jobs with another one.

    The TTL is that of the whole job.
    """
    for replicated in replicated_jobs:
        ttl = replicated.spec.get("ttlSecondsAfterFinished")
        seconds = builder.data["spec"].get("runPolicy", {}).get("ttlSecondsAfterFinished")
        if ttl and seconds is None:
            builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), ttl)
        elif ttl and ttl.value != seconds:
            message = f"here all Jobs are deleted {seconds} s after the job has finished"
            builder.differs(ttl, message, "write only spec.ttlSecondsAfterFinished")


def _check_coordinator(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Report a coordinator that is not one of the pods."""
    coordinator = builder.spec.get("coordinator")
    if not coordinator:
        return
    name = coordinator.get("replicatedJob")
    require_names(builder, [name], replicated_jobs)
    for replicated in replicated_jobs:
        if replicated.name == name.value:
            for field, unit, count in (
                ("jobIndex", "Jobs", replicated.job_count),
                ("podIndex", "pods", replicated.pod_count),
            ):
                index = coordinator.get(field)
                number = index.value or 0
                if number >= count:
                    message = f"expected an index below {count}, got {number}"
                    hint = f"the {unit} of {replicated.name} are counted from 0"
                    builder.refuse(index, message, hint)
