"""Rules for metadata, Jobs and other objects that no row of rules.json can express.

Sources, as of Kubernetes 1.34.4: pkg/apis/batch/validation/validation.go (ValidateJob) and the
files of that name in pkg/apis/apps, core and rbac. In k8s.io/apimachinery,
pkg/apis/meta/v1/validation/validation.go and pkg/api/validation/objectmeta.go. Defaults:
pkg/apis/batch/v1/defaults.go.
"""

import re
from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.objects import APPLY_MAX, Object
from mlgen.kubernetes.validation.pods import amount_of, container_names, quantity
from mlgen.kubernetes.validation.rows import (
    Spot,
    between,
    conflict,
    invalid,
    ip_address,
    is_qualified,
    missing,
    qualified,
    subdomain,
    values,
)
from mlgen.kubernetes.values import items, mapping, number, text
from mlgen.problems import Problem, ValuePath


def controllers(at: ValuePath, owners: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateOwnerReferences, for several owners."""
    if sum(isinstance(owner, dict) and owner.get("controller") is True for owner in owners) > 1:
        message = "only one owner can have controller: true"
        yield conflict(at, message, "keep one of them")


def annotations(at: ValuePath, pairs: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateAnnotations: keys, and the size of all of them together."""
    size = 0
    for key, value in pairs.items():
        if not is_qualified(key.lower()):
            yield from qualified((*at, key), key, "annotation key")
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
"""With backoffLimitPerIndex and more completions than the first, the second limits parallelism and
maxFailedIndexes."""

GENERATED_LABELS = (
    *("controller-uid", "batch.kubernetes.io/controller-uid"),
    *("job-name", "batch.kubernetes.io/job-name"),
)

_INTEGER = r"[+-]?[0-9]{1,10}\Z"


def _completions(spec: Object) -> int | None:
    """Return the number of completions or its default; None for a work queue."""
    found = number(spec, "completions")
    return 1 if found is None and number(spec, "parallelism") is None else found


def indexed(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """Check the numbers of an Indexed Job."""
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
        value = max(number(spec, field) or 0, 0)  # negative values are reported elsewhere
        yield from between((*path, field), value, (0, limit))
        if many:
            yield from between((*path, field), value, (0, PARALLEL_OF_MANY))


def success_rule(path: ValuePath, rule: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validateSuccessPolicyRule."""
    most = completions = _completions(spot.around("JobSpec")) or 0
    indexes = rule.get("succeededIndexes")
    if isinstance(indexes, str):
        total = _indexes(indexes, completions)
        if total is None:
            hint = f"write increasing indexes below {completions}, as in 0,2-4"
            yield invalid((*path, "succeededIndexes"), indexes, "list of indexes", hint)
        most = min(total or 0, completions)
    yield from between((*path, "succeededCount"), number(rule, "succeededCount"), (0, most))


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


def exit_codes(at: ValuePath, rule: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validatePodFailurePolicyRuleOnExitCodes, for the container and the order."""
    name = rule.get("containerName")
    names = container_names(mapping(spot.around("JobSpec"), "template", "spec"))
    if isinstance(name, str) and name not in names:
        message = f'the pod has no container "{name}"'
        yield Problem((*at, "containerName"), message, "reference", "use one of its names")
    whole = [code for code in values(rule, "values", 0) if isinstance(code, int)]
    if whole != sorted(set(whole)):
        message = "exit codes must be in increasing order"
        yield conflict((*at, "values"), message, "sort them, without duplicates")


def job_selector(at: ValuePath, item: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateJobSpec, validateGeneratedSelector: the API server sets the selector."""
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


def selected(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """Check that a selector is not empty and matches the pod template."""
    rules = mapping(spec, "selector")
    if (
        spec.get("selector") is not None
        and not mapping(rules, "matchLabels")
        and not any(items(rules, "matchExpressions"))
    ):
        yield missing(at, "selector")
        return
    found = mapping(spec, "template", "metadata", "labels")
    if not matches(rules, found):  # a missing selector matches all labels
        wanted = mapping(rules, "matchLabels")
        changed = [key for key in wanted if found.get(key) != wanted[key]]
        hint = f"do not override the labels {', '.join(changed)} in templates" if changed else ""
        path = (*at, "selector", "matchLabels")
        message = "the selector does not match the labels of the pod template"
        yield Problem(path, message, "selector", hint)


def deadline(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateDeploymentSpec, for its deadline."""
    deadline, ready = number(spec, "progressDeadlineSeconds"), number(spec, "minReadySeconds") or 0
    if (600 if deadline is None else deadline) <= ready:
        message = "progressDeadlineSeconds must be greater than minReadySeconds"
        yield conflict((*path, "progressDeadlineSeconds"), message, "raise it")


def claim_size(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidatePersistentVolumeClaimSpec, for the size."""
    requests, path = mapping(spec, "resources", "requests"), (*at, "resources", "requests")
    if "storage" not in requests:
        yield missing(path, "storage", "for example storage: 10Gi")
    elif amount_of(requests["storage"]) == 0:
        yield Problem((*path, "storage"), "expected more than 0, got 0", "bad-value")
    else:
        yield from quantity((*path, "storage"), requests["storage"])


def config_map(at: ValuePath, item: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateConfigMap, for keys. `mlgen.checks.sizes` checks its size."""
    data, binary = mapping(item, "data"), mapping(item, "binaryData")
    for key in sorted(set(data) & set(binary)):
        message = f"{key} is in both data and binaryData"
        yield conflict((*at, "data", key), message, "remove one of them")


TOPOLOGY_MODES = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)


def ports(at: ValuePath, ports: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateServicePort, for the names of several ports."""
    for index, item in items(spot.value, "ports"):
        if len(ports) > 1 and not text(item, "name"):
            yield missing((*at, index), "name", "give each port a name")


def addresses(at: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateServiceClusterIPsRelatedFields."""
    addresses = values(spec, "clusterIPs")
    if addresses and addresses[0] != text(spec, "clusterIP"):
        message = "the first of clusterIPs must equal clusterIP"
        yield conflict((*at, "clusterIPs"), message, "remove clusterIPs")
    for index, ip in enumerate(addresses[1:], start=1):
        yield from ip_address((*at, "clusterIPs", index), str(ip))


def topology_modes(at: ValuePath, pairs: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateService, for annotations."""
    if len({pairs[key] for key in TOPOLOGY_MODES if key in pairs}) > 1:
        message = f"{TOPOLOGY_MODES[0]} and {TOPOLOGY_MODES[1]} differ"
        yield conflict((*at, TOPOLOGY_MODES[0]), message, "remove the second annotation")


def external_name(at: ValuePath, name: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateService, for externalName, which may end with a dot."""
    if name.removesuffix("."):
        yield from subdomain(at, name.removesuffix("."), "host name")


def controller(at: ValuePath, name: Any, _: Spot) -> Iterator[Problem]:
    """The rules of managedBy in ValidateJobSpec."""
    if isinstance(name, str) and not ("/" in name and is_qualified(name)):
        hint = "write the name of a controller, as in example.com/controller"
        yield invalid(at, name, "name of a controller", hint)
