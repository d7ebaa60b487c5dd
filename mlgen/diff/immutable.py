"""What the API server refuses when an object that is there is to change: the table, as data.

Read in https://github.com/kubernetes/kubernetes/tree/v1.34.4 and v1.37.1; each rule names the
function. What is not in the table may change: labels and annotations of every object, Roles,
ServiceAccounts, the ports and selector of a Service. Of custom resources, whose rules stand in
their own definitions, nothing is known here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlgen import quantity
from mlgen.diff.compare import Change, Way, at, dotted, group_kind

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An object that is to change.

    Attributes:
        old: as it is; from a cluster with its status, which files do not have.
        known: what of that `kubectl apply` looks at.
        new: as it shall be.
        changes: what differs between the two.
        kube_version: of the cluster, as (major, minor).
    """

    old: Object
    known: Object
    new: Object
    changes: tuple[Change, ...]
    kube_version: tuple[int, int]

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
        cure: what to do, where it is not to delete the object.
    """

    path: Way
    source: str
    but: tuple[Way, ...] = ()
    why: str = "is immutable"
    unless: str = ""
    applies: Callable[[Case], bool] = lambda _: True
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that changes of an object break.

    Attributes:
        field: which one, as people write it.
        why: what is to be said of it.
        unless: what must be true for it to be accepted all the same; "" for nothing.
        cure: what to do, where it is not to delete the object.
    """

    field: str
    why: str
    unless: str = ""
    cure: str = ""


def refusals(case: Case) -> list[Refusal]:
    """Return what the API server will not take of the changes; what is sure comes first."""
    found = [
        refusal
        for rule in RULES.get(group_kind(case.new), ())
        if rule.applies(case)
        for refusal in _broken(rule, case.changes)
    ]
    found.sort(key=lambda refusal: bool(refusal.unless))
    return list(dict.fromkeys(found))


def _broken(rule: Rule, changes: Iterable[Change]) -> Iterator[Refusal]:
    for change in changes:
        for path in _touched(change, rule):
            if not any(_within(path, other) for other in rule.but):
                # Not all of `spec`, where most of it may change.
                shown = path[:2] if rule.path == SPEC else rule.path
                yield Refusal(dotted(shown), rule.why, rule.unless, rule.cure)


def _touched(change: Change, rule: Rule) -> list[Way]:
    """The paths that a change is of; one that brings or takes a whole mapping is of its fields."""
    if _within(change.path, rule.path):
        values = [value for value in (change.old, change.new) if isinstance(value, dict)]
        if rule.but and values and None in (change.old, change.new):
            return list(_leaves(change.path, values[0]))
        return [change.path]
    if _within(rule.path, change.path):  # the rule's field comes or goes with what holds it
        rest = [name.strip("[]") for name in rule.path[len(change.path) :]]
        return [rule.path] if at(change.old, rest) != at(change.new, rest) else []
    return []


def _leaves(path: Way, value: Any) -> Iterator[Way]:
    if not isinstance(value, dict) or not value:
        yield path
        return
    for name, item in value.items():
        yield from _leaves((*path, name), item)


def _within(path: Way, outer: Way) -> bool:
    return len(path) >= len(outer) and all(
        one == other or (other == "[*]" and one.startswith("["))
        for one, other in zip(path, outer, strict=False)
    )


def _way(text: str) -> Way:
    return tuple(text.replace("[", ".[").split("."))


def _ways(prefix: str, *texts: str) -> tuple[Way, ...]:
    return tuple(_way(f"{prefix}.{text}") for text in texts)


def _may_be_placed(case: Case) -> bool:
    return bool(case.was("spec", "suspend")) and not _has_started(case)


def _has_started(case: Case) -> bool:
    """What files do not tell, and what since 1.36 counts only until its pods have gone."""
    if case.kube_version >= MUTABLE_WHILE_SUSPENDED:
        return bool(case.was("status", "active"))
    return case.was("status", "startTime") is not None


def _may_have_started(case: Case) -> bool:
    """A file says that a Job is suspended, not since when."""
    return _may_be_placed(case) and "status" not in case.old


def _may_be_resized(case: Case) -> bool:
    return _may_be_placed(case) and case.kube_version >= MUTABLE_WHILE_SUSPENDED


def _may_be_placed_only(case: Case) -> bool:
    return _may_be_placed(case) and case.kube_version < MUTABLE_WHILE_SUSPENDED


MUTABLE_WHILE_SUSPENDED = (1, 36)
"""From here on these gates are open by default: MutablePodResourcesForSuspendedJobs and
MutableSchedulingDirectivesForSuspendedJobs."""


def _is_indexed(case: Case) -> bool:
    return bool(case.will("spec", "completionMode") == "Indexed")


def _out_of_step(case: Case) -> bool:
    numbers = [case.will("spec", name) or 1 for name in ("completions", "parallelism")]
    return _is_indexed(case) and numbers[0] != numbers[1]


def _is_locked(case: Case) -> bool:
    return case.was("immutable") is True


def _address(case: Case, *, new: bool) -> Any:
    return at(case.new if new else case.old, ("spec", "clusterIP")) or None


def _has_address(case: Case) -> bool:
    """Both have one; a name outside of the cluster has none, and may become anything."""
    return "ExternalName" not in (case.was("spec", "type"), case.will("spec", "type"))


def _moves(case: Case) -> bool:
    old, new = _address(case, new=False), _address(case, new=True)
    sure = old is not None or new == "None"
    return _has_address(case) and new is not None and sure


def _may_move(case: Case) -> bool:
    new = _address(case, new=True)
    return _has_address(case) and _address(case, new=False) is None and new not in (None, "None")


def _has_no_address_to_publish(case: Case) -> bool:
    """What is not named stays, even None: core/service/storage, patchAllocatedValues."""
    published = case.will("spec", "type") in ("NodePort", "LoadBalancer")
    return published and (_address(case, new=True) or _address(case, new=False)) == "None"


def _keeps_rolling_update(case: Case) -> bool:
    """A default that nobody wrote is not taken away by who does not write it."""
    path = ("spec", "updateStrategy")
    asked, was = at(case.new, path) or {}, at(case.known, path) or {}
    return asked.get("type") == "OnDelete" and "rollingUpdate" not in {*asked, *was}


def _storage(case: Case) -> tuple[Any, Any]:
    path = ("spec", "resources", "requests", "storage")
    return case.was(*path), case.will(*path)


def _shrinks(case: Case) -> bool:
    old, new = _storage(case)
    try:
        return quantity.parse(new) < quantity.parse(old)
    except ValueError:
        return False


def _is_unbound(case: Case) -> bool:
    return case.was("status", "phase") not in (None, "Bound")


def _may_grow(case: Case) -> bool:
    return not _shrinks(case) and not _is_unbound(case)


def _has_class(case: Case) -> bool:
    return bool(case.was("spec", CLASS) or not case.will("spec", CLASS))


def _may_have_class(case: Case) -> bool:
    """A claim that nobody gave one has the cluster's default class, or none, and may get one."""
    return not _has_class(case) and "status" not in case.old


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

SPEC: Way = ("spec",)

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
        Rule(_way("spec.template"), TEMPLATE, applies=lambda case: not _may_be_placed(case)),
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
            applies=lambda case: not _is_indexed(case),
        ),
        Rule(
            _way("spec.completions"),
            BATCH + "validateCompletions",
            why="can only change together with spec.parallelism, to the same number",
            applies=_out_of_step,
            cure="change both numbers alike",
        ),
    ),
    ("apps", "StatefulSet"): (
        Rule(
            SPEC,
            STATEFUL_SET,
            but=_ways(
                "spec",
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ),
        ),
        Rule(
            _way("spec.updateStrategy.type"),
            APPS + "ValidateStatefulSetSpec",
            why="cannot become OnDelete beside the rollingUpdate that is there by default",
            applies=_keeps_rolling_update,
            cure="write rollingUpdate: null beside it",
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
