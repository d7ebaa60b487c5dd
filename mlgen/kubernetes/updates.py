"""An update of an object, and the facts about it on which its acceptance depends.

The rules that use these facts are in `kubernetes.immutability`, with their sources.
"""

from dataclasses import dataclass
from typing import Any

from mlgen.kubernetes import quantity
from mlgen.kubernetes.changes import Change, at
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import MUTABLE_WHILE_SUSPENDED, KubeVersion

CLASS = "storageClassName"


@dataclass(frozen=True)
class Update:
    """An object that is to change.

    Attributes:
        old: the existing object; with its status if it was read from a cluster.
        managed: the fields of `old` that kubectl's three-way merge considers.
        new: the manifest to apply.
        changes: the fields that differ between `managed` and `new`.
        kube_version: the version of the cluster.
    """

    old: Object
    managed: Object
    new: Object
    changes: tuple[Change, ...]
    kube_version: KubeVersion

    def old_value(self, *path: str) -> Any:
        """Return the present value at a path, or None."""
        return at(self.old, path)

    def new_value(self, *path: str) -> Any:
        """Return the value at a path after the update, or None."""
        for change in self.changes:
            changed = tuple(name.strip("[]") for name in change.path)
            if changed == path[: len(changed)] and not change.order:
                return at(change.new, path[len(change.path) :])
        return self.old_value(*path)


def is_placement_mutable(update: Update) -> bool:
    """Return whether the placement of a Job's pods may change: it is suspended and not started."""
    return bool(update.old_value("spec", "suspend")) and not _has_started(update)


def _has_started(update: Update) -> bool:
    """Return whether a suspended Job counts as started; since 1.36, until it is seen suspended.

    A file has no status, so a Job in a file counts as not started. Source: validationOptionsForJob
    and shouldAllowMutablePodTemplate in pkg/registry/batch/job/strategy.go.
    """
    started = update.old_value("status", "startTime") is not None
    if update.kube_version < MUTABLE_WHILE_SUSPENDED:
        return started
    return bool(update.old_value("status", "active")) or (
        started and not _is_seen_suspended(update)
    )


def _is_seen_suspended(update: Update) -> bool:
    """Return whether the Job controller has reported that a Job is suspended."""
    conditions = update.old_value("status", "conditions") or ()
    return any((each["type"], each["status"]) == ("Suspended", "True") for each in conditions)


def may_have_started(update: Update) -> bool:
    """Return whether a suspended Job may have started, which a file does not show."""
    return is_placement_mutable(update) and "status" not in update.old


def are_resources_mutable(update: Update) -> bool:
    """Return whether the resources of a Job's pods may change, in addition to their placement."""
    return is_placement_mutable(update) and update.kube_version >= MUTABLE_WHILE_SUSPENDED


def is_only_placement_mutable(update: Update) -> bool:
    """Return whether the placement of a Job's pods may change, but not their resources."""
    return is_placement_mutable(update) and update.kube_version < MUTABLE_WHILE_SUSPENDED


def is_indexed(update: Update) -> bool:
    """Return whether a Job will be an Indexed Job."""
    return bool(update.new_value("spec", "completionMode") == "Indexed")


def is_scaled_unevenly(update: Update) -> bool:
    """Return whether an Indexed Job would have unequal completions and parallelism."""
    completions, parallelism = (
        update.new_value("spec", name) or 1 for name in ("completions", "parallelism")
    )
    return is_indexed(update) and bool(completions != parallelism)


def is_marked_immutable(update: Update) -> bool:
    """Return whether a ConfigMap or Secret has `immutable: true`."""
    return update.old_value("immutable") is True


def _cluster_ip(item: Object) -> Any:
    """Return the clusterIP that a Service asks for or has, or None."""
    return at(item, ("spec", "clusterIP")) or None


def _keeps_cluster_ip(update: Update) -> bool:
    """Return whether a Service has a clusterIP before and after; an ExternalName has none."""
    return "ExternalName" not in (
        update.old_value("spec", "type"),
        update.new_value("spec", "type"),
    )


def changes_cluster_ip(update: Update) -> bool:
    """Return whether the clusterIP certainly changes."""
    old, new = _cluster_ip(update.old), _cluster_ip(update.new)
    certain = old is not None or new == "None"
    return _keeps_cluster_ip(update) and new is not None and certain


def may_change_cluster_ip(update: Update) -> bool:
    """Return whether the new clusterIP may differ from the allocated one, which is unknown."""
    old, new = _cluster_ip(update.old), _cluster_ip(update.new)
    return _keeps_cluster_ip(update) and old is None and new not in (None, "None")


def publishes_headless(update: Update) -> bool:
    """Return whether a headless Service would become a NodePort or LoadBalancer.

    A clusterIP that the manifest omits is kept, even None: patchAllocatedValues in
    pkg/registry/core/service/storage.
    """
    published = update.new_value("spec", "type") in ("NodePort", "LoadBalancer")
    return published and (_cluster_ip(update.new) or _cluster_ip(update.old)) == "None"


def keeps_rolling_update(update: Update) -> bool:
    """Return whether OnDelete would meet a default rollingUpdate, which `apply` keeps."""
    path = ("spec", "updateStrategy")
    old, new = at(update.managed, path) or {}, at(update.new, path) or {}
    return new.get("type") == "OnDelete" and "rollingUpdate" not in {*new, *old}


def _storage(update: Update) -> tuple[Any, Any]:
    """Return the storage that a claim requests before and after."""
    path = ("spec", "resources", "requests", "storage")
    return update.old_value(*path), update.new_value(*path)


def shrinks(update: Update) -> bool:
    """Return whether a claim would request less storage; False if either is not a quantity."""
    old, new = _storage(update)
    try:
        return quantity.parse(new) < quantity.parse(old)
    except ValueError:
        return False


def is_unbound(update: Update) -> bool:
    """Return whether a claim is known not to be bound."""
    return update.old_value("status", "phase") not in (None, "Bound")


def may_grow(update: Update) -> bool:
    """Return whether more storage is accepted if the claim is bound and its class allows it."""
    return not shrinks(update) and not is_unbound(update)


def has_class(update: Update) -> bool:
    """Return whether a claim has a storage class, or its class would be removed."""
    return bool(update.old_value("spec", CLASS) or not update.new_value("spec", CLASS))


def may_have_class(update: Update) -> bool:
    """Return whether a claim without a class may have the cluster's default class by now."""
    return not has_class(update) and "status" not in update.old
