"""Rules for volumes of storage systems that have a CSI driver today.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (a function for each of them).
"""

import re
from collections.abc import Callable, Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import mapping, number, text, values
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    invalid,
    label,
    missing,
    one_of,
    relative,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

BYTE_MAX = 255
TENANT_MAX = 64

_QUALIFIED_NAME = r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z.-]+)(:[^,;*&$|\s]+)\Z"
_HEXADECIMAL_NAME = r"eui.[0-9A-Za-z]{16}\Z|naa.[0-9A-Za-z]{32}\Z"


def _azure_disk(path: ValuePath, source: Object) -> Iterator[Violation]:
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Shared", "Dedicated", "Managed")
    kind, uri = source.get("kind", "Shared"), text(source, "diskURI")
    mode = source.get("cachingMode")
    yield from one_of((*path, "cachingMode"), mode, modes, empty=False)
    yield from one_of((*path, "kind"), kind, kinds, empty=False)
    prefix = "/subscriptions/" if kind == "Managed" else "https://"
    if isinstance(kind, str) and not uri.startswith(prefix):
        yield invalid((*path, "diskURI"), uri, "URI of a disk", f"start it with {prefix}")


def _cinder(path: ValuePath, source: Object) -> Iterator[Violation]:
    if "secretRef" in source and not text(mapping(source, "secretRef"), "name"):
        yield missing((*path, "secretRef"), "name")


def _fibre_channel(path: ValuePath, source: Object) -> Iterator[Violation]:
    targets, identifiers = values(source, "targetWWNs"), values(source, "wwids")
    if bool(targets) == bool(identifiers):
        yield conflict(path, "expected either targetWWNs or wwids", "keep or add one of them")
    if targets and number(source, "lun") is None:
        yield missing(path, "lun")
    if targets:
        yield from between((*path, "lun"), number(source, "lun"), 0, BYTE_MAX)


def _flex(path: ValuePath, source: Object) -> Iterator[Violation]:
    for key in mapping(source, "options"):
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid((*path, "options", key), key, "option", "use another prefix")


def _flocker(path: ValuePath, source: Object) -> Iterator[Violation]:
    name, identifier = text(source, "datasetName"), text(source, "datasetUUID")
    if bool(name) == bool(identifier):
        yield conflict(path, "expected either datasetName or datasetUUID", "keep or add one")
    if "/" in name:
        yield invalid((*path, "datasetName"), name, "dataset", "write it without /")


def _git(path: ValuePath, source: Object) -> Iterator[Violation]:
    yield from relative((*path, "directory"), text(source, "directory"))


def _iscsi(path: ValuePath, source: Object) -> Iterator[Violation]:
    yield from between((*path, "lun"), number(source, "lun"), 0, BYTE_MAX)
    for field in ("iqn", "initiatorName"):
        name = source.get(field)
        if isinstance(name, str) and not _is_initiator(name) and (name or field != "iqn"):
            yield invalid((*path, field), name, "name", "start it with iqn., eui. or naa.")
    secret = source.get("chapAuthDiscovery") is True or source.get("chapAuthSession") is True
    if secret and "secretRef" not in source:
        yield missing(path, "secretRef")


def _is_initiator(name: str) -> bool:
    """Return whether a text is the name of an iSCSI node."""
    if name.startswith("iqn"):
        return bool(re.search(_QUALIFIED_NAME, name))
    return bool(re.match(_HEXADECIMAL_NAME, name))


def _partition(path: ValuePath, source: Object) -> Iterator[Violation]:
    yield from between((*path, "partition"), number(source, "partition"), 0, BYTE_MAX)


def _quobyte(path: ValuePath, source: Object) -> Iterator[Violation]:
    registry, tenant = text(source, "registry"), text(source, "tenant")
    if registry and len(tenant) > TENANT_MAX:
        yield invalid((*path, "tenant"), tenant, "tenant", f"use at most {TENANT_MAX} characters")
    elif registry and not all(pair.count(":") == 1 for pair in registry.split(",")):
        yield invalid((*path, "registry"), registry, "registry", "write HOST:PORT")


def _storage_os(path: ValuePath, source: Object) -> Iterator[Violation]:
    for field in ("volumeName", "volumeNamespace"):
        if text(source, field):
            yield from label((*path, field), text(source, field), "name")
    if "secretRef" in source and not text(mapping(source, "secretRef"), "name"):
        yield missing((*path, "secretRef"), "name")


RULES: dict[str, Callable[[ValuePath, Object], Iterator[Violation]]] = {
    "awsElasticBlockStore": _partition,
    "azureDisk": _azure_disk,
    "cinder": _cinder,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": _partition,
    "gitRepo": _git,
    "iscsi": _iscsi,
    "quobyte": _quobyte,
    "storageos": _storage_os,
}
