"""The limits on the size of an object, a variable or a port number."""

from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.problems import Problem, ValuePath

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
