"""What training containers may do, and as whom they run; as a patch of the pod template."""

from typing import Any

from mlgen.jobfile.model import TrainingJob

CONFINED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
SECCOMP: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
"""What `restricted` wants of any container, whoever it runs as."""


def patch(job: TrainingJob, container: str) -> dict[str, Any]:
    """Return the part of a pod template that a security profile asks for.

    `restricted` is what PodSecurity demands under that name; the other two demand nothing:
    https://kubernetes.io/docs/concepts/security/pod-security-standards/

    Args:
        job: says the profile, and the user and groups.
        container: the name of the one that trains.
    """
    asked = job.security
    pod: dict[str, Any] = {
        name: value
        for name, value in (
            ("runAsUser", asked.run_as_user),
            ("runAsGroup", asked.run_as_group),
            ("fsGroup", asked.fs_group),
        )
        if value is not None
    }
    main: dict[str, Any] = {}
    if asked.profile == "restricted":
        pod |= {"runAsNonRoot": True, **SECCOMP}
        main = CONFINED
    spec: dict[str, Any] = {"securityContext": pod} if pod else {}
    if main:
        spec["containers"] = [{"name": container, "securityContext": main}]
    return {"spec": spec}
