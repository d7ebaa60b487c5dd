"""What pods may do: their security contexts, and their token for the Kubernetes API.

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
    "runAsGroup": 65534,
    **SECCOMP,
}
"""The security context of helper containers. User 65534 is nobody in every image.

Without a group, it is that of the user in the image's /etc/passwd, and root's if there is none.
"""


AUTOMOUNT = "automountServiceAccountToken"


def without_token(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec without a token for the Kubernetes API, unless somebody asked for one.

    Whoever names a service account, or says whether its token is mounted, is taken at their word:
    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
    """
    asked = any(name in spec for name in ("serviceAccountName", "serviceAccount", AUTOMOUNT))
    return spec if asked else spec | {AUTOMOUNT: False}


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
