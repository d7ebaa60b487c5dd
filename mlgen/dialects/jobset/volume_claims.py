"""`volumeClaimPolicies` of a JobSet: PersistentVolumeClaims that are created with the job.

A claim has the name `<claim template>-<JobSet>`; in pods, its volume has the template's name.
Source: kubernetes-sigs/jobset, pkg/controllers/volume_claim_policy.go.
"""

from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob


def claim_volumes(builder: Builder) -> list[dict[str, Any]]:
    """Return a volume of a pod for each claim template that has a name."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{builder.name}"}}
        for policy in builder.spec.get("volumeClaimPolicies").items()
        for claim in policy.get("templates").items()
        if (name := claim.value["metadata"].get("name"))
    ]


def mounted_volumes(replicated: ReplicatedJob) -> set[str]:
    """Return the names of the volumes that containers of a replicated Job mount."""
    pod = replicated.pod_template.value["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    return {mount["name"] for item in containers for mount in item.get("volumeMounts", [])}


def write_claims(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write each claim, which a container must mount; report what differs when it is deleted."""
    mounted = {name for replicated in replicated_jobs for name in mounted_volumes(replicated)}
    for policy in builder.spec.get("volumeClaimPolicies").items():
        is_kept = policy.get("retentionPolicy", "whenDeleted").value != "Delete"
        for claim in policy.get("templates").items():
            name = claim.value["metadata"].get("name")
            if not name:
                builder.refuse(claim, "the claim has no name", "write metadata.name")
            elif name not in mounted:
                message = f'no container mounts the claim "{name}"'
                builder.refuse(claim, message, "mount it, or remove it")
            else:
                claim_name = f"{name}-{builder.name}"
                builder.put(("spec", "claims", claim_name), claim.get("spec"))
                _report_differences(builder, claim, claim_name, is_kept=is_kept)


def _report_differences(builder: Builder, claim: SourceValue, name: str, *, is_kept: bool) -> None:
    """Report when the claim is deleted, and metadata that it does not get."""
    ttl = builder.spec.get("ttlSecondsAfterFinished")
    if is_kept:
        message = f"JobSet keeps {name} when it is deleted; here kubectl delete -f deletes it"
        hint = f"delete the job by its label: mlgen.dev/job={builder.name}"
        builder.differs(claim, message, hint)
    elif ttl:
        message = f"JobSet deletes {name} {ttl.value} s after the end; here it is kept"
        builder.differs(claim, message, f"run kubectl delete pvc {quote(name)}")
    for field in ("labels", "annotations"):
        value = claim.get("metadata", field)
        if value.value:
            message = f"here the claim does not get these {field}"
            builder.differs(value, message, "remove them, or apply the claim yourself")
