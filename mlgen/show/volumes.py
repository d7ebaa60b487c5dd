"""The mounts of a container, in words."""

from collections.abc import Mapping
from typing import Any

from mlgen.kubernetes.objects import Object

NAMES = {
    "persistentVolumeClaim": ("claim", "claimName"),
    "secret": ("Secret", "secretName"),
    "configMap": ("ConfigMap", "name"),
    "hostPath": ("folder of the node", "path"),
    "csi": ("CSI driver", "driver"),
}
"""Sources of volumes: in words, and the field with their name."""


def mounts(pod: Object, container: Object) -> list[tuple[str, str]]:
    """Return the path and the source of each mount of a container.

    Args:
        pod: the spec of the pod.
        container: one of its containers.
    """
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or ()}
    rows = []
    for mount in container.get("volumeMounts") or ():
        words = source(volumes.get(mount["name"], {}))
        if mount.get("subPath"):
            words += f", {mount['subPath']} in it"
        if mount.get("readOnly"):
            words += ", read-only"
        rows.append((str(mount["mountPath"]), words))
    return rows


def source(volume: Mapping[str, Any]) -> str:
    """Return what a volume of a pod is, in words."""
    for field, (words, key) in NAMES.items():
        if field in volume:
            return f"{words} {volume[field].get(key, '')}".rstrip() + _files(volume[field])
    if "emptyDir" in volume:
        settings = volume["emptyDir"] or {}
        memory = "memory" if settings.get("medium") == "Memory" else "empty folder"
        limit = f" of up to {settings['sizeLimit']}" if settings.get("sizeLimit") else ""
        return f"{memory}{limit}"
    if "nfs" in volume:
        return f"NFS {volume['nfs'].get('server')}:{volume['nfs'].get('path')}"
    kinds = [name for name in volume if name != "name"]
    return kinds[0] if kinds else "not among the volumes"


def _files(settings: Mapping[str, Any]) -> str:
    """Return the files that a volume of a ConfigMap or Secret has, if they are chosen."""
    files = [str(item.get("path")) for item in settings.get("items") or ()]
    return f": {', '.join(files)}" if files else ""
