"""The volumes of a topology → volumes and mounts of a pod."""

from collections.abc import Iterable
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects.labels import config_name
from mlgen.topology import ConfigFiles, Mount, Scratch, SecretFiles

READ, RUN = 0o444, 0o555
"""File modes: of keys in a Secret, and of scripts in a ConfigMap."""


def volume_mount(mount: Mount) -> dict[str, Any]:
    """Return a mount as an item of a container's volumeMounts."""
    read_only = {"readOnly": True} if mount.read_only else {}
    return {"name": mount.volume.name, "mountPath": mount.path, **read_only}


def pod_volumes(job: TrainingJob, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return the volumes of mounts as items of a pod's volumes.

    Of mounts with the same volume name, the last one defines the volume.
    """
    volumes = {mount.volume.name: mount.volume for mount in mounts}
    return [_pod_volume(job, volume) for volume in volumes.values()]


def _pod_volume(job: TrainingJob, volume: Scratch | ConfigFiles | SecretFiles) -> dict[str, Any]:
    if isinstance(volume, Scratch):
        medium: dict[str, Any] = {"medium": "Memory"} if volume.memory else {}
        limit = {"sizeLimit": volume.size} if volume.size else {}
        return {"name": volume.name, "emptyDir": medium | limit}
    if isinstance(volume, ConfigFiles):
        items = [{"key": name, "path": name} for name in volume.files]
        config_map = {"name": config_name(job), "items": items, "defaultMode": RUN}
        return {"name": volume.name, "configMap": config_map}
    secret: dict[str, Any] = {"secretName": volume.secret}
    if volume.keys:
        secret["items"] = [{"key": key, "path": path} for key, path in volume.keys.items()]
    return {"name": volume.name, "secret": secret | {"defaultMode": READ}}
