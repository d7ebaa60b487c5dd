"""Which changes of an existing object the API server rejects, as data.

The rules were read in https://github.com/kubernetes/kubernetes/tree/v1.34.4 and v1.37.1; each names
its function. Everything else may change: labels and annotations of every object, Roles,
ServiceAccounts, the ports and selector of a Service. There are no rules for custom resources, which
their own definitions validate.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mlgen.kubernetes import updates
from mlgen.kubernetes.changes import FieldPath
from mlgen.kubernetes.updates import Update


@dataclass(frozen=True)
class Rule:
    """One kind of change that the API server rejects.

    Attributes:
        path: a change of this field, or of anything in it, is rejected; `[*]` is any item.
        source: the function in Kubernetes that rejects it.
        exceptions: fields within `path` that may change.
        reason: what messages say after the field, close to the API server's own words.
        unless: the change is accepted if this is true, which manifests alone do not show.
        applies: whether the rule applies to an update.
        hint: what to do instead; "" for deleting the object.
    """

    path: FieldPath
    source: str
    exceptions: tuple[FieldPath, ...] = ()
    reason: str = "is immutable"
    unless: str = ""
    applies: Callable[[Update], bool] = lambda _: True
    hint: str = ""


def _path(text: str) -> FieldPath:
    """Return the path in a text such as `spec.containers[*].image`."""
    return tuple(text.replace("[", ".[").split("."))


def _paths(prefix: str, *texts: str) -> tuple[FieldPath, ...]:
    """Return several paths below the same field."""
    return tuple(_path(f"{prefix}.{text}") for text in texts)


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

PLACEMENT = _paths(
    "spec.template",
    "metadata.labels",
    "metadata.annotations",
    "spec.affinity.nodeAffinity",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.schedulingGates",
)
RESOURCES = _paths("spec.template.spec", "containers[*].resources", "initContainers[*].resources")


def _immutable(source: str, *paths: str) -> tuple[Rule, ...]:
    """Return a rule for each field that never changes."""
    return tuple(Rule(_path(path), source) for path in paths)


def _marked_immutable(function: str, *paths: str) -> tuple[Rule, ...]:
    """Return a rule for each field that is locked by `immutable: true`."""
    reason = "cannot change because the object has immutable: true"
    return tuple(
        Rule((path,), CORE + function, reason=reason, applies=updates.is_marked_immutable)
        for path in paths
    )


def _role_ref(function: str) -> tuple[Rule, ...]:
    """Return the rule for the Role of a binding."""
    return (Rule(("roleRef",), RBAC + function, reason="cannot change"),)


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
        Rule(
            _path("spec.template"),
            TEMPLATE,
            applies=lambda update: not updates.is_placement_mutable(update),
        ),
        Rule(
            _path("spec.template"),
            TEMPLATE,
            exceptions=PLACEMENT,
            applies=updates.is_only_placement_mutable,
        ),
        Rule(
            _path("spec.template"),
            TEMPLATE,
            exceptions=PLACEMENT + RESOURCES,
            applies=updates.are_resources_mutable,
        ),
        Rule(
            _path("spec.template"),
            TEMPLATE,
            unless="the Job has not started",
            applies=updates.may_have_started,
        ),
        Rule(
            _path("spec.completions"),
            BATCH + "validateCompletions",
            applies=lambda update: not updates.is_indexed(update),
        ),
        Rule(
            _path("spec.completions"),
            BATCH + "validateCompletions",
            reason="must change together with spec.parallelism, to the same number",
            applies=updates.is_scaled_unevenly,
            hint="set both to the same number",
        ),
    ),
    ("apps", "StatefulSet"): (
        Rule(
            SPEC,
            STATEFUL_SET,
            exceptions=_paths("spec", *MUTABLE_SPEC["apps", "StatefulSet"]),
        ),
        Rule(
            _path("spec.updateStrategy.type"),
            APPS + "ValidateStatefulSetSpec",
            reason="cannot become OnDelete while the default rollingUpdate is set",
            applies=updates.keeps_rolling_update,
            hint="add rollingUpdate: null",
        ),
    ),
    ("apps", "DaemonSet"): _immutable(APPS + "ValidateDaemonSetSpecUpdate", "spec.selector"),
    ("apps", "Deployment"): _immutable(APPS + "ValidateDeploymentUpdate", "spec.selector"),
    ("apps", "ReplicaSet"): _immutable(APPS + "ValidateReplicaSetUpdate", "spec.selector"),
    ("", "Service"): (
        Rule(
            _path("spec.clusterIP"),
            ADDRESS,
            reason="may not change once set",
            applies=updates.changes_cluster_ip,
        ),
        Rule(
            _path("spec.clusterIP"),
            ADDRESS,
            reason="may not change once set",
            unless="it is the present address of the Service",
            applies=updates.may_change_cluster_ip,
        ),
        Rule(
            _path("spec.type"),
            CORE + "ValidateService",
            reason="cannot be NodePort or LoadBalancer while clusterIP is None",
            applies=updates.publishes_headless,
        ),
    ),
    ("", "ConfigMap"): _marked_immutable(
        "ValidateConfigMapUpdate", "immutable", "data", "binaryData"
    ),
    ("", "Secret"): (
        *_immutable(CORE + "ValidateSecretUpdate", "type"),
        *_marked_immutable("ValidateSecretUpdate", "immutable", "data"),
    ),
    ("", "PersistentVolumeClaim"): (
        Rule(
            SPEC,
            CLAIM,
            exceptions=_paths(
                "spec",
                "resources.requests",
                "storageClassName",
                "volumeAttributesClassName",
                "volumeName",
            ),
        ),
        Rule(_path("spec.storageClassName"), CLAIM, applies=updates.has_class),
        Rule(
            _path("spec.storageClassName"),
            CLAIM,
            unless="the claim has no class, or already has this one by default",
            applies=updates.may_have_class,
        ),
        Rule(_path("spec.volumeName"), CLAIM, unless="the claim is not bound"),
        Rule(
            _path("spec.resources.requests"), CLAIM, reason="cannot shrink", applies=updates.shrinks
        ),
        Rule(
            _path("spec.resources.requests"),
            CLAIM,
            reason="cannot change until the claim is bound",
            applies=updates.is_unbound,
        ),
        Rule(
            _path("spec.resources.requests"),
            CLAIM + "; plugin/pkg/admission/storage/persistentvolume/resize/admission.go",
            unless="the claim is bound and its storage class allows expansion",
            applies=updates.may_grow,
        ),
    ),
    ("", "Pod"): (
        Rule(
            SPEC,
            POD,
            exceptions=_paths(
                "spec",
                "containers[*].image",
                "initContainers[*].image",
                "activeDeadlineSeconds",
                "schedulingGates",
                "tolerations",
            ),
        ),
        Rule(_path("spec.activeDeadlineSeconds"), POD, unless="the deadline becomes shorter"),
        Rule(_path("spec.schedulingGates"), POD, unless="gates are only removed"),
        Rule(_path("spec.tolerations"), POD, unless="tolerations are only added"),
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_ref(
        "ValidateClusterRoleBindingUpdate"
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_ref("ValidateRoleBindingUpdate"),
}
"""The changes that are rejected, by API group and kind."""


def is_within(path: FieldPath, outer: FieldPath) -> bool:
    """Return whether a path is another one or below it; `[*]` in `outer` is any item."""
    return len(path) >= len(outer) and all(
        name == pattern or (pattern == "[*]" and name.startswith("["))
        for name, pattern in zip(path, outer, strict=False)
    )
