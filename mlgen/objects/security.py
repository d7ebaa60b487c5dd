"""Pod permissions: security contexts, and access to the Kubernetes API.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.operators import TOKEN
from mlgen.objects.skeleton import filled

CONFINED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
SECCOMP: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
"""With CONFINED, the `restricted` standard's requirements for a container, except for its user."""

NOBODY = 65534
"""The user and group `nobody` in every image."""

RESTRICTED: dict[str, Any] = {
    **CONFINED,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": NOBODY,
    "runAsGroup": NOBODY,
    **SECCOMP,
}
"""The security context of helper containers, unless `helpers` sets another user.

Without runAsGroup, the group would come from the user's entry in the image's /etc/passwd, and be
root if there is no entry.
"""


AUTOMOUNT = "automountServiceAccountToken"


def without_token(spec: dict[str, Any], files: Iterable[str] = ()) -> dict[str, Any]:
    """Return a pod spec without a token for the Kubernetes API, unless the user needs one.

    A spec that names a service account, sets whether its token is mounted, or reads it in a
    command, a variable, a probe or a file, is not changed:
    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/

    Args:
        spec: the spec.
        files: the contents of the user's files in the pod.
    """
    configured = any(name in spec for name in ("serviceAccountName", "serviceAccount", AUTOMOUNT))
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    texts = chain(map(repr, containers), files)
    needed = configured or any(re.search(TOKEN, text) for text in texts)
    return spec if needed else spec | {AUTOMOUNT: False}


def patch(job: TrainingJob, container: str) -> dict[str, Any]:
    """Return the pod template patch for the job's security profile, user and groups.

    The profile `restricted` sets the fields that the PodSecurity standard of that name requires.
    The other profiles set no fields.

    Args:
        job: the job.
        container: the name of the training container.
    """
    security, is_restricted = job.security, job.security.profile == "restricted"
    # If no value is set, the whole patch is omitted.
    return (
        filled(
            "security",
            user=security.run_as_user,
            group=security.run_as_group,
            files=security.fs_group,
            restricted=is_restricted or None,
            seccomp=SECCOMP["seccompProfile"] if is_restricted else None,
            container={"name": container, "securityContext": CONFINED} if is_restricted else None,
        )
        or {}
    )


def policy_rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one rule of a Role; without names, it applies to all objects of the resources."""
    rule = {"apiGroups": [group], "resources": list(resources)}
    return rule | ({"resourceNames": list(names)} if names else {}) | {"verbs": list(verbs)}


def access(
    job: TrainingJob, metadata: dict[str, Any], account: str, rules: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return a Role and the RoleBinding that grants it to a service account.

    Args:
        job: the job.
        metadata: the metadata of each object.
        account: the name of the service account. If it equals the name in `metadata`, the
            ServiceAccount is also returned. Otherwise the user has already created it.
        rules: the rules of the Role.
    """
    if account == metadata["name"]:
        yield filled("serviceaccount", metadata=metadata)
    yield filled("role", metadata=metadata, rules=list(rules))
    yield filled(
        "rolebinding",
        metadata=metadata,
        role=metadata["name"],
        service_account=account,
        namespace=job.namespace,
    )
