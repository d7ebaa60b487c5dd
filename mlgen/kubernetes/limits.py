"""How large an object, a variable or a port number may be."""

from collections.abc import Iterator

from mlgen.problems import Problem, ValuePath

CONFIG_MAP_MAX = 1 << 20
"""Bytes of a ConfigMap's data: https://kubernetes.io/docs/concepts/configuration/configmap/."""

APPLY_MAX = 256 << 10
"""Bytes of all annotations of an object; a client-side `kubectl apply` stores the object in one."""

ENV_MAX = 128 << 10
"""Bytes of one variable or argument: Linux' MAX_ARG_STRLEN, see execve(2)."""

PORT_MAX = 65535

NODE_PORTS = range(30000, 32768)
"""Of Services: https://kubernetes.io/docs/concepts/services-networking/service/#nodeport."""

EPHEMERAL_PORTS = range(32768, 61000)
"""From which Linux takes the port of a connection: net.ipv4.ip_local_port_range, see ip(7)."""


def overlong(path: ValuePath, name: str, text: str) -> Iterator[Problem]:
    """Return a problem if a variable or an argument is longer than any process can take."""
    if len(text) <= ENV_MAX // 4:
        return
    size = len(text.encode())
    if size + len(name) + 2 > ENV_MAX:
        message = f"{name} has {size} bytes; no process may get {ENV_MAX}"
        yield Problem(path, message, "too-large", "use fewer replicas")
