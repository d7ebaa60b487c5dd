"""A user's pod template over ours, merged as `kubectl patch --type=strategic` would.

Mappings merge field by field, `null` takes a field away, and the lists below merge item by item:
an item with the same key is merged, another one is added at the end. Every other list is replaced.
`$patch: replace`, `$patch: delete` and `$retainKeys` work as they do there. One thing differs:
kubectl puts new items first, but a variable must come before those that use it.

The keys are the patchMergeKey of the Go types:
https://github.com/kubernetes/api/blob/v0.34.0/core/v1/types.go; the directives:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from typing import Any

KEYS = {
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def merged(ours: Any, theirs: Any, name: str = "") -> Any:
    """Return `theirs` laid over `ours`; neither is changed.

    Args:
        ours: what is there.
        theirs: the patch.
        name: the field that holds both, which says how lists merge.
    """
    if isinstance(theirs, dict):
        return _mapping(ours if isinstance(ours, dict) else {}, theirs)
    if isinstance(theirs, list) and name in KEYS:
        return _items(ours if isinstance(ours, list) else [], theirs, KEYS[name])
    return theirs


def _mapping(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    directive, retained = theirs.get("$patch"), theirs.get("$retainKeys")
    if directive == "delete":
        return {}
    result = {} if directive == "replace" else dict(ours)
    for name, value in theirs.items():
        if value is None:
            result.pop(name, None)
        elif name not in ("$patch", "$retainKeys"):
            result[name] = merged(result.get(name), value, name)
    return result if retained is None else {k: v for k, v in result.items() if k in retained}


def _items(ours: list[Any], theirs: list[Any], key: str) -> list[Any]:
    directives = [item.get("$patch") if isinstance(item, dict) else None for item in theirs]
    result = [] if "replace" in directives else list(ours)
    for item, directive in zip(theirs, directives, strict=True):
        value = _key(item, key)
        at = next((i for i, old in enumerate(result) if _key(old, key) == value), None)
        if directive == "delete" and at is not None:
            del result[at]
        elif directive is None and (at is None or value is None):
            result.append(merged({}, item))
        elif directive is None and at is not None:
            result[at] = merged(result[at], item)
    return result


def _key(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None
