"""Rules for ConfigMaps.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidateConfigMap). Its size has
a check of its own.
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import mapping
from mlgen.kubernetes.validation.syntax import conflict, data_key
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation


def config_map(item: Object, _version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of the keys of a ConfigMap."""
    data, binary = mapping(item, "data"), mapping(item, "binaryData")
    for field, pairs in (("data", data), ("binaryData", binary)):
        for key in pairs:
            yield from data_key((field, key), key)
    for key in sorted(set(data) & set(binary)):
        message = f"{key} is in data and in binaryData"
        yield conflict(("data", key), message, "keep one of the two")
