"""What the API server refuses when an object that is there is to change: the table, as data.

Read in https://github.com/kubernetes/kubernetes/tree/v1.34.4 and v1.37.1; each rule names the
function. What is not in the table may change: labels and annotations of every object, Roles,
ServiceAccounts, the ports and selector of a Service. Of custom resources, whose rules stand in
their own definitions, nothing is known here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlgen.kubernetes import quantity
from mlgen.kubernetes.changes import Change, FieldPath, at
from mlgen.kubernetes.versions import MUTABLE_WHILE_SUSPENDED, KubeVersion

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """An object that is to change.

    Attributes:
        old: as it is; from a cluster with its status, which files do not have.
        known: what of that `kubectl apply` looks at.
        new: as it shall be.
        changes: what differs between the two.
        kube_version: of the cluster.
    """

    old: Object
    known: Object
    new: Object
    changes: tuple[Change, ...]
    kube_version: KubeVersion

    def was(self, *path: str) -> Any:
        """What stood at a path, or None."""
        return at(self.old, path)

    def will(self, *path: str) -> Any:
        """What will stand at a path: what does not change stays as it is."""
        for change in self.changes:
            way = tuple(name.strip("[]") for name in change.path)
            if way == path[: len(way)] and not change.order:
                return at(change.new, path[len(change.path) :])
        return self.was(*path)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that the API server refuses.

    Attributes:
        path: a change of it, or of anything in it, is refused; `[*]` is any item.
        source: the function that says so.
        but: what of it may change all the same.
        why: the reason, in words near the API server's own.
        unless: it is no refusal if this comes true, which the manifests do not tell.
        applies: whether it holds at all in this case.
        hint: what to do, where it is not to delete the object.
    """

    path: FieldPath
    source: str
    but: tuple[FieldPath, ...] = ()
    why: str = "is immutable"
    unless: str = ""
    applies: Callable[[Update], bool] = lambda _: True
    hint: str = ""


def _way(text: str) -> FieldPath:
    return tuple(text.replace("[", ".[").split("."))


def _ways(prefix: str, *texts: str) -> tuple[FieldPath, ...]:
    return tuple(_way(f"{prefix}.{text}") for text in texts)


def _may_be_placed(update: Update) -> bool:
    return bool(update.was("spec", "suspend")) and not _has_started(update)


def _has_started(update: Update) -> bool:
    """What files do not tell, and what since 1.36 counts only until its pods have gone."""
    if update.kube_version >= MUTABLE_WHILE_SUSPENDED:
        return bool(update.was("status", "active"))
    return update.was("status", "startTime") is not None


def _may_have_started(update: Update) -> bool:
    """A file says that a Job is suspended, not since when."""
    return _may_be_placed(update) and "status" not in update.old


def _may_be_resized(update: Update) -> bool:
    return _may_be_placed(update) and update.kube_version >= MUTABLE_WHILE_SUSPENDED


def _may_be_placed_only(update: Update) -> bool:
    return _may_be_placed(update) and update.kube_version < MUTABLE_WHILE_SUSPENDED


def _is_indexed(update: Update) -> bool:
    return bool(update.will("spec", "completionMode") == "Indexed")


def _out_of_step(update: Update) -> bool:
    numbers = [update.will("spec", name) or 1 for name in ("completions", "parallelism")]
    return _is_indexed(update) and numbers[0] != numbers[1]


def _is_locked(update: Update) -> bool:
    return update.was("immutable") is True


def _address(update: Update, *, new: bool) -> Any:
    return at(update.new if new else update.old, ("spec", "clusterIP")) or None


def _has_address(update: Update) -> bool:
    """Both have one; a name outside of the cluster has none, and may become anything."""
    return "ExternalName" not in (update.was("spec", "type"), update.will("spec", "type"))


def _moves(update: Update) -> bool:
    old, new = _address(update, new=False), _address(update, new=True)
    sure = old is not None or new == "None"
    return _has_address(update) and new is not None and sure


def _may_move(update: Update) -> bool:
    new = _address(update, new=True)
    return (
        _has_address(update) and _address(update, new=False) is None and new not in (None, "None")
    )


def _has_no_address_to_publish(update: Update) -> bool:
    """What is not named stays, even None: core/service/storage, patchAllocatedValues."""
    published = update.will("spec", "type") in ("NodePort", "LoadBalancer")
    return published and (_address(update, new=True) or _address(update, new=False)) == "None"


def _keeps_rolling_update(update: Update) -> bool:
    """A default that nobody wrote is not taken away by who does not write it."""
    path = ("spec", "updateStrategy")
    asked, was = at(update.new, path) or {}, at(update.known, path) or {}
    return asked.get("type") == "OnDelete" and "rollingUpdate" not in {*asked, *was}


def _storage(update: Update) -> tuple[Any, Any]:
    path = ("spec", "resources", "requests", "storage")
    return update.was(*path), update.will(*path)


def _shrinks(update: Update) -> bool:
    old, new = _storage(update)
    try:
        return quantity.parse(new) < quantity.parse(old)
    except ValueError:
        return False


def _is_unbound(update: Update) -> bool:
    return update.was("status", "phase") not in (None, "Bound")


def _may_grow(update: Update) -> bool:
    return not _shrinks(update) and not _is_unbound(update)


def _has_class(update: Update) -> bool:
    return bool(update.was("spec", CLASS) or not update.will("spec", CLASS))


def _may_have_class(update: Update) -> bool:
    """A claim that nobody gave one has the cluster's default class, or none, and may get one."""
    return not _has_class(update) and "status" not in update.old


CLASS = "storageClassName"

BATCH = "pkg/apis/batch/validation/validation.go, "
APPS = "pkg/apis/apps/validation/validation.go, "
CORE = "pkg/apis/core/validation/validation.go, "
RBAC = "pkg/apis/rbac/validation/validation.go, "

JOB = BATCH + "ValidateJobSpecUpdate"
TEMPLATE = BATCH + "validatePodTemplateUpdate; pkg/registry/batch/job/strategy.go"
STATEFUL_SET = APPS + "ValidateStatefulSetUpdate"
CLAIM = CORE + "ValidatePersistentVolumeClaimUpdate"
POD = CORE + "ValidatePodUpdate"
ADDRESS = CORE + "validateUpgradeDowngradeClusterIPs"

SPEC: FieldPath = ("spec",)

PLACEMENT = _ways(
    "spec.template",
    "metadata.labels",
    "metadata.annotations",
    "spec.affinity.nodeAffinity",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.schedulingGates",
)
RESOURCES = _ways("spec.template.spec", "containers[*].resources", "initContainers[*].resources")


def _immutable(source: str, *paths: str) -> tuple[Rule, ...]:
    return tuple(Rule(_way(path), source) for path in paths)


def _locked(function: str, *paths: str) -> tuple[Rule, ...]:
    why = "cannot change, as the object says immutable: true"
    return tuple(Rule((path,), CORE + function, why=why, applies=_is_locked) for path in paths)


def _role_ref(function: str) -> tuple[Rule, ...]:
    return (Rule(("roleRef",), RBAC + function, why="cannot change"),)


MUTABLE_SPEC: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "Job"): (
        "activeDeadlineSeconds",
        "backoffLimit",
        "completions",
        "maxFailedIndexes",
        "parallelism",
        "podReplacementPolicy",
        "suspend",
        "ttlSecondsAfterFinished",
    ),
    ("apps", "StatefulSet"): (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ),
}
"""The fields of `spec` that may change, by API group and kind; all others are immutable."""

RULES: dict[tuple[str, str], tuple[Rule, ...]] = {
    ("batch", "Job"): (
        *_immutable(
            JOB,
            "spec.selector",
            "spec.completionMode",
            "spec.podFailurePolicy",
            "spec.backoffLimitPerIndex",
            "spec.managedBy",
            "spec.successPolicy",
        ),
        Rule(_way("spec.template"), TEMPLATE, applies=lambda update: not _may_be_placed(update)),
        Rule(_way("spec.template"), TEMPLATE, but=PLACEMENT, applies=_may_be_placed_only),
        Rule(_way("spec.template"), TEMPLATE, but=PLACEMENT + RESOURCES, applies=_may_be_resized),
        Rule(
            _way("spec.template"),
            TEMPLATE,
            unless="the Job has not started yet",
            applies=_may_have_started,
        ),
        Rule(
            _way("spec.completions"),
            BATCH + "validateCompletions",
            applies=lambda update: not _is_indexed(update),
        ),
        Rule(
            _way("spec.completions"),
            BATCH + "validateCompletions",
            why="can only change together with spec.parallelism, to the same number",
            applies=_out_of_step,
            hint="change both numbers alike",
        ),
    ),
    ("apps", "StatefulSet"): (
        Rule(
            SPEC,
            STATEFUL_SET,
            but=_ways("spec", *MUTABLE_SPEC["apps", "StatefulSet"]),
        ),
        Rule(
            _way("spec.updateStrategy.type"),
            APPS + "ValidateStatefulSetSpec",
            why="cannot become OnDelete beside the rollingUpdate that is there by default",
            applies=_keeps_rolling_update,
            hint="write rollingUpdate: null beside it",
        ),
    ),
    ("apps", "DaemonSet"): _immutable(APPS + "ValidateDaemonSetSpecUpdate", "spec.selector"),
    ("apps", "Deployment"): _immutable(APPS + "ValidateDeploymentUpdate", "spec.selector"),
    ("apps", "ReplicaSet"): _immutable(APPS + "ValidateReplicaSetUpdate", "spec.selector"),
    ("", "Service"): (
        Rule(_way("spec.clusterIP"), ADDRESS, why="may not change once set", applies=_moves),
        Rule(
            _way("spec.clusterIP"),
            ADDRESS,
            why="may not change once set",
            unless="it is the address that the Service has",
            applies=_may_move,
        ),
        Rule(
            _way("spec.type"),
            CORE + "ValidateService",
            why="cannot be that of a Service whose clusterIP is None",
            applies=_has_no_address_to_publish,
        ),
    ),
    ("", "ConfigMap"): _locked("ValidateConfigMapUpdate", "immutable", "data", "binaryData"),
    ("", "Secret"): (
        *_immutable(CORE + "ValidateSecretUpdate", "type"),
        *_locked("ValidateSecretUpdate", "immutable", "data"),
    ),
    ("", "PersistentVolumeClaim"): (
        Rule(
            SPEC,
            CLAIM,
            but=_ways(
                "spec",
                "resources.requests",
                "storageClassName",
                "volumeAttributesClassName",
                "volumeName",
            ),
        ),
        Rule(_way("spec.storageClassName"), CLAIM, applies=_has_class),
        Rule(
            _way("spec.storageClassName"),
            CLAIM,
            unless="the claim has that class by default, or none",
            applies=_may_have_class,
        ),
        Rule(_way("spec.volumeName"), CLAIM, unless="the claim is not bound yet"),
        Rule(_way("spec.resources.requests"), CLAIM, why="cannot become smaller", applies=_shrinks),
        Rule(
            _way("spec.resources.requests"),
            CLAIM,
            why="cannot change before the claim is bound",
            applies=_is_unbound,
        ),
        Rule(
            _way("spec.resources.requests"),
            CLAIM + "; plugin/pkg/admission/storage/persistentvolume/resize/admission.go",
            unless="the claim is bound, and its storage class allows it to grow",
            applies=_may_grow,
        ),
    ),
    ("", "Pod"): (
        Rule(
            SPEC,
            POD,
            but=_ways(
                "spec",
                "containers[*].image",
                "initContainers[*].image",
                "activeDeadlineSeconds",
                "schedulingGates",
                "tolerations",
            ),
        ),
        Rule(_way("spec.activeDeadlineSeconds"), POD, unless="it only becomes shorter"),
        Rule(_way("spec.schedulingGates"), POD, unless="gates are only taken away"),
        Rule(_way("spec.tolerations"), POD, unless="tolerations are only added"),
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_ref(
        "ValidateClusterRoleBindingUpdate"
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_ref("ValidateRoleBindingUpdate"),
}
"""What is refused of each kind, by API group and kind."""


def is_within(path: FieldPath, outer: FieldPath) -> bool:
    """Return whether a field is another one, or a part of it; `[*]` is any item."""
    return len(path) >= len(outer) and all(
        one == other or (other == "[*]" and one.startswith("["))
        for one, other in zip(path, outer, strict=False)
    )
