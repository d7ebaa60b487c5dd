"""Security contexts: those of a job's security profile, as a pod template patch, and of helpers.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from typing import Any

from mlgen.jobfile.model import TrainingJob

CONFINED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
SECCOMP: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
"""What the `restricted` standard requires of every container, whichever user it runs as."""

RESTRICTED: dict[str, Any] = {
    **CONFINED,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65534,
    **SECCOMP,
}
"""The security context of helper containers. User 65534 is nobody in every image."""


def patch(job: TrainingJob, container: str) -> dict[str, Any]:
    """Return the pod template patch for the job's security profile, user and groups.

    The profile `restricted` sets what the PodSecurity standard of that name requires. The other
    profiles set nothing.

    Args:
        job: the job.
        container: the name of the training container.
    """
    security = job.security
    pod_context: dict[str, Any] = {
        name: value
        for name, value in (
            ("runAsUser", security.run_as_user),
            ("runAsGroup", security.run_as_group),
            ("fsGroup", security.fs_group),
        )
        if value is not None
    }
    restricted = security.profile == "restricted"
    if restricted:
        pod_context |= {"runAsNonRoot": True, **SECCOMP}
    spec: dict[str, Any] = {"securityContext": pod_context} if pod_context else {}
    if restricted:
        spec["containers"] = [{"name": container, "securityContext": CONFINED}]
    return {"spec": spec}
