"""The objects that a pod names, and without which it does not start.

The fields are those of pkg/api/v1/pod/util.go in Kubernetes v1.34.0 (VisitPodSecretNames and
VisitPodConfigmapNames), and those of the pod's own spec:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Use = Literal["", "image pull", "variables", "files"]
"""How a pod uses a Secret or ConfigMap as a whole: "" if only single keys of it."""

GROUPS = {
    "Secret": "",
    "ConfigMap": "",
    "PersistentVolumeClaim": "",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
    "ServiceAccount": "",
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
    "StorageClass": "storage.k8s.io",
    "NetworkAttachmentDefinition": "k8s.cni.cncf.io",
}
"""The kinds of the objects that a pod names, and their API groups."""

CLUSTER_SCOPED = frozenset(["PriorityClass", "RuntimeClass", "StorageClass"])

BUILT_IN = {
    ("ConfigMap", "kube-root-ca.crt"),
    ("PriorityClass", "system-cluster-critical"),
    ("PriorityClass", "system-node-critical"),
    ("ServiceAccount", "default"),
}
"""Objects that every cluster, or every namespace, has."""

DEFAULT_SCHEDULER = "default-scheduler"

NETWORKS = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")
"""Annotations in which Multus reads the names of networks:
https://github.com/k8snetworkplumbingwg/multus-cni/blob/master/docs/how-to-use.md."""

POD_FIELDS = {
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
}

VOLUME_FIELDS = (
    ("PersistentVolumeClaim", ("persistentVolumeClaim", "claimName")),
    ("Secret", ("secret", "secretName")),
    ("ConfigMap", ("configMap", "name")),
    ("StorageClass", ("ephemeral", "volumeClaimTemplate", "spec", "storageClassName")),
    ("Secret", ("csi", "nodePublishSecretRef", "name")),
    ("Secret", ("azureFile", "secretName")),
    ("Secret", ("cephfs", "secretRef", "name")),
    ("Secret", ("cinder", "secretRef", "name")),
    ("Secret", ("flexVolume", "secretRef", "name")),
    ("Secret", ("iscsi", "secretRef", "name")),
    ("Secret", ("rbd", "secretRef", "name")),
    ("Secret", ("scaleIO", "secretRef", "name")),
    ("Secret", ("storageos", "secretRef", "name")),
)
"""The paths in a volume of the names of other objects."""


@dataclass(frozen=True)
class Reference:
    """An object that a pod names.

    Attributes:
        kind: one of `GROUPS`.
        name: of the object.
        namespace: of the object, if it is not that of the pod.
        keys: the keys of a Secret or ConfigMap that the pod uses.
        use: how the pod uses a Secret or ConfigMap as a whole.
        volume: the name of the volume that refers to it, if one does.
    """

    kind: str
    name: str
    namespace: str | None = None
    keys: tuple[str, ...] = ()
    use: Use = ""
    volume: str = ""


def of_pod(template: Mapping[str, Any]) -> Iterator[Reference]:
    """Return the objects that a pod template names, except for optional and built-in ones.

    An object that is named several times is returned as often.
    """
    spec = template["spec"]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    for reference in _all(spec, annotations):
        if reference.name and (reference.kind, reference.name) not in BUILT_IN:
            yield reference


def scheduler(template: Mapping[str, Any]) -> str | None:
    """Return the name of the scheduler of a pod template, unless it is that of Kubernetes."""
    name = template["spec"].get("schedulerName")
    return None if name == DEFAULT_SCHEDULER else name


def _all(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[Reference]:
    for entry in spec.get("imagePullSecrets") or []:
        yield Reference("Secret", entry.get("name"), use="image pull")
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        yield from _of_env(container)
    for volume in spec.get("volumes") or []:
        yield from _of_volume(volume)
    for field, kind in POD_FIELDS.items():
        if spec.get(field):
            yield Reference(kind, spec[field])
    for claim in spec.get("resourceClaims") or []:
        yield Reference("ResourceClaim", claim.get("resourceClaimName", ""))
        yield Reference("ResourceClaimTemplate", claim.get("resourceClaimTemplateName", ""))
    for annotation in NETWORKS:
        yield from _networks(annotations.get(annotation, ""))


def _of_env(container: Mapping[str, Any]) -> Iterator[Reference]:
    """Return the Secrets and ConfigMaps of a container's variables."""
    for variable in container.get("env") or []:
        source = variable.get("valueFrom") or {}
        for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
            ref = source.get(field) or {}
            if ref and not ref.get("optional"):
                yield Reference(kind, ref.get("name", ""), keys=(ref.get("key", ""),))
    for source in container.get("envFrom") or []:
        for kind, field in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            ref = source.get(field) or {}
            if ref and not ref.get("optional"):
                yield Reference(kind, ref.get("name", ""), use="variables")


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    name = volume.get("name", "")
    for kind, path in VOLUME_FIELDS:
        if path[0] not in volume:
            continue
        holder: Any = volume
        for step in path[:-1]:
            holder = holder.get(step) or {}
        if not holder.get("optional"):
            yield _files(kind, holder.get(path[-1], ""), holder, name)
    for source in (volume.get("projected") or {}).get("sources") or []:
        for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap")):
            holder = source.get(field) or {}
            if holder and not holder.get("optional"):
                yield _files(kind, holder.get("name", ""), holder, name)


def _files(kind: str, name: str, source: Mapping[str, Any], volume: str) -> Reference:
    """Return the object of a volume; without items, all of its keys are files."""
    keys = tuple(item["key"] for item in source.get("items") or [] if item.get("key"))
    return Reference(kind, name, keys=keys, use="" if keys else "files", volume=volume)


def _networks(annotation: str) -> Iterator[Reference]:
    """Return the networks of Multus: `ib, team/data@eth1`, or a JSON list."""
    kind = "NetworkAttachmentDefinition"
    if annotation.lstrip().startswith("["):
        try:
            entries = json.loads(annotation)
        except (RecursionError, ValueError):
            return
        for entry in entries:
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                yield Reference(kind, entry["name"], entry.get("namespace"))
        return
    for word in annotation.split(","):
        namespace, _, name = word.strip().partition("@")[0].rpartition("/")
        yield Reference(kind, name, namespace or None)
