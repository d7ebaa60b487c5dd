"""Pod permissions, and settings of the pods and containers that mlgen adds.

Permissions are security contexts, and access to the Kubernetes API:
https://kubernetes.io/docs/concepts/security/pod-security-standards/

The settings of added pods are those in `helpers`, else the job's own. A cluster may require labels,
pull secrets, tolerations or a priority of every pod. Their images do not need the nodes on which
the job trains.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from mlgen.jobfile.hints import TOKEN
from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse
from mlgen.objects.labels import JOB, users_labels, workload_name
from mlgen.objects.skeleton import filled
from mlgen.topology import Topology

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


OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
"""The labels of nodes with the platform of an image. All helper images are for Linux, and the
default ones for every architecture."""

KEEP: dict[bool | None, dict[str, str]] = {
    None: {},
    True: {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
    False: {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    },
}
"""The pod annotations for each value of `scheduling.safeToEvict`.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md and
https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
"""


def helper_context(job: TrainingJob) -> dict[str, Any]:
    """Return the security context of a helper container."""
    user, group = job.helpers.run_as_user, job.helpers.run_as_group
    own = {"runAsUser": None if user == "Cluster" else user, "runAsGroup": group}
    if group is None and user != "Cluster":
        own["runAsGroup"] = NOBODY
    merged = RESTRICTED | own
    return {name: value for name, value in merged.items() if value is not None}


def helper_resources(job: TrainingJob, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of a helper container.

    A resource in the job file replaces both its request and its limit, because a limit below
    mlgen's request would be rejected. The memory is at least mlgen's request, which one value for
    all containers could not know.

    Args:
        job: the job.
        own: mlgen's requests and limits.
    """
    users = job.helpers.resources
    if not users:
        return dict(own)
    replaced = helper_resource_names(job)
    merged = {
        kind: {name: amount for name, amount in own.get(kind, {}).items() if name not in replaced}
        | dict(users.get(kind, {}))
        for kind in ("requests", "limits")
    }
    least = own.get("requests", {}).get("memory")
    for amounts in merged.values() if least else ():
        if parse(amounts.get("memory", least)) < parse(least):
            amounts["memory"] = least
    return {kind: amounts for kind, amounts in merged.items() if amounts}


def helper_resource_names(job: TrainingJob) -> set[str]:
    """Return the names of the resources that the job file sets for helpers."""
    return {name for amounts in job.helpers.resources.values() for name in amounts}


def helper_fields(
    topology: Topology, objects: Sequence[Object], image: str | None = None
) -> dict[str, Any]:
    """Return metadata and placement of a pod that mlgen adds. A field is None if it is not set.

    Args:
        topology: the job's topology.
        objects: the job's objects, with its workloads.
        image: the training image that the pod runs; None for an image of its own.
    """
    job, settings = topology.job, topology.job.helpers
    workloads = {item["metadata"]["name"]: item for item in objects if _pod_of(item)}
    roles = [role for role in topology.roles if workload_name(job, role) in workloads]
    alike = [role for role in roles if role.spec.image == image] if image else []
    chosen = next(iter(alike or [role for role in roles if role.decides]), None)
    like = _pod_of(workloads[workload_name(job, chosen)]) if chosen else {}
    pods = [_pod_of(workloads[workload_name(job, role)]) for role in roles]
    platform = {OS, ARCH} if image else {OS}
    nodes = {k: v for k, v in (like.get("nodeSelector") or {}).items() if k in platform}
    secrets = {each["name"]: each for pod in pods for each in pod.get("imagePullSecrets") or ()}
    tolerations = settings.tolerations
    if tolerations is None:
        tolerations = like.get("tolerations") or ()
    return {
        "labels": _labels(job, pods) | dict(settings.labels),
        "annotations": dict(settings.annotations),
        "node_selector": nodes | dict(settings.node_selector) or None,
        "tolerations": list(tolerations) or None,
        "priority": settings.priority_class_name or like.get("priorityClassName"),
        "pull_secrets": list(secrets.values()) or None,
    }


def _pod_of(workload: Object) -> Object:
    """Return the pod spec of a workload; {} for other objects."""
    template = (workload.get("spec") or {}).get("template") or {}
    spec: Object = template.get("spec") or {}
    return spec


def _labels(job: TrainingJob, pods: Sequence[Object]) -> dict[str, str]:
    """Return the user's labels, without those by which the job's pods select each other.

    A training pod that must be near or far from pods with a label would otherwise depend on the
    node of a helper.
    """
    parts = {id(part): part for pod in pods for part in _placements(pod)}
    keys = {key for part in parts.values() for key in _selecting(part)}
    return {name: value for name, value in users_labels(job).items() if name not in keys}


def _placements(pod: Object) -> Iterator[Any]:
    for name in ("affinity", "topologySpreadConstraints"):
        if pod.get(name):
            yield pod[name]


def _selecting(node: Any) -> Iterator[str]:
    """Yield the label keys in the selectors of a placement, unless they select only replicas."""
    if isinstance(node, list):
        for item in node:
            yield from _selecting(item)
    elif isinstance(node, dict):
        selector = node.get("labelSelector") or {}
        keys = [*(selector.get("matchLabels") or ())]
        keys += [each.get("key") for each in selector.get("matchExpressions") or ()]
        keys += [*(node.get("matchLabelKeys") or ())]
        if JOB not in keys:
            yield from keys
        for name, value in node.items():
            if name != "labelSelector":
                yield from _selecting(value)
