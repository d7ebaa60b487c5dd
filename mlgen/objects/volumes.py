"""The volumes of a topology → volumes and mounts of a pod."""

from collections.abc import Iterable
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects.labels import config_name
from mlgen.topology import ConfigFiles, Mount, Scratch, SecretFiles

RUN = 0o555
"""The file mode of scripts that other programs run."""


def volume_mount(mount: Mount) -> dict[str, Any]:
    """Return a mount as an item of a container's volumeMounts."""
    # Kubernetes mounts ConfigMaps and Secrets read-only anyway.
    read_only = {"readOnly": True} if mount.read_only and isinstance(mount.volume, Scratch) else {}
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
        config_map: dict[str, Any] = {"name": config_name(job)}
        if volume.files:
            config_map["items"] = [{"key": name, "path": name} for name in volume.files]
        if any(name.endswith(".sh") for name in volume.files):
            config_map["defaultMode"] = RUN
        return {"name": volume.name, "configMap": config_map}
    secret: dict[str, Any] = {"secretName": volume.secret}
    if volume.keys:
        secret["items"] = [{"key": key, "path": path} for key, path in volume.keys.items()]
    return {"name": volume.name, "secret": secret}
