"""Containers of a Job's pods that do not end by themselves → native sidecars."""

from typing import Any

from mlgen.topology import Role


def with_native_sidecars(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec whose evident sidecars do not keep a Job from completing.

    They become the last init containers, so that they start when the others would have, after
    every init container of the user and of mlgen.
    """
    main = role.spec.main_container
    containers = spec.get("containers") or []
    if role.serves or len(containers) == 1:
        return spec
    from mlgen.kubernetes.sidecars import is_sidecar  # imported late: few jobs have sidecars

    moved = [c for c in containers if c.get("name") != main and is_sidecar(c)]
    if not moved:
        return spec
    sidecars = [container | {"restartPolicy": "Always"} for container in moved]
    return spec | {
        "initContainers": [*(spec.get("initContainers") or []), *sidecars],
        "containers": [container for container in containers if container not in moved],
    }
