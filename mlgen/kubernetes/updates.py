"""Updates of an object: what the API server rejects, and the defaults that it sets.

The rules are rows of `schemas/kubernetes/updates.json`, by API group and kind:

- `paths`: changes at or below one of these fields are rejected. `[*]` is any item.
- `mutable`: instead, the fields may change, even if the row of an outer field rejects it.
- `since`, `until`: the first and the last version of Kubernetes with the rule.
- `when`: the condition of the rule, one of `CONDITIONS`.
- `unless`: a condition that is unknown from manifests alone. The change is accepted if it holds.
- `reason`: the message after the field, similar to the API server's message.
- `hint`: the fix. Without one, the object must be deleted.
- `source`: the function that rejects it. `batch:` is pkg/apis/batch/validation/validation.go in
  https://github.com/kubernetes/kubernetes/tree/v1.34.4 and v1.37.1.

All other fields may change: labels and annotations of every object, Roles, ServiceAccounts, the
ports and selector of a Service. Custom resources have no rules, because their definitions validate
them.

The API server sets defaults for fields that a manifest omits. Adding a field with its default has
no effect. Removing a field resets it to its default.

`schemas/kubernetes/defaults.json` contains the defaults as trees, by API group and kind. The value
of a field is its default, or the tree of its own fields. The value of a list is the tree of its
items. `$always` marks a structure that the API server creates even if a manifest omits it.
`"$Pod"` refers to a tree in `parts`, and `$like` adds the fields of such a tree. `"$completions"`
is a function of this module.

Sources: the Go types, and the functions `SetDefaults_*` in
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/apis (defaults.go in core/v1, batch/v1,
apps/v1 and rbac/v1). A field with `omitempty` that is not a pointer has its zero value as default,
because the two are indistinguishable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from mlgen.kubernetes import quantity, versions
from mlgen.kubernetes.objects import Object, group_kind
from mlgen.kubernetes.values import mapping, value_at
from mlgen.kubernetes.versions import MUTABLE_WHILE_SUSPENDED, KubeVersion
from mlgen.resources import table

FieldPath = tuple[str, ...]
"""The path of a field: names, and `[key]` for an item of a list or of a mapping with free keys."""

SPEC: FieldPath = ("spec",)


class Change(NamedTuple):
    """A field that changes.

    Attributes:
        path: the path of the field.
        old: its old value; None if it is not set.
        new: its new value; None if it is not set.
        implied: "old" or "new" if that value is a default of the API server, else "".
        order: True if only the order of a list changes. Then the values are the items' keys.
    """

    path: FieldPath
    old: Any
    new: Any
    implied: str = ""
    order: bool = False


def dotted(path: FieldPath) -> str:
    """Return a path in dotted form: `spec.template.spec.containers[main].image`."""
    return ".".join(path).replace(".[", "[")


class Update(NamedTuple):
    """An update of an object.

    Attributes:
        old: the existing object, with its status if it was read from a cluster.
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
        """Return the current value at a path, or None."""
        return value_at(self.old, path)

    def new_value(self, *path: str) -> Any:
        """Return the value at a path after the update, or None."""
        for change in self.changes:
            changed = tuple(name.strip("[]") for name in change.path)
            if changed == path[: len(changed)] and not change.order:
                return value_at(change.new, path[len(change.path) :])
        return self.old_value(*path)


class Rule(NamedTuple):
    """A row of the table, with parsed paths and versions."""

    paths: tuple[FieldPath, ...]
    source: str
    mutable: bool = False
    since: KubeVersion = versions.SUPPORTED[0]
    until: KubeVersion = versions.SUPPORTED[-1]
    when: str = ""
    unless: str = ""
    reason: str = "is immutable"
    hint: str = ""

    def applies(self, update: Update) -> bool:
        """Return whether the rule applies to an update."""
        is_in_version = self.since <= update.kube_version <= self.until
        return is_in_version and (not self.when or CONDITIONS[self.when](update))


@cache
def rules(group: str, kind: str) -> tuple[Rule, ...]:
    """Return the rules of a kind; () for a kind that is not in the table."""
    rows = table("kubernetes/updates").get(f"{group}/{kind}".lstrip("/"), ())
    return tuple(_rule(**row) for row in rows)


def _rule(paths: Iterable[str], **columns: Any) -> Rule:
    """Return the rule of a row."""
    for name in {"since", "until"} & columns.keys():
        columns[name] = versions.parse(columns[name])
    return Rule(tuple(tuple(path.replace("[", ".[").split(".")) for path in paths), **columns)


def mutable_spec(group: str, kind: str) -> set[str]:
    """Return the fields of `spec` that may always change. Others are immutable or unknown."""
    paths = [path for rule in rules(group, kind) if rule.mutable for path in rule.paths]
    return {path[1] for path in paths if path[:1] == SPEC and len(path) == len(SPEC) + 1}


def rejected(update: Update) -> list[tuple[str, Rule]]:
    """Return the rejected fields, each with its rule. Rules without `unless` are first."""
    applied = [rule for rule in rules(*group_kind(update.new)) if rule.applies(update)]
    mutable = [path for rule in applied if rule.mutable for path in rule.paths]
    fields = [
        (field, rule)
        for rule in applied
        if not rule.mutable
        for path in rule.paths
        for field in _rejected_fields(update, path, () if rule.unless else mutable)
    ]
    fields.sort(key=lambda field_rule: bool(field_rule[1].unless))
    return list(dict.fromkeys(fields))


def _rejected_fields(
    update: Update, outer: FieldPath, mutable: Iterable[FieldPath]
) -> Iterator[str]:
    """Yield a field for each change within a path that is not in a mutable part."""
    parts = [path for path in mutable if len(path) > len(outer) and is_within(path, outer)]
    for change in update.changes:
        for path in _changed_fields(change, outer, in_parts=bool(parts)):
            if not any(is_within(path, part) for part in parts):
                # A rule on all of `spec` yields the field in it, because other fields may change.
                yield dotted(path[:2] if outer == SPEC else outer)


def _changed_fields(change: Change, outer: FieldPath, *, in_parts: bool) -> list[FieldPath]:
    """Return the fields within a path that a change affects.

    A mapping that is added or removed as a whole affects each of its fields.
    """
    if is_within(change.path, outer):
        values = [value for value in (change.old, change.new) if isinstance(value, dict)]
        if in_parts and values and None in (change.old, change.new):
            return list(_leaves(change.path, values[0]))
        return [change.path]
    if is_within(outer, change.path):  # the mapping that contains the field
        inner_path = [name.strip("[]") for name in outer[len(change.path) :]]
        old, new = (value_at(value, inner_path) for value in (change.old, change.new))
        return [outer] if old != new else []
    return []


def _leaves(path: FieldPath, value: Any) -> Iterator[FieldPath]:
    """Yield the paths of all leaves in a mapping. An empty mapping is a leaf."""
    if not isinstance(value, dict) or not value:
        yield path
        return
    for name, item in value.items():
        yield from _leaves((*path, name), item)


def is_within(path: FieldPath, outer: FieldPath) -> bool:
    """Return whether a path equals another or is below it. `[*]` in `outer` is any item."""
    return len(path) >= len(outer) and all(
        name == pattern or (pattern == "[*]" and name.startswith("["))
        for name, pattern in zip(path, outer, strict=False)
    )


CLUSTER_IP = ("spec", "clusterIP")
CLASS = ("spec", "storageClassName")
STORAGE = ("spec", "resources", "requests", "storage")


def _is_placement_mutable(update: Update) -> bool:
    """Return whether the placement of a Job's pods may change: the Job is suspended, not started.

    Since 1.36, a started Job no longer counts as started once its condition Suspended is true. A
    Job in a file has no status, so it counts as not started. Source: validationOptionsForJob and
    shouldAllowMutablePodTemplate in pkg/registry/batch/job/strategy.go.
    """
    started = update.old_value("status", "startTime") is not None
    if update.kube_version >= MUTABLE_WHILE_SUSPENDED:
        conditions = update.old_value("status", "conditions") or ()
        seen = any((each["type"], each["status"]) == ("Suspended", "True") for each in conditions)
        started = bool(update.old_value("status", "active")) or (started and not seen)
    return bool(update.old_value("spec", "suspend")) and not started


def _is_indexed(update: Update) -> bool:
    """Return whether a Job will be an Indexed Job."""
    return bool(update.new_value("spec", "completionMode") == "Indexed")


def _is_scaled_unevenly(update: Update) -> bool:
    """Return whether an Indexed Job would have unequal completions and parallelism."""
    completions, parallelism = (
        update.new_value("spec", name) or 1 for name in ("completions", "parallelism")
    )
    return _is_indexed(update) and bool(completions != parallelism)


def _new_cluster_ip(update: Update, *, known: bool) -> bool:
    """Return whether a Service requests a clusterIP that differs from its current one.

    An ExternalName has none. A file does not contain the allocated address.

    Args:
        update: the update of a Service.
        known: True if it must certainly differ, False if it may differ.
    """
    if "ExternalName" in (update.old_value("spec", "type"), update.new_value("spec", "type")):
        return False
    old, new = value_at(update.old, CLUSTER_IP) or None, value_at(update.new, CLUSTER_IP) or None
    return new is not None and known == (old is not None or new == "None")


def _publishes_headless(update: Update) -> bool:
    """Return whether a headless Service would become a NodePort or LoadBalancer.

    A clusterIP that the manifest omits is kept, even None: patchAllocatedValues in
    pkg/registry/core/service/storage.
    """
    published = update.new_value("spec", "type") in ("NodePort", "LoadBalancer")
    address = value_at(update.new, CLUSTER_IP) or value_at(update.old, CLUSTER_IP)
    return published and address == "None"


def _keeps_rolling_update(update: Update) -> bool:
    """Return whether OnDelete would conflict with a default rollingUpdate, which `apply` keeps."""
    path = ("spec", "updateStrategy")
    fields = {name for item in (update.managed, update.new) for name in mapping(item, *path)}
    is_on_delete: bool = value_at(update.new, (*path, "type")) == "OnDelete"
    return is_on_delete and "rollingUpdate" not in fields


def _shrinks(update: Update) -> bool:
    """Return whether a PVC would request less storage; False if either is not a quantity."""
    old, new = update.old_value(*STORAGE), update.new_value(*STORAGE)
    try:
        return quantity.parse(new) < quantity.parse(old)
    except ValueError:
        return False


def _is_unbound(update: Update) -> bool:
    """Return whether a PVC is known not to be bound."""
    return update.old_value("status", "phase") not in (None, "Bound")


def _has_class(update: Update) -> bool:
    """Return whether a PVC has a storage class, or its class would be removed."""
    return bool(update.old_value(*CLASS) or not update.new_value(*CLASS))


def _is_in_file(update: Update) -> bool:
    """Return whether an object was read from a file without its status."""
    return "status" not in update.old


CONDITIONS: dict[str, Callable[[Update], bool]] = {
    "changes clusterIP": lambda update: _new_cluster_ip(update, known=True),
    "may change clusterIP": lambda update: _new_cluster_ip(update, known=False),
    "has a class": _has_class,
    "may have a class": lambda update: not _has_class(update) and _is_in_file(update),
    "is marked immutable": lambda update: update.old_value("immutable") is True,
    "is not indexed": lambda update: not _is_indexed(update),
    "is scaled unevenly": _is_scaled_unevenly,
    "is suspended": _is_placement_mutable,
    "may have started": lambda update: _is_placement_mutable(update) and _is_in_file(update),
    "is unbound": _is_unbound,
    "may grow": lambda update: not _shrinks(update) and not _is_unbound(update),
    "shrinks": _shrinks,
    "keeps rollingUpdate": _keeps_rolling_update,
    "publishes a headless Service": _publishes_headless,
}
"""The conditions of rules, by their text in the table."""


class Always(dict[str, Any]):
    """The tree of a structure that the API server creates even if a manifest omits it."""


@cache
def defaults(group: str, kind: str) -> Mapping[str, Any]:
    """Return the tree of a kind's defaults; {} if there are none.

    Some defaults are functions: of the mapping that contains the field.
    """
    tree: Mapping[str, Any] = _tree(
        table("kubernetes/defaults")["kinds"].get(f"{group}/{kind}".lstrip("/"), {})
    )
    return tree


def _tree(value: Any) -> Any:
    """Return a default or a tree of defaults, with `$` references resolved."""
    if isinstance(value, str) and value.startswith("$"):
        name = value.removeprefix("$")
        return FUNCTIONS.get(name) or _tree(table("kubernetes/defaults")["parts"][name])
    if isinstance(value, list):
        return [_tree(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _tree(field) for name, field in value.items() if not name.startswith("$")}
    if "$like" in value:
        fields = _tree(value["$like"]) | fields
    return Always(fields) if "$always" in value else fields


def pull_policy(container: Mapping[str, Any]) -> str:
    """Return Always for the tag `latest`, explicit or implied, else IfNotPresent."""
    name, _, digest = str(container.get("image", "")).partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def completions(spec: Mapping[str, Any]) -> int | None:
    """Return 1, or None for a Job with parallelism: a work queue."""
    return None if "parallelism" in spec else 1


def backoff_limit(spec: Mapping[str, Any]) -> int:
    """Return 6, or the largest int32 for a Job with a limit per index."""
    return 6 if spec.get("backoffLimitPerIndex") is None else (1 << 31) - 1


def pod_replacement_policy(spec: Mapping[str, Any]) -> str:
    """Return Failed for a Job with a pod failure policy, else TerminatingOrFailed."""
    return "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"


def target_port(port: Mapping[str, Any]) -> Any:
    """Return the port of the Service itself."""
    return port.get("port")


def subject_group(subject: Mapping[str, Any]) -> str:
    """Return the API group of a binding's subject: the RBAC group for a User or Group."""
    return "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"


FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "backoff_limit": backoff_limit,
    "completions": completions,
    "pod_replacement_policy": pod_replacement_policy,
    "pull_policy": pull_policy,
    "subject_group": subject_group,
    "target_port": target_port,
}
"""The defaults that depend on other fields of the same mapping."""
