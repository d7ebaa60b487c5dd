"""`volumeClaimPolicies` of a JobSet: PersistentVolumeClaims that JobSet creates, unlike mlgen.

A claim has the name `<claim template>-<JobSet>`; in pods, its volume has the template's name.
Source: kubernetes-sigs/jobset, pkg/controllers/volume_claim_policy.go.
"""

from typing import Any

from mlgen.dialects._builder import Builder
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


def check_claims(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Report each claim: the user must create it, and a container must mount it."""
    mounted = {name for replicated in replicated_jobs for name in mounted_volumes(replicated)}
    for policy in builder.spec.get("volumeClaimPolicies").items():
        for claim in policy.get("templates").items():
            name = claim.value["metadata"].get("name", "")
            if name not in mounted:
                message = f'no container mounts the claim "{name}"'
                builder.refuse(claim, message, "mount it, or remove it")
            else:
                message = f"JobSet creates the PersistentVolumeClaim {name}-{builder.name}"
                hint = "add a PersistentVolumeClaim with that name and this spec to your manifests"
                builder.differs(claim, f"{message}; mlgen does not", hint)
