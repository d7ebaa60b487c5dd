"""What an accepted change of an object does to pods.

The controllers' rules: https://kubernetes.io/docs/concepts/workloads/controllers/ (statefulset:
"Update strategies"; deployment: "Strategy"; job: "Suspending a Job", "Elastic Indexed Jobs"), and
https://kubernetes.io/docs/concepts/configuration/configmap/, "Mounted ConfigMaps are updated
automatically".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes.changes import FieldPath, at
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.immutability import Update

Object = dict[str, Any]

AT_ONCE = "follows within about a minute, in its files"
LATER = "sees it only when its containers start again"
BOTH = "follows within about a minute in its files, else when its containers start again"


def effects(update: Update) -> list[str]:
    """Return what happens to pods, each in a few words; nothing where that is not known."""
    find = EFFECTS.get(group_kind(update.new))
    return list(find(update)) if find else []


def readers(update: Update, objects: Sequence[Object]) -> list[str]:
    """Return which objects read a ConfigMap or Secret that changes, and when they see it.

    Args:
        update: an object of any kind; nothing reads most.
        objects: those among which readers are looked for.
    """
    kind, meta = update.new["kind"], update.new["metadata"]
    if kind not in WAYS or not (_touches(update, "data") or _touches(update, "binaryData")):
        return []
    found = []
    for item in objects:
        same = (item["metadata"].get("namespace") or "") == (meta.get("namespace") or "")
        if same and _dig(item, "spec", "template"):
            when = _seen(_dig(item, "spec", "template", "spec"), WAYS[kind], meta["name"])
            found += [f"{item['kind']} {item['metadata']['name']} {when}"] if when else []
    return found


WAYS = {
    "ConfigMap": ("configMap", "name", "configMapRef", "configMapKeyRef"),
    "Secret": ("secret", "secretName", "secretRef", "secretKeyRef"),
}
"""Fields by which pods read: a volume and the name in it, `envFrom`, and `valueFrom`."""


def _seen(pod: Any, ways: tuple[str, ...], name: str) -> str:
    kind, key, all_of, one_of = ways
    containers = [*_parts(pod, "initContainers"), *_parts(pod, "containers")]
    volumes = [
        volume.get("name")
        for volume in _parts(pod, "volumes")
        if _dig(volume, kind, key) == name
        or any(_dig(part, kind, "name") == name for part in _parts(volume, "projected", "sources"))
    ]
    mounts = [
        mount.get("subPath") or mount.get("subPathExpr")
        for container in containers
        for mount in _parts(container, "volumeMounts")
        if mount.get("name") in volumes
    ]
    names = [
        _dig(source, *way)
        for container in containers
        for listed, way in (("env", ("valueFrom", one_of, "name")), ("envFrom", (all_of, "name")))
        for source in _parts(container, listed)
    ]
    late = name in names or any(mounts)
    if not all(mounts):
        return BOTH if late else AT_ONCE
    return LATER if late else ""


def _parts(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """The items of a list of mappings; none where there is no such list."""
    found = _dig(value, *path)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _dig(value: Any, *path: str) -> Any:
    """What stands at a path; an empty list, which is nothing and can be walked, for nothing."""
    return at(value, path) or []


def _touches(update: Update, *path: str) -> bool:
    return any(change.path[: len(path)] == path for change in update.changes)


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count > 1 else ''}"


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 1  # the default of all that count pods


def _counts(update: Update, name: str) -> tuple[int, int]:
    return _count(update.was("spec", name)), _count(update.will("spec", name))


def _scaled(old: int, new: int) -> Iterator[str]:
    if new != old:
        yield f"{'adds' if new > old else 'removes'} {_pods(abs(new - old))}"


def _job(update: Update) -> Iterator[str]:
    old, new = _counts(update, "parallelism")
    was, will = bool(update.was("spec", "suspend")), bool(update.will("spec", "suspend"))
    if any(_is_end(condition) for condition in update.was("status", "conditions") or []):
        yield "the Job has ended, so nothing starts"
    elif _touches(update, "spec", "suspend") and was != will:
        yield f"stops {_pods(old)}" if will else f"starts {_pods(new)}"
    elif not will:
        yield from _scaled(old, new)


def _is_end(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


def _stateful_set(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    strategy = update.will("spec", "updateStrategy") or {}
    if _touches(update, "spec", "template"):
        if strategy.get("type") == "OnDelete":
            yield "a pod changes when it is deleted (updateStrategy OnDelete)"
        else:
            rolling = strategy.get("rollingUpdate") or {}
            stay = rolling.get("partition") or 0
            restarted = min(old, new) - stay
            way = "" if rolling.get("maxUnavailable") or restarted == 1 else ", one after another"
            yield f"restarts {_pods(restarted)}{way}" if restarted > 0 else "restarts no pod"
    yield from _scaled(old, new)


def _deployment(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    if _touches(update, "spec", "template"):
        recreate = (update.will("spec", "strategy") or {}).get("type") == "Recreate"
        yield f"{'ends and starts' if recreate else 'replaces'} {_pods(min(old, new))}"
    yield from _scaled(old, new)


def _daemon_set(update: Update) -> Iterator[str]:
    if _touches(update, "spec", "template"):
        yield "restarts its pod on every node"


def _service(update: Update) -> Iterator[str]:
    if _touches(update, "spec", "selector"):
        yield "leads to other pods at once"
    if _keeps_address(update):
        yield "keeps its clusterIP"


def _keeps_address(update: Update) -> bool:
    """An address that is no longer named is kept: patchAllocatedValues in core/service/storage."""
    address: FieldPath = ("spec", "clusterIP")
    gone = any(change.path == address and change.new is None for change in update.changes)
    return gone and update.will("spec", "type") != "ExternalName"


EFFECTS: dict[tuple[str, str], Callable[[Update], Iterator[str]]] = {
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
}
"""By API group and kind."""
