"""Rules for the spec of a PersistentVolumeClaim.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go
(ValidatePersistentVolumeClaimSpec, ValidatePersistentVolumeClaimTemplate).
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import mapping, text, values
from mlgen.kubernetes.validation.metadata import annotations, labels, selector
from mlgen.kubernetes.validation.resources import amount_of, quantity
from mlgen.kubernetes.validation.syntax import conflict, missing, one_of, subdomain
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
CLASSES = {
    "storageClassName": "StorageClass",
    "volumeAttributesClassName": "VolumeAttributesClass",
}
VOLUME_MODES = ("Filesystem", "Block")


def persistent_volume_claim(item: Object, _version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of a claim."""
    yield from claim(("spec",), mapping(item, "spec"))


def template(at: ValuePath, value: Object) -> Iterator[Violation]:
    """Return the violations of the template of a claim, in a volume."""
    meta = mapping(value, "metadata")
    yield from labels((*at, "metadata", "labels"), mapping(meta, "labels"))
    yield from annotations((*at, "metadata", "annotations"), mapping(meta, "annotations"))
    for field in meta:
        if field not in ("labels", "annotations"):
            message = f"the template of a claim has no {field}"
            yield conflict((*at, "metadata", field), message, "remove it")
    yield from claim((*at, "spec"), mapping(value, "spec"))


def claim(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """Return the violations of a claim's spec."""
    modes = values(spec, "accessModes")
    if not modes:
        yield missing(at, "accessModes", "for example accessModes: [ReadWriteOnce]")
    for index, mode in enumerate(modes):
        yield from one_of((*at, "accessModes", index), mode, ACCESS_MODES, empty=False)
    if "ReadWriteOncePod" in modes and set(modes) - {"ReadWriteOncePod"}:
        message = "ReadWriteOncePod and other access modes are mutually exclusive"
        yield conflict((*at, "accessModes"), message, "keep ReadWriteOncePod, or remove it")
    requests = mapping(spec, "resources", "requests")
    size = (*at, "resources", "requests", "storage")
    if "storage" not in requests:
        yield missing(size[:-1], "storage", "for example storage: 10Gi")
    elif amount_of(requests["storage"]) == 0:
        yield Violation(size, "expected more than 0, got 0", "", "bad-value")
    else:
        yield from quantity(size, requests["storage"])
    yield from selector((*at, "selector"), mapping(spec, "selector"))
    for field, kind in CLASSES.items():
        if text(spec, field):
            yield from subdomain((*at, field), text(spec, field), f"name of a {kind}")
    yield from one_of((*at, "volumeMode"), spec.get("volumeMode"), VOLUME_MODES, empty=False)
