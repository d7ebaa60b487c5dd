"""Rules for the volumes of a pod.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidateVolumes,
validateVolumeSource and a function for each kind of volume). Volumes of a kind that hardly anybody
uses are checked for their required fields only.
"""

from collections.abc import Callable, Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation import claims, volumes_of_vendors
from mlgen.kubernetes.validation._read import items, mapping, number, text
from mlgen.kubernetes.validation.env import resource_field
from mlgen.kubernetes.validation.fields import field_reference
from mlgen.kubernetes.validation.metadata import selector
from mlgen.kubernetes.validation.resources import quantity
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    file_path,
    is_subdomain,
    label,
    missing,
    one_of,
    subdomain,
    without_steps_up,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

MODE_MAX = 0o777
HOST_PATH_TYPES = (
    *("DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
    *("Socket", "CharDevice", "BlockDevice"),
)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
TOKEN_SECONDS = (600, 1 << 32)
"""The range of the lifetime of a projected service account token."""

DOWNWARD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.labels"),
    *("metadata.annotations", "metadata.uid"),
)

REQUIRED: dict[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "configMap": ("name",),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "hostPath": ("path",),
    "image": ("reference",),
    "iscsi": ("targetPortal", "iqn"),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "quobyte": ("registry", "volume"),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "secret": ("secretName",),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
"""The required fields of each kind of volume.

The reference of an image is required of a pod, and since Kubernetes 1.37 of a template.
"""


def volumes(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """The rules of ValidateVolumes.

    Args:
        at: the path of the pod's spec.
        spec: the pod's spec.
    """
    names: set[str] = set()
    for index, volume in items(spec, "volumes"):
        path = (*at, "volumes", index)
        name = text(volume, "name")
        yield from _source(path, volume)
        if not name:
            yield missing(path, "name")
            continue
        yield from label((*path, "name"), name, "volume name")
        if name in names:
            yield conflict((*path, "name"), f"duplicate volume {name}", "rename one of the two")
        names.add(name)


def _source(path: ValuePath, volume: Object) -> Iterator[Violation]:
    """Check the source of a volume; without one, it is an emptyDir (SetDefaults_Volume)."""
    kinds = [name for name, value in volume.items() if name != "name" and value is not None]
    if len(kinds) > 1:
        message = f"the volume {text(volume, 'name')} has several sources: {', '.join(kinds)}"
        hint = "keep one of them, or rename your volume"
        yield Violation(path, message, hint, "volume")
    for kind in kinds[:1]:
        source = mapping(volume, kind)
        for field in REQUIRED.get(kind, ()):
            if not source.get(field):
                yield missing((*path, kind), field)
        yield from _object_name((*path, kind), kind, source)
        rule = SOURCES.get(kind)
        if rule:
            yield from rule((*path, kind), source)


OBJECTS = {
    "configMap": ("name", "ConfigMap"),
    "persistentVolumeClaim": ("claimName", "PersistentVolumeClaim"),
    "secret": ("secretName", "Secret"),
}
"""The field with the name of an object, and its kind, by the kind of volume."""


def _object_name(path: ValuePath, kind: str, source: Object) -> Iterator[Violation]:
    """Check that an object can have the name that a volume refers to.

    The API server does not; the pod would wait for the object for ever.
    """
    field, what = OBJECTS.get(kind, ("", ""))
    if text(source, field):
        yield from subdomain((*path, field), text(source, field), f"name of a {what}")


def _mode(path: ValuePath, source: Object, field: str = "defaultMode") -> Iterator[Violation]:
    """Check a file mode; YAML and JSON have decimal numbers, so 0644 must be an octal literal."""
    value = number(source, field)
    if value is not None and not 0 <= value <= MODE_MAX:
        message = f"expected a file mode from 0 to {MODE_MAX} (0777), got {value}"
        yield Violation((*path, field), message, "write it with a leading 0: 0644", "bad-value")


def _file(path: ValuePath, source: Object) -> Iterator[Violation]:
    """Check the required path of a file in a volume."""
    if not text(source, "path"):
        yield missing(path, "path")
    yield from file_path((*path, "path"), text(source, "path"))


def _keys(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateKeyToPath, for each item."""
    for index, item in items(source, "items"):
        place = (*path, "items", index)
        if not text(item, "key"):
            yield missing(place, "key")
        yield from _file(place, item)
        yield from _mode(place, item, "mode")


def _files(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateSecretVolumeSource, validateConfigMapVolumeSource."""
    yield from _mode(path, source)
    yield from _keys(path, source)


def _empty_dir(path: ValuePath, source: Object) -> Iterator[Violation]:
    if "sizeLimit" in source:
        yield from quantity((*path, "sizeLimit"), source["sizeLimit"])


def _host_path(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateHostPathVolumeSource."""
    yield from without_steps_up((*path, "path"), text(source, "path"))
    yield from one_of((*path, "type"), source.get("type"), HOST_PATH_TYPES)


def _nfs(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateNFSVolumeSource."""
    folder = text(source, "path")
    if folder and not folder.startswith("/"):
        message = f'expected an absolute path, got "{folder}"'
        yield Violation((*path, "path"), message, 'start it with "/"', "bad-value")


def _csi(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateCSIVolumeSource."""
    driver = text(source, "driver")
    if driver and (not is_subdomain(driver.lower()) or len(driver) > 63):  # noqa: PLR2004
        yield from label((*path, "driver"), driver, "name of a CSI driver")
    if "nodePublishSecretRef" in source:
        name = text(mapping(source, "nodePublishSecretRef"), "name")
        yield from subdomain((*path, "nodePublishSecretRef", "name"), name, "name of a Secret")


def _ephemeral(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateEphemeralVolumeSource."""
    template = mapping(source, "volumeClaimTemplate")
    if "volumeClaimTemplate" in source:
        yield from claims.template((*path, "volumeClaimTemplate"), template)


def _image(path: ValuePath, source: Object) -> Iterator[Violation]:
    yield from one_of((*path, "pullPolicy"), source.get("pullPolicy"), PULL_POLICIES)


def _downward(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateDownwardAPIVolumeSource."""
    yield from _mode(path, source)
    yield from _downward_files(path, source)


def _downward_files(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateDownwardAPIVolumeFile, for each item."""
    for index, item in items(source, "items"):
        place = (*path, "items", index)
        yield from _file(place, item)
        yield from _mode(place, item, "mode")
        if "fieldRef" in item:
            reference = mapping(item, "fieldRef")
            yield from field_reference((*place, "fieldRef"), reference, DOWNWARD_FIELDS)
            if "resourceFieldRef" in item:
                message = "fieldRef and resourceFieldRef are mutually exclusive"
                yield conflict(place, message, "keep one of the two")
        elif "resourceFieldRef" in item:
            reference = mapping(item, "resourceFieldRef")
            if not text(reference, "containerName"):
                yield missing((*place, "resourceFieldRef"), "containerName")
            yield from resource_field((*place, "resourceFieldRef"), reference)
        else:
            yield missing(place, "fieldRef", "add fieldRef or resourceFieldRef")


def _projected(path: ValuePath, source: Object) -> Iterator[Violation]:
    """The rules of validateProjectedVolumeSource."""
    yield from _mode(path, source)
    used: set[str] = set()
    for index, part in items(source, "sources"):
        place = (*path, "sources", index)
        kinds = [kind for kind in part if part[kind] is not None]
        if len(kinds) > 1:
            message = f"several sources in one item: {', '.join(kinds)}"
            yield conflict(place, message, "make an item of each")
        for kind in kinds:
            inner = mapping(part, kind)
            yield from _projection((*place, kind), kind, inner)
            for file in _paths(kind, inner):
                if file in used:
                    message = f"two sources have a file of the path {file}"
                    yield conflict(place, message, "change one of the two paths")
                used.add(file)


def _paths(kind: str, source: Object) -> Iterator[str]:
    """Return the paths of the files in a projection that must differ from those of others."""
    if kind in ("secret", "configMap", "downwardAPI"):
        yield from filter(None, (text(item, "path") for _, item in items(source, "items")))
    elif kind == "clusterTrustBundle":
        yield text(source, "path")


def _projection(path: ValuePath, kind: str, source: Object) -> Iterator[Violation]:
    """The rules of validateProjectionSources."""
    if kind in ("secret", "configMap"):
        if not text(source, "name"):
            yield missing(path, "name")
        elif not is_subdomain(text(source, "name")):
            yield from subdomain((*path, "name"), text(source, "name"), f"name of a {kind}")
        yield from _keys(path, source)
    elif kind == "downwardAPI":
        yield from _downward_files(path, source)
    elif kind == "serviceAccountToken":
        seconds = number(source, "expirationSeconds")
        yield from between((*path, "expirationSeconds"), seconds, *TOKEN_SECONDS)
        yield from _file(path, source)
    elif kind == "clusterTrustBundle":
        yield from _file(path, source)
        if ("name" in source) == ("signerName" in source):
            yield conflict(path, "expected either name or signerName", "keep or add one of them")
        yield from selector((*path, "labelSelector"), mapping(source, "labelSelector"))


Rule = Callable[[ValuePath, Object], Iterator[Violation]]

SOURCES: dict[str, Rule] = {
    **volumes_of_vendors.RULES,
    "configMap": _files,
    "csi": _csi,
    "downwardAPI": _downward,
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "image": _image,
    "nfs": _nfs,
    "projected": _projected,
    "secret": _files,
}


def names(spec: Object) -> dict[str, Object]:
    """Return the volumes of a pod, by name."""
    return {text(volume, "name"): volume for _, volume in items(spec, "volumes")}
