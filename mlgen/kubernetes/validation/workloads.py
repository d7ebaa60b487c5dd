"""The API server's rules for metadata, Jobs and the other objects: rows, and code.

Sources, as of Kubernetes 1.34.4: pkg/apis/batch/validation/validation.go (ValidateJob), the files
of that name in pkg/apis/apps, core and rbac; pkg/apis/meta/v1/validation/validation.go and
pkg/api/validation/objectmeta.go in k8s.io/apimachinery; defaults: pkg/apis/batch/v1/defaults.go.
"""

import re
from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.limits import APPLY_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.validation.pods import container_names
from mlgen.kubernetes.validation.resources import amount_of, quantity
from mlgen.kubernetes.validation.rows import (
    EMPTY,
    Row,
    Spot,
    items,
    mapping,
    missing,
    needs,
    number,
    required,
    text,
    values,
)
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    data_key,
    either,
    few,
    forbidden,
    invalid,
    ip_address,
    is_qualified,
    label,
    one_of,
    port,
    port_or_name,
    qualified,
    subdomain,
    unique,
    valid,
)
from mlgen.kubernetes.validation.table import PROTOCOLS, each
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem, ValuePath

VALID_SERVICE_NAMES = KubeVersion(1, 34)
"""Since then, the API server checks the `serviceName` of a StatefulSet."""

SAME_TRAFFIC = KubeVersion(1, 34)
"""Since then, traffic can prefer the same zone or node (PreferSameTrafficDistribution)."""

GROUP = "rbac.authorization.k8s.io"
RULES_MAX, CODES_MAX = 20, 255
EXTERNAL = ("NodePort", "LoadBalancer")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


def metadata(at: ValuePath, meta: Object) -> Iterator[Problem]:
    """The rules of ValidateObjectMetaAccessor, without the name, whose rule depends on the kind."""
    if not text(meta, "name") and not text(meta, "generateName"):
        yield missing(at, "name")
    if text(meta, "namespace"):
        yield from label("namespace")((*at, "namespace"), text(meta, "namespace"))
    owners = [owner for _, owner in items(meta, "ownerReferences")]
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not text(owner, field):
                yield missing((*at, "ownerReferences", index), field)
    if sum(owner.get("controller") is True for owner in owners) > 1:
        message = "an object has only one owner with controller: true"
        yield conflict((*at, "ownerReferences"), message, "keep one of them")
    names = [name for name in values(meta, "finalizers") if isinstance(name, str)]
    for index, name in enumerate(names):
        yield from qualified("finalizer")((*at, "finalizers", index), name)
    if {ORPHAN, FOREGROUND} <= set(names):
        message = f"{ORPHAN} and {FOREGROUND} are mutually exclusive"
        yield conflict((*at, "finalizers"), message, "keep one of the two")


def _annotations(at: ValuePath, pairs: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateAnnotations: keys, and the size of all of them together."""
    size = 0
    for key, value in pairs.items():
        if not is_qualified(key.lower()):
            yield from qualified("annotation key")((*at, key), key)
        size += len(key.encode()) + len(str(value).encode())
    if size > APPLY_MAX:
        message = f"the annotations have {size} bytes, the limit is {APPLY_MAX}"
        yield Problem(at, message, "too-large", "put the data into a ConfigMap")


def matches(rules: Object, found: Object) -> bool:
    """Return whether labels match a selector."""
    if any(found.get(key) != value for key, value in mapping(rules, "matchLabels").items()):
        return False
    for _, rule in items(rules, "matchExpressions"):
        key, operator = text(rule, "key"), text(rule, "operator")
        chosen = values(rule, "values")
        positive = operator in ("In", "Exists")
        holds = key in found and (operator in ("Exists", "DoesNotExist") or found[key] in chosen)
        if holds is not positive:
            return False
    return True


INDEXES_MAX = 100_000
"""The maximum parallelism and maxFailedIndexes of an Indexed Job."""

MANY_COMPLETIONS, PARALLEL_OF_MANY = 100_000, 10_000
"""With backoffLimitPerIndex and more completions, the maximum parallelism and failed indexes."""

GENERATED_LABELS = (
    *("controller-uid", "batch.kubernetes.io/controller-uid"),
    *("job-name", "batch.kubernetes.io/job-name"),
)

_INTEGER = r"[+-]?[0-9]{1,10}\Z"


def _restart_policy(path: ValuePath, job: Object, _: Spot) -> Iterator[Problem]:
    """Check the restartPolicy of the pods."""
    pod = mapping(job, "spec", "template", "spec")
    if (text(pod, "restartPolicy") or "Always") == "Always":
        message = "the pods of a Job have restartPolicy: Never or OnFailure, got Always"
        place = (*path, "spec", "template", "spec", "restartPolicy")
        yield conflict(place, message, "write restartPolicy: Never or OnFailure")


def _completions(spec: Object) -> int | None:
    """Return the number of completions, with its default; None if it is missing."""
    found = number(spec, "completions")
    return 1 if found is None and number(spec, "parallelism") is None else found


def _indexed(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """Check the numbers that only an Indexed Job has."""
    completions, failed = _completions(spec), number(spec, "maxFailedIndexes")
    if completions is None:
        yield missing(path, "completions", "write the number of pods")
    most = {
        "parallelism": INDEXES_MAX,
        "maxFailedIndexes": min(INDEXES_MAX if completions is None else completions, INDEXES_MAX),
    }
    many = (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec
    if many and failed is None:
        yield missing(path, "maxFailedIndexes")
    for field, limit in most.items():
        value = max(number(spec, field) or 0, 0)  # a negative one is reported elsewhere
        yield from between(0, limit)((*path, field), value)
        if many:
            yield from between(0, PARALLEL_OF_MANY)((*path, field), value)


def _success_rule(path: ValuePath, rule: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validateSuccessPolicyRule."""
    most = completions = _completions(spot.around("JobSpec")) or 0
    indexes = rule.get("succeededIndexes")
    if isinstance(indexes, str):
        total = _indexes(indexes, completions)
        if total is None:
            hint = f"write increasing indexes below {completions}, as in 0,2-4"
            yield invalid((*path, "succeededIndexes"), indexes, "list of indexes", hint)
        most = min(total or 0, completions)
    yield from between(0, most)((*path, "succeededCount"), number(rule, "succeededCount"))


def _indexes(listed: str, completions: int) -> int | None:
    """Return the number of indexes in a list; None if it is invalid: validateIndexesFormat."""
    total, last = 0, None
    for interval in listed.split(",") if listed else ():
        limits = interval.split("-")
        if len(limits) > 2 or not all(re.match(_INTEGER, n) for n in limits):  # noqa: PLR2004
            return None
        first, end = int(limits[0]), int(limits[-1])
        if end >= completions or (len(limits) > 1 and first >= end):
            return None
        if last is not None and last >= first:
            return None
        total, last = total + end - first + 1, end
    return total


def _exit_codes(at: ValuePath, rule: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validatePodFailurePolicyRuleOnExitCodes, for the container and the order."""
    name = rule.get("containerName")
    names = container_names(mapping(spot.around("JobSpec"), "template", "spec"))
    if isinstance(name, str) and name not in names:
        message = f'the pod has no container "{name}"'
        yield Problem((*at, "containerName"), message, "reference", "use one of its names")
    whole = [code for code in values(rule, "values", 0) if isinstance(code, int)]
    if whole != sorted(set(whole)):
        message = "exit codes must increase"
        yield conflict((*at, "values"), message, "sort them, without duplicates")


def _job_selector(at: ValuePath, item: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateJobSpec, validateGeneratedSelector: the API server writes it."""
    spec, path = mapping(item, "spec"), (*at, "spec", "selector")
    found, rules = mapping(spec, "template", "metadata", "labels"), mapping(spec, "selector")
    wanted = mapping(rules, "matchLabels")
    if spec.get("manualSelector") is True:
        if "selector" not in spec:
            yield missing(path[:-1], "selector")
        elif any(found.get(key) != value for key, value in wanted.items()):
            message = "the selector does not match the labels of the pods"
            yield Problem(path, message, "selector", "remove selector and manualSelector")
        return
    name = text(mapping(item, "metadata"), "name")
    own = {k: v for k, v in wanted.items() if k != "batch.kubernetes.io/controller-uid"}
    made = {key: name for key in GENERATED_LABELS if key.endswith("job-name")}
    if not matches({**rules, "matchLabels": own}, made):
        yield conflict(path, "the API server writes the selector of a Job", "remove it")
    for key in GENERATED_LABELS:
        if key in found and found[key] != made.get(key):
            place = (*at, "spec", "template", "metadata", "labels", key)
            yield conflict(place, f"the API server sets the label {key}", "remove it")


def _selected(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """Check that a selector is not empty, and selects the pods of the template."""
    rules = mapping(spec, "selector")
    if (
        spec.get("selector") is not None
        and not mapping(rules, "matchLabels")
        and not any(items(rules, "matchExpressions"))
    ):
        yield missing(at, "selector")
        return
    found = mapping(spec, "template", "metadata", "labels")
    if not matches(rules, found):  # one that is missing matches all
        wanted = mapping(rules, "matchLabels")
        changed = [key for key in wanted if found.get(key) != wanted[key]]
        hint = f"do not override the labels {', '.join(changed)} in templates" if changed else ""
        path = (*at, "selector", "matchLabels")
        yield Problem(path, "it selects none of its pods", "selector", hint)


def _deadline(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateDeploymentSpec, for its deadline."""
    deadline, ready = number(spec, "progressDeadlineSeconds"), number(spec, "minReadySeconds") or 0
    if (600 if deadline is None else deadline) <= ready:
        message = "progressDeadlineSeconds must be greater than minReadySeconds"
        yield conflict((*path, "progressDeadlineSeconds"), message, "raise it")


def _share(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidatePositiveIntOrPercent, IsNotMoreThan100Percent."""
    if not isinstance(value, str):
        yield from between(0)(path, value)
        return
    share = natural(value.removesuffix("%"))
    if share is None or not value.endswith("%"):
        hint = "write a number, or a percentage such as 25%"
        yield Problem(path, f'"{value}" is not a percentage', "bad-value", hint)
    elif share > 100 and path[-1] == "maxUnavailable":  # noqa: PLR2004
        yield Problem(path, f"expected at most 100%, got {share}%", "bad-value")


def _claim_size(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidatePersistentVolumeClaimSpec, for the size."""
    requests, path = mapping(spec, "resources", "requests"), (*at, "resources", "requests")
    if "storage" not in requests:
        yield missing(path, "storage", "for example storage: 10Gi")
    elif amount_of(requests["storage"]) == 0:
        yield Problem((*path, "storage"), "expected more than 0, got 0", "bad-value")
    else:
        yield from quantity((*path, "storage"), requests["storage"])


def _config_map(at: ValuePath, item: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateConfigMap. Its size has a check of its own."""
    data, binary = mapping(item, "data"), mapping(item, "binaryData")
    for field, pairs in (("data", data), ("binaryData", binary)):
        for key in pairs:
            yield from data_key((*at, field, key), key)
    for key in sorted(set(data) & set(binary)):
        message = f"{key} is in data and in binaryData"
        yield conflict((*at, "data", key), message, "keep one of the two")


TOPOLOGY_MODES = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)


def _service(item_path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateService, for what depends on its type.

    Fields of load balancers are checked only where mlgen renders them.
    """
    kind, policy = text(spec, "type") or "ClusterIP", spec.get("externalTrafficPolicy")
    health = number(spec, "healthCheckNodePort")
    balanced = kind == "LoadBalancer"
    external = kind in EXTERNAL or bool(values(spec, "externalIPs"))
    has = {
        "externalTrafficPolicy": external or not policy,
        "allocateLoadBalancerNodePorts": balanced or "allocateLoadBalancerNodePorts" not in spec,
        "loadBalancerClass": balanced or "loadBalancerClass" not in spec,
        "loadBalancerSourceRanges": balanced or not values(spec, "loadBalancerSourceRanges"),
    }
    for field in (field for field, fits in has.items() if not fits):
        message = f"a Service of type {kind} has no {field}"
        yield conflict((*item_path, field), message, "remove it")
    if health and not (balanced and policy == "Local"):
        message = "healthCheckNodePort requires type: LoadBalancer, externalTrafficPolicy: Local"
        yield conflict((*item_path, "healthCheckNodePort"), message, "remove it")


def _ports(at: ValuePath, ports: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateServicePort, for several ports, and the type of the Service."""
    kind, used = text(spot.value, "type") or "ClusterIP", set[tuple[str, int]]()
    for index, item in items(spot.value, "ports"):
        path, value = (*at, index), number(item, "port") or 0
        protocol = text(item, "protocol") or "TCP"
        if len(ports) > 1 and not text(item, "name"):
            yield missing(path, "name", "name each of several ports")
        if (protocol, value) in used:
            yield conflict((*path, "port"), f"duplicate port {value}", "remove one of the two")
        used.add((protocol, value))
        if number(item, "nodePort") and kind not in EXTERNAL:
            message = f"a Service of type {kind} has no nodePort"
            yield conflict((*path, "nodePort"), message, "remove it, or write type: NodePort")


def _addresses(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateServiceClusterIPsRelatedFields."""
    addresses, families = values(spec, "clusterIPs"), values(spec, "ipFamilies")
    if addresses and addresses[0] != text(spec, "clusterIP"):
        message = "the first of clusterIPs must equal clusterIP"
        yield conflict((*at, "clusterIPs"), message, "remove clusterIPs")
    for index, ip in enumerate(addresses[1:], start=1):
        yield from ip_address((*at, "clusterIPs", index), str(ip))
    for index, family in enumerate(families):
        if family in families[:index]:
            message = f"duplicate family {family}"
            yield conflict((*at, "ipFamilies", index), message, "remove one of the two")


def _topology_modes(at: ValuePath, pairs: Object, _: Spot) -> Iterator[Problem]:
    if len({pairs[key] for key in TOPOLOGY_MODES if key in pairs}) > 1:
        message = f"{TOPOLOGY_MODES[0]} and {TOPOLOGY_MODES[1]} differ"
        yield conflict((*at, TOPOLOGY_MODES[0]), message, "remove the second")


def _external_name(at: ValuePath, name: Any, _: Spot) -> Iterator[Problem]:
    if name.removesuffix("."):
        yield from subdomain("host name")(at, name.removesuffix("."))


def _role_name(at: ValuePath, name: Any, _: Spot) -> Iterator[Problem]:
    if name in (".", "..") or {"/", "%"} & set(name):
        yield from subdomain("name of a Role")(at, name)


JOBS = (
    Row(
        each(
            "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished"
            " backoffLimitPerIndex maxFailedIndexes",
            "JobSpec",
        ),
        between(0),
    ),
    Row("JobSpec.completionMode", one_of("NonIndexed", "Indexed"), empty=True),
    Row(
        each("backoffLimitPerIndex maxFailedIndexes successPolicy", "JobSpec"),
        forbidden("{field} requires completionMode: Indexed"),
        unless={"completionMode": ["Indexed"]},
    ),
    Row(
        "JobSpec.maxFailedIndexes",
        forbidden("maxFailedIndexes requires backoffLimitPerIndex", "add backoffLimitPerIndex"),
        when={"backoffLimitPerIndex": [None]},
    ),
    Row(
        "JobSpec.podReplacementPolicy",
        one_of("Failed", "TerminatingOrFailed"),
        when={"podFailurePolicy": [None]},
        empty=True,
    ),
    Row(
        "JobSpec.podReplacementPolicy",
        one_of("Failed"),
        unless={"podFailurePolicy": [None]},
        empty=True,
    ),
    Row(
        "JobSpec.template.spec.restartPolicy",
        forbidden("podFailurePolicy requires restartPolicy: Never", "write restartPolicy: Never"),
        when={".": ["OnFailure"]},
        unless={"JobSpec.podFailurePolicy": [None]},
    ),
    required("SuccessPolicy.rules", "add at least one rule"),
    Row("SuccessPolicy.rules PodFailurePolicy.rules", few(RULES_MAX)),
    Row(
        "SuccessPolicyRule",
        needs("succeededCount", "add succeededCount or succeededIndexes"),
        when={"succeededCount": [None], "succeededIndexes": [None]},
    ),
    required("PodFailurePolicyRule.action", "add one of: Count, FailIndex, FailJob, Ignore"),
    Row("PodFailurePolicyRule.action", one_of("Count", "FailIndex", "FailJob", "Ignore")),
    Row(
        "PodFailurePolicyRule.action",
        forbidden(
            "FailIndex requires backoffLimitPerIndex", "add backoffLimitPerIndex, or use FailJob"
        ),
        when={".": ["FailIndex"], "JobSpec.backoffLimitPerIndex": [None]},
    ),
    Row("PodFailurePolicyRule", either("onExitCodes", "onPodConditions")),
    Row("PodFailurePolicyRule.onPodConditions", few(RULES_MAX)),
    Row(
        "PodFailurePolicyOnPodConditionsPattern.type",
        qualified("type of a condition"),
        empty=True,
    ),
    Row("PodFailurePolicyOnPodConditionsPattern.status", one_of("True", "False", "Unknown")),
    required("PodFailurePolicyOnExitCodesRequirement.operator", "add operator: In or NotIn"),
    required("PodFailurePolicyOnExitCodesRequirement.values", "add at least one exit code"),
    Row("PodFailurePolicyOnExitCodesRequirement.operator", one_of("In", "NotIn")),
    Row("PodFailurePolicyOnExitCodesRequirement.values", few(CODES_MAX)),
    Row(
        "PodFailurePolicyOnExitCodesRequirement.values",
        forbidden("exit code 0 is no failure", "remove 0"),
        when={"operator": ["In"], "values[]": [0, ""]},  # null is 0
    ),
)


WORKLOADS = (
    Row(each("replicas minReadySeconds", "StatefulSetSpec"), between(0)),
    Row("StatefulSetSpec.podManagementPolicy", one_of("OrderedReady", "Parallel")),
    Row("StatefulSetOrdinals.start RollingUpdateStatefulSetStrategy.partition", between(0)),
    Row("StatefulSetUpdateStrategy.type", one_of("RollingUpdate", "OnDelete")),
    Row(
        "StatefulSetUpdateStrategy.rollingUpdate",
        forbidden("type: OnDelete has no rollingUpdate"),
        when={"type": ["OnDelete"]},
    ),
    Row(
        each("whenDeleted whenScaled", "StatefulSetPersistentVolumeClaimRetentionPolicy"),
        one_of("Retain", "Delete"),
    ),
    Row("StatefulSetSpec.serviceName", label("name of a Service"), since=VALID_SERVICE_NAMES),
    Row(
        each(
            "replicas minReadySeconds revisionHistoryLimit progressDeadlineSeconds",
            "DeploymentSpec",
        ),
        between(0),
    ),
    Row("DeploymentStrategy.type", one_of("Recreate", "RollingUpdate")),
    Row(
        "DeploymentStrategy.rollingUpdate",
        forbidden("type: Recreate has no rollingUpdate"),
        when={"type": ["Recreate"]},
    ),
    Row(
        "RollingUpdateDeployment.maxUnavailable",
        forbidden(
            "maxSurge and maxUnavailable are both 0, so nothing could be updated",
            "raise one of them",
        ),
        when={".": [0, "0%"], "maxSurge": [0, "0%"]},
        unless={"DeploymentStrategy.type": ["Recreate"]},
    ),
    *(
        Row(f"{kind}Spec.template.spec.{field}", forbidden(message), when=when)
        for kind in ("Deployment", "StatefulSet")
        for field, message, when in (
            (
                "restartPolicy",
                f"the pods of a {kind} have restartPolicy: Always, got {{value}}",
                {".": ["Never", "OnFailure"]},
            ),
            ("activeDeadlineSeconds", f"the pods of a {kind} have no activeDeadlineSeconds", {}),
        )
    ),
)


CLAIMS = (
    required("PersistentVolumeClaimSpec.accessModes", "for example accessModes: [ReadWriteOnce]"),
    Row(
        "PersistentVolumeClaimSpec.accessModes[]",
        one_of("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        empty=True,
    ),
    Row(
        "PersistentVolumeClaimSpec.accessModes",
        forbidden(
            "ReadWriteOncePod and other access modes are mutually exclusive",
            "keep ReadWriteOncePod, or remove it",
        ),
        when={
            "accessModes[]": ["ReadWriteOncePod"],
        },
        unless={".": [["ReadWriteOncePod"], ["ReadWriteOncePod"] * 2]},
    ),
    Row("PersistentVolumeClaimSpec.storageClassName", subdomain("name of a StorageClass")),
    Row(
        "PersistentVolumeClaimSpec.volumeAttributesClassName",
        subdomain("name of a VolumeAttributesClass"),
    ),
    Row("PersistentVolumeClaimSpec.volumeMode", one_of("Filesystem", "Block"), empty=True),
)


TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")

SERVICES = (
    Row("ServiceSpec.sessionAffinity", one_of("None", "ClientIP")),
    Row("ServiceSpec.type", one_of(*TYPES)),
    Row("ServiceSpec.internalTrafficPolicy", one_of("Cluster", "Local"), empty=True),
    Row(
        "ServiceSpec.ipFamilyPolicy",
        one_of("SingleStack", "PreferDualStack", "RequireDualStack"),
        empty=True,
    ),
    Row(
        "ServiceSpec.ipFamilies[]",
        one_of("IPv4", "IPv6"),
        unless={"type": ["ExternalName"]},
        empty=True,
    ),
    Row("ServiceSpec.externalTrafficPolicy", one_of("Cluster", "Local")),
    Row("ServiceSpec.externalIPs[]", ip_address, empty=True),
    Row(
        "ServiceSpec.trafficDistribution",
        one_of("PreferClose"),
        until=KubeVersion(1, SAME_TRAFFIC.minor - 1),
        empty=True,
    ),
    Row(
        "ServiceSpec.trafficDistribution",
        one_of("PreferClose", "PreferSameZone", "PreferSameNode"),
        since=SAME_TRAFFIC,
        empty=True,
    ),
    Row(
        "ServiceSpec.sessionAffinityConfig.clientIP.timeoutSeconds",
        between(1, 86400),
        when={"ServiceSpec.sessionAffinity": ["ClientIP"]},
    ),
    Row("ServiceSpec.ports", unique("name", "port", "rename one of the two")),
    Row("ServicePort.protocol", one_of(*PROTOCOLS)),
    Row("ServicePort.name", label("name of a port")),
    Row("ServicePort.port", port),
    Row("ServicePort.targetPort", port_or_name, unless={".": [0]}),
    Row("ServicePort.appProtocol", qualified("name of a protocol"), empty=True),
    Row(
        "ServiceSpec",
        needs("ports", "add ports, or write clusterIP: None"),
        when={"ports": EMPTY},
        unless={"clusterIP": ["None"], "type": ["ExternalName"]},
    ),
    Row(
        each("clusterIP clusterIPs ipFamilies ipFamilyPolicy", "ServiceSpec"),
        forbidden("a Service of type ExternalName has no {field}"),
        when={"type": ["ExternalName"]},
        unless={".": EMPTY},
    ),
    Row(
        "ServiceSpec",
        needs("externalName"),
        when={"type": ["ExternalName"], "externalName": [*EMPTY, "."]},
    ),
    Row(
        "ServiceSpec.clusterIP",
        forbidden(
            "a Service of type {type} needs an address in the cluster", "remove clusterIP: None"
        ),
        when={".": ["None"], "type": EXTERNAL},
    ),
    Row("ServiceSpec.clusterIP", ip_address, unless={".": ["None"], "type": ["ExternalName"]}),
)

RIGHTS = (
    required("PolicyRule.verbs"),
    Row(
        "PolicyRule.nonResourceURLs",
        forbidden("a Role has no rules for nonResourceURLs"),
        unless={".": EMPTY},
    ),
    *(
        Row("PolicyRule", needs(field), when={field: EMPTY, "nonResourceURLs": EMPTY})
        for field in ("apiGroups", "resources")
    ),
    Row("RoleRef.kind", one_of("Role", "ClusterRole")),
    # The API server sets the group if it is omitted (SetDefaults_RoleBinding).
    Row("RoleRef.apiGroup", one_of(GROUP)),
    Row("Subject.kind", one_of("ServiceAccount", "User", "Group")),
    Row("Subject.name", subdomain("ServiceAccount"), when={"kind": ["ServiceAccount"]}),
    Row(
        "Subject.apiGroup",
        forbidden("a ServiceAccount has no group"),
        when={"kind": ["ServiceAccount"]},
    ),
    Row("Subject.apiGroup", one_of(GROUP), unless={"kind": ["ServiceAccount"]}),
)


BY_NAME = {"type": ["ExternalName"]}

ROWS = (
    *(*JOBS, *WORKLOADS, *CLAIMS, *SERVICES, *RIGHTS),
    Row("ObjectMeta.annotations", _annotations, of=dict),
    Row("Job", _restart_policy),
    Row("Job", _job_selector),
    Row(
        "JobSpec.managedBy",
        valid(
            lambda name: "/" in name and is_qualified(name),
            "name of a controller",
            "write the name of a controller, as in example.com/controller",
        ),
        empty=True,
    ),
    Row("JobSpec", _indexed, when={"completionMode": ["Indexed"]}),
    Row(
        "SuccessPolicyRule",
        _success_rule,
        when={"JobSpec.completionMode": ["Indexed"]},
    ),
    Row("PodFailurePolicyOnExitCodesRequirement", _exit_codes),
    Row("StatefulSetSpec DeploymentSpec", _selected),
    Row("DeploymentSpec", _deadline),
    Row(
        "RollingUpdateDeployment.maxSurge RollingUpdateDeployment.maxUnavailable",
        _share,
        unless={"DeploymentStrategy.type": ["Recreate"]},
        empty=True,
    ),
    Row("PersistentVolumeClaimSpec", _claim_size),
    Row("ConfigMap", _config_map),
    Row("ServiceSpec", _service),
    Row("ServiceSpec.ports", _ports, of=list),
    Row("ServiceSpec", _addresses, unless=BY_NAME),
    Row("ServiceSpec.externalName", _external_name, of=str, when=BY_NAME),
    Row("Service.metadata.annotations", _topology_modes, of=dict),
    Row("RoleRef.name", _role_name, of=str),
)
