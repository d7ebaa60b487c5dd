"""Objects: their group, identity and data without nulls. Limits on sizes, variables and ports.

`schemas/kubernetes/groups.json` contains the groups of
https://github.com/kubernetes/kubernetes/tree/v1.37.0/staging/src/k8s.io/api, and the groups of the
kinds CustomResourceDefinition and APIService. The suffix of a group does not show whether it is
built in: `snapshot.storage.k8s.io` and `jobset.x-k8s.io` belong to CustomResourceDefinitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from sys import getsizeof
from typing import Any

from mlgen.problems import Problem, ValuePath
from mlgen.resources import table

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON data."""

Notes = Mapping[Any, Any]
"""Comments at the ends of an object's lines, in its shape: `{"spec": {"suspend": "text"}}`.

Only scalars of a mapping have comments, in one line of printable characters.
"""

Key = tuple[str, str, str, str]
"""API group, kind, namespace and name, which together are unique in a cluster."""


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: "batch" for `batch/v1`, "" for `v1`."""
    return api_version.rpartition("/")[0]


def group_kind(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the API group and the kind of an object."""
    return group_of(str(item.get("apiVersion"))), str(item.get("kind"))


def is_built_in(api_version: str) -> bool:
    """Return whether an API is part of Kubernetes, not of a CustomResourceDefinition."""
    return group_of(api_version) in table("kubernetes/groups")


class Identities:
    """The identities of many objects: names by group, kind and namespace, to save memory."""

    def __init__(self, identities: Iterable[Key] = ()) -> None:
        self._names: dict[tuple[str, str], dict[str, set[str]]] = {}
        self.update(identities)

    def __contains__(self, key: Any) -> bool:
        group, kind, namespace, name = key
        return name in self._names.get((group, kind), {}).get(namespace, ())

    def update(self, identities: Iterable[Key]) -> None:
        """Add identities."""
        for group, kind, namespace, name in identities:
            spaces = self._names.setdefault((group, kind), {})
            spaces.setdefault(namespace, set()).add(name)

    def has_name(self, group: str, kind: str, name: str) -> bool:
        """Return whether any namespace has an object with this name."""
        return any(name in names for names in self._names.get((group, kind), {}).values())


def keys(objects: Iterable[Mapping[str, Any]]) -> list[Key]:
    """Return the identity of each object, except for objects without a name, such as a List."""
    identities = []
    for item in objects:
        meta = item.get("metadata")
        if isinstance(meta, dict) and isinstance(meta.get("name"), str) and meta["name"]:
            space = meta.get("namespace")
            namespace = space if isinstance(space, str) else ""
            group = group_of(item["apiVersion"])
            identities.append((group, item["kind"], namespace, meta["name"]))
    return identities


def memory(value: Any, counted: set[int]) -> int:
    """Return the approximate size of data in memory, in bytes.

    Args:
        value: the data.
        counted: the identities of lists, mappings and strings that are not counted again. Those of
            the value are added.
    """
    total, left = 0, [value]
    while left:
        item = left.pop()
        if not isinstance(item, (dict, list, tuple, str)) or id(item) in counted:
            continue
        counted.add(id(item))
        total += getsizeof(item)
        if isinstance(item, dict):
            left += item
            left += item.values()
        elif not isinstance(item, str):
            left += item
    return total


def contains_secret(value: Any) -> bool:
    """Return True for a Secret, or an object with a Secret in it, such as a List."""
    if isinstance(value, list):
        return any(map(contains_secret, value))
    if not isinstance(value, dict):
        return False
    has_kind = str(value.get("kind")).startswith("Secret")
    has_values = has_kind and ("data" in value or "metadata" in value)
    return has_values or "stringData" in value or any(map(contains_secret, value.values()))


def without_nulls(value: Any) -> Any:
    """Return data without null fields, which the API server treats as omitted. Keeps list items."""
    if isinstance(value, dict):
        return {
            k: without_nulls(v) if isinstance(v, dict | list) else v
            for k, v in value.items()
            if v is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


CONFIG_MAP_MAX = 1 << 20
"""The maximum size of the data of a ConfigMap or Secret, in bytes.

MaxSecretSize in kubernetes/pkg/apis/core (1.34.4). ValidateConfigMap and ValidateSecret count the
values of `data` and `binaryData`, decoded from base64.
"""

ETCD_MAX = 3 << 19
"""The maximum size of an object in etcd, in bytes: --max-request-bytes,
 https://etcd.io/docs/v3.5/dev-guide/limit/."""

WORKFLOW_MAX = 1 << 20
"""The maximum size of a Workflow with its status, as JSON, in bytes: MAX_WORKFLOW_SIZE in
argo-workflows/workflow/packer/packer.go (3.7.9)."""

APPLY_MAX = 256 << 10
"""The maximum size of all annotations of an object, in bytes: TotalAnnotationSizeLimitB in
k8s.io/apimachinery/pkg/api/validation/objectmeta.go (0.34.4).

Client-side `kubectl apply` stores the object itself in the annotation `LAST_APPLIED`.
"""

ENV_MAX = 128 << 10
"""The maximum size of one variable or argument, in bytes: MAX_ARG_STRLEN in execve(2)."""

ENV_SHORT = ENV_MAX // 5
"""A value with this many characters always fits: each has at most four bytes."""

INT32_MAX = 2**31 - 1
"""The maximum of most numbers in manifests, such as `backoffLimit`."""

PORT_MAX = 65535

NODE_PORTS = range(30000, 32768)
"""The ports of NodePort Services:
 https://kubernetes.io/docs/concepts/services-networking/service/#nodeport."""

EPHEMERAL_PORTS = range(32768, 61000)
"""The ports that Linux uses for outgoing connections: ip_local_port_range in ip(7)."""


def stored_bytes(value: Any) -> int:
    """Return the minimum size of a value in etcd, which stores objects as protobuf, in bytes.

    Each string has a tag and a length. Field names and other values are not counted.
    """
    if isinstance(value, str):
        return len(value.encode()) + 2
    if isinstance(value, dict):
        return sum(map(stored_bytes, value.values()))
    return sum(map(stored_bytes, value)) if isinstance(value, list) else 0


def kib(size: int) -> str:
    """Return a size in KiB, rounded up, so that a size over a limit is not shown as the limit."""
    return f"{-(-size >> 10)} KiB"


def config_map_bytes(item: Object) -> int:
    """Return the size that the API server limits to `CONFIG_MAP_MAX`: the decoded values."""
    texts = (item.get("data") or {}).values()
    encoded = [str(text).rstrip("=") for text in (item.get("binaryData") or {}).values()]
    return sum(len(str(text).encode()) for text in texts) + sum(
        len(text) * 3 // 4 for text in encoded
    )


def overlong(
    path: ValuePath, name: str, text: str, hint: str = "use fewer replicas"
) -> Iterator[Problem]:
    """Yield a problem if a variable or an argument is too long for Linux to start a process.

    Args:
        path: the path of the problem.
        name: the name of the variable. The limit applies to `NAME=text` with its NUL byte.
        text: the value.
        hint: the hint.
    """
    if 4 * len(text) + len(name) + 2 <= ENV_MAX:  # a character has at most four bytes in UTF-8
        return
    size = len(text.encode())
    if size + len(name) + 2 > ENV_MAX:
        message = f"{name} has {size} bytes; Linux allows {ENV_MAX}"
        yield Problem(path, message, "too-large", hint)
