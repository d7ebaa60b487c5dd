"""Rules for the mounts and devices of a container.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidateVolumeMounts,
ValidateVolumeDevices, validateMountPropagation, validateMountRecursiveReadOnly).
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, text
from mlgen.kubernetes.validation.syntax import (
    conflict,
    missing,
    one_of,
    relative,
    without_steps_up,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "IfPossible", "Enabled")


def mounts(at: ValuePath, container: Object, known: dict[str, Object]) -> Iterator[Violation]:
    """The rules of ValidateVolumeMounts.

    Args:
        at: the path of the container.
        container: the container.
        known: the volumes of the pod, by name.
    """
    used: dict[str, str] = {}
    devices = {text(device, "name"): device for _, device in items(container, "volumeDevices")}
    device_paths = {text(device, "devicePath") for device in devices.values()}
    for index, mount in items(container, "volumeMounts"):
        path = (*at, "volumeMounts", index)
        name, folder = text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield missing(path, "name")
        elif name not in known:
            message = (
                f"container {text(container, 'name')} mounts the volume {name}, "
                "which does not exist"
            )
            yield Violation(path, message, "add it to the volumes of the template", "volume")
        if not folder:
            yield missing(path, "mountPath")
        elif folder in used:
            message = f"{used[folder]} and {name} are both mounted at {folder}"
            yield conflict((*path, "mountPath"), message, "change the mountPath of one of them")
        if name in devices or folder in device_paths:
            message = f"{name} is a device and a mount"
            yield conflict(path, message, "remove it from volumeDevices or volumeMounts")
        used.setdefault(folder, name)
        yield from _sub_paths(path, mount)
        yield from _propagation(path, mount, container)
    yield from _devices(at, container, known)


def _sub_paths(path: ValuePath, mount: Object) -> Iterator[Violation]:
    """Check the folder of the volume that is mounted."""
    for field in ("subPath", "subPathExpr"):
        yield from relative((*path, field), text(mount, field))
    if text(mount, "subPath") and text(mount, "subPathExpr"):
        message = "subPath and subPathExpr are mutually exclusive"
        yield conflict((*path, "subPathExpr"), message, "keep one of the two")


def _propagation(path: ValuePath, mount: Object, container: Object) -> Iterator[Violation]:
    """The rules of validateMountPropagation, validateMountRecursiveReadOnly."""
    propagation, recursive = text(mount, "mountPropagation"), text(mount, "recursiveReadOnly")
    yield from one_of(
        (*path, "mountPropagation"), mount.get("mountPropagation"), PROPAGATIONS, empty=False
    )
    privileged = mapping(container, "securityContext").get("privileged") is True
    if propagation == "Bidirectional" and not privileged:
        message = "only privileged containers can have mountPropagation: Bidirectional"
        yield conflict((*path, "mountPropagation"), message, "write HostToContainer or None")
    yield from one_of(
        (*path, "recursiveReadOnly"), mount.get("recursiveReadOnly"), RECURSIVE, empty=False
    )
    if recursive in RECURSIVE[1:]:
        if mount.get("readOnly") is not True:
            message = "recursiveReadOnly requires readOnly: true"
            yield conflict((*path, "recursiveReadOnly"), message, "add readOnly: true")
        if propagation not in ("", "None"):
            message = "recursiveReadOnly and mountPropagation are mutually exclusive"
            yield conflict((*path, "recursiveReadOnly"), message, "keep one of the two")


def _devices(at: ValuePath, container: Object, known: dict[str, Object]) -> Iterator[Violation]:
    """The rules of ValidateVolumeDevices."""
    seen: set[str] = set()
    for index, device in items(container, "volumeDevices"):
        path = (*at, "volumeDevices", index)
        for field in ("name", "devicePath"):
            value = text(device, field)
            if not value:
                yield missing(path, field)
            elif value in seen:
                yield conflict((*path, field), f"duplicate device {value}", "remove one of the two")
            seen.add(value)
        yield from without_steps_up((*path, "devicePath"), text(device, "devicePath"))
        volume = known.get(text(device, "name"))
        if volume is None:
            message = f'the pod has no volume "{text(device, "name")}"'
            yield Violation((*path, "name"), message, "add it to volumes", "volume")
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volume):
            message = "only a persistentVolumeClaim or an ephemeral volume can be a device"
            yield conflict((*path, "name"), message, "mount it in volumeMounts")
