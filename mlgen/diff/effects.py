"""An accepted update of an object → its effects on pods.

Sources of the controllers' rules:

- https://kubernetes.io/docs/concepts/workloads/controllers/, statefulset ("Update strategies"),
  deployment ("Strategy") and job ("Suspending a Job", "Elastic Indexed Jobs")
- https://kubernetes.io/docs/concepts/configuration/configmap/, "Mounted ConfigMaps are updated
  automatically"
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes.objects import Object, group_kind
from mlgen.kubernetes.updates import Update
from mlgen.kubernetes.values import sequence, value_at
from mlgen.objects.supervisor import planned

IN_FILES = "sees the change in its mounted files within about a minute"
AFTER_RESTART = "sees the change only after its containers restart"
IN_BOTH = f"{IN_FILES}, elsewhere only after its containers restart"


def effects(update: Update) -> list[str]:
    """Return the effects on pods, each in a few words; [] for kinds without a rule."""
    rule = EFFECTS.get(group_kind(update.new))
    return list(rule(update)) if rule else []


def readers(update: Update, objects: Sequence[Object]) -> list[str]:
    """Return the objects that read a changed ConfigMap or Secret, and when they see the change.

    Args:
        update: an object's update. Only ConfigMaps and Secrets have readers.
        objects: the possible readers.
    """
    kind, metadata = update.new["kind"], update.new["metadata"]
    if kind not in REFERENCES or not (_changes(update, "data") or _changes(update, "binaryData")):
        return []
    lines = []
    for item in objects:
        namespaces = [meta.get("namespace") or "" for meta in (item["metadata"], metadata)]
        if namespaces[0] == namespaces[1] and value_at(item, ("spec", "template")):
            pod = value_at(item, ("spec", "template", "spec"))
            when = _when_seen(pod, kind, metadata["name"])
            # The supervisor reads its plan and its program only once.
            when = AFTER_RESTART if when and planned(update.new) else when
            lines += [f"{item['kind']} {item['metadata']['name']} {when}"] if when else []
    return lines


REFERENCES = {
    "ConfigMap": ("configMap", "name", "configMapRef", "configMapKeyRef"),
    "Secret": ("secret", "secretName", "secretRef", "secretKeyRef"),
}
"""The fields of a pod that refer to objects of a kind.

These are the volume source, its field with the object's name, the field of an item of `envFrom`,
and the field of a variable's `valueFrom`.
"""


def _when_seen(pod: Any, kind: str, name: str) -> str:
    """Return when a pod sees a change of an object; "" if the pod does not refer to it."""
    volume_source, volume_name, env_from, value_from = REFERENCES[kind]
    volumes = [
        volume.get("name")
        for volume in _items(pod, "volumes")
        if name == value_at(volume, (volume_source, volume_name))
        or any(
            name == value_at(source, (volume_source, "name"))
            for source in _items(volume, "projected", "sources")
        )
    ]
    sub_paths, names = [], []
    for container in (*_items(pod, "initContainers"), *_items(pod, "containers")):
        mounts = [each for each in _items(container, "volumeMounts") if each.get("name") in volumes]
        sub_paths += [mount.get("subPath") or mount.get("subPathExpr") for mount in mounts]
        path = ("valueFrom", value_from, "name")
        names += [value_at(variable, path) for variable in _items(container, "env")]
        names += [value_at(source, (env_from, "name")) for source in _items(container, "envFrom")]
    # Files under a subPath and variables of a running container are never updated.
    needs_restart = name in names or any(sub_paths)
    if not all(sub_paths):
        return IN_BOTH if needs_restart else IN_FILES
    return AFTER_RESTART if needs_restart else ""


def _items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at a path; [] if there is no list."""
    return [item for item in sequence(value, *path) if isinstance(item, dict)]


def _changes(update: Update, *path: str) -> bool:
    """Return True if an update changes a field or a part of it."""
    return any(change.path[: len(path)] == path for change in update.changes)


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count > 1 else ''}"


def _counts(update: Update, name: str) -> tuple[int, int]:
    """Return the old and the new value of a number of pods in the spec; by default 1."""
    values = update.old_value("spec", name), update.new_value("spec", name)
    old, new = (value if isinstance(value, int) else 1 for value in values)
    return old, new


def _scaling(old: int, new: int) -> Iterator[str]:
    if new != old:
        yield f"{'adds' if new > old else 'removes'} {_pods(abs(new - old))}"


def _job(update: Update) -> Iterator[str]:
    old, new = _counts(update, "parallelism")
    suspended = bool(update.old_value("spec", "suspend"))
    suspends = bool(update.new_value("spec", "suspend"))
    if any(map(_is_finished, update.old_value("status", "conditions") or [])):
        yield "the Job has finished, so no pods start"
    elif _changes(update, "spec", "suspend") and suspended != suspends:
        yield f"stops {_pods(old)}" if suspends else f"starts {_pods(new)}"
    elif not suspends:
        yield from _scaling(old, new)


def _is_finished(condition: Mapping[str, Any]) -> bool:
    """Return True if a Job's condition means that it has completed or failed."""
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


def _stateful_set(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    if _changes(update, "spec", "template"):
        if update.new_value("spec", "updateStrategy", "type") == "OnDelete":
            yield "pods keep their template until you delete them (updateStrategy: OnDelete)"
        else:
            rolling = ("spec", "updateStrategy", "rollingUpdate")
            restarted = min(old, new) - (update.new_value(*rolling, "partition") or 0)
            one_by_one = restarted > 1 and not update.new_value(*rolling, "maxUnavailable")
            order = ", one at a time" if one_by_one else ""
            yield f"restarts {_pods(restarted)}{order}" if restarted > 0 else "restarts no pods"
    yield from _scaling(old, new)


def _deployment(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    if _changes(update, "spec", "template"):
        pods = _pods(min(old, new))
        recreate = update.new_value("spec", "strategy", "type") == "Recreate"
        yield f"stops {pods}, then starts new ones" if recreate else f"replaces {pods}"
    yield from _scaling(old, new)


def _daemon_set(update: Update) -> Iterator[str]:
    if _changes(update, "spec", "template"):
        yield "restarts its pods on all nodes"


def _service(update: Update) -> Iterator[str]:
    if _changes(update, "spec", "selector"):
        yield "routes to other pods immediately"
    # Source: patchAllocatedValues in pkg/registry/core/service/storage.
    address = ("spec", "clusterIP")
    omitted = any(change.path == address and change.new is None for change in update.changes)
    if omitted and update.new_value("spec", "type") != "ExternalName":
        yield "keeps its clusterIP"


EFFECTS: dict[tuple[str, str], Callable[[Update], Iterator[str]]] = {
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
}
"""The rule for each API group and kind."""
