"""Rules for affinity, tolerations and the spread of pods.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (validateAffinity,
ValidateTolerations, validateTopologySpreadConstraints).
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, number, text, values
from mlgen.kubernetes.validation.metadata import expression, selector
from mlgen.kubernetes.validation.syntax import (
    at_least,
    between,
    conflict,
    invalid,
    is_subdomain,
    label,
    label_value,
    missing,
    one_of,
    qualified,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("Equal", "Exists")
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
NODE_POLICIES = ("Honor", "Ignore")
WEIGHT_MAX = 100


def affinity(at: ValuePath, value: Object) -> Iterator[Violation]:
    """Return the violations of a pod's `affinity`."""
    yield from _node_affinity((*at, "nodeAffinity"), mapping(value, "nodeAffinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = mapping(value, kind)
        for index, term in items(terms, REQUIRED):
            yield from _pod_term((*at, kind, REQUIRED, index), term)
        for index, weighted in items(terms, PREFERRED):
            path = (*at, kind, PREFERRED, index)
            yield from _weight(path, weighted)
            yield from _pod_term((*path, "podAffinityTerm"), mapping(weighted, "podAffinityTerm"))


def _weight(at: ValuePath, value: Object) -> Iterator[Violation]:
    yield from between((*at, "weight"), number(value, "weight") or 0, 1, WEIGHT_MAX)


def _node_affinity(at: ValuePath, value: Object) -> Iterator[Violation]:
    """The rules of validateNodeAffinity, which does not check the values of preferred terms."""
    if isinstance(value.get(REQUIRED), dict):
        path, terms = (*at, REQUIRED), value[REQUIRED]
        if not values(terms, "nodeSelectorTerms"):
            yield missing(path, "nodeSelectorTerms", "add at least one term")
        for index, term in items(terms, "nodeSelectorTerms"):
            yield from _node_term((*path, "nodeSelectorTerms", index), term, strict=True)
    for index, weighted in items(value, PREFERRED):
        path = (*at, PREFERRED, index)
        yield from _weight(path, weighted)
        preference = mapping(weighted, "preference")
        yield from _node_term((*path, "preference"), preference, strict=False)


def _node_term(at: ValuePath, term: Object, *, strict: bool) -> Iterator[Violation]:
    """The rules of ValidateNodeSelectorTerm."""
    for index, rule in items(term, "matchExpressions"):
        path = (*at, "matchExpressions", index)
        yield from expression(path, rule, NODE_OPERATORS)
        for position, value in enumerate(values(rule, "values") if strict else ()):
            yield from label_value((*path, "values", position), value)
    for index, rule in items(term, "matchFields"):
        path = (*at, "matchFields", index)
        if not text(rule, "operator"):
            yield missing(path, "operator")
        yield from one_of((*path, "operator"), rule.get("operator"), ("In", "NotIn"))
        names = values(rule, "values")
        if text(rule, "operator") in ("In", "NotIn") and len(names) != 1:
            message = f"a field has exactly one value, got {len(names)}"
            yield conflict((*path, "values"), message, "write one value")
        if text(rule, "key") != "metadata.name":
            yield invalid((*path, "key"), text(rule, "key"), "field", "use metadata.name")
        elif not all(isinstance(name, str) and is_subdomain(name) for name in names):
            yield invalid((*path, "values"), names, "node name", "use the name of a node")


def _pod_term(at: ValuePath, term: Object) -> Iterator[Violation]:
    """The rules of validatePodAffinityTerm."""
    for field in ("labelSelector", "namespaceSelector"):
        yield from selector((*at, field), mapping(term, field))
    for index, namespace in enumerate(values(term, "namespaces")):
        if isinstance(namespace, str):
            yield from label((*at, "namespaces", index), namespace, "namespace")
    yield from _label_keys(at, term)
    key = text(term, "topologyKey")
    if not key:
        yield missing(at, "topologyKey", "for example topologyKey: kubernetes.io/hostname")
    else:
        yield from qualified((*at, "topologyKey"), key, "label key")


def _label_keys(at: ValuePath, term: Object) -> Iterator[Violation]:
    """The rules of ValidateMatchLabelKeysAndMismatchLabelKeys."""
    wanted = [key for key in values(term, "matchLabelKeys") if isinstance(key, str)]
    unwanted = [key for key in values(term, "mismatchLabelKeys") if isinstance(key, str)]
    for field, keys in (("matchLabelKeys", wanted), ("mismatchLabelKeys", unwanted)):
        if keys and not isinstance(term.get("labelSelector"), dict):
            message = f"{field} requires a labelSelector"
            yield conflict((*at, field), message, "add labelSelector")
            continue
        for index, key in enumerate(keys):
            yield from qualified((*at, field, index), key, "label key")
    for key in sorted(set(wanted) & set(unwanted)):
        message = f"{key} is in matchLabelKeys and in mismatchLabelKeys"
        yield conflict((*at, "matchLabelKeys"), message, "keep one of the two")
    rules = mapping(term, "labelSelector")
    seen = set(mapping(rules, "matchLabels"))
    for _, rule in items(rules, "matchExpressions"):
        key = text(rule, "key")
        if key in wanted and key in seen:
            message = f"{key} is in matchLabelKeys and in labelSelector"
            yield conflict((*at, "matchLabelKeys"), message, "keep one of the two")
        seen.add(key)


def tolerations(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """Return the violations of the `tolerations` of a pod whose spec is at a path."""
    for index, item in items(spec, "tolerations"):
        path = (*at, "tolerations", index)
        key, operator = text(item, "key"), text(item, "operator")
        effect, value = text(item, "effect"), text(item, "value")
        if key:
            yield from qualified((*path, "key"), key, "key of a taint")
        elif operator != "Exists":
            message = "a toleration without key requires operator: Exists"
            yield conflict(path, message, "add key, or write operator: Exists")
        yield from one_of((*path, "operator"), operator, TOLERATION_OPERATORS)
        yield from one_of((*path, "effect"), effect, EFFECTS)
        if operator == "Exists" and value:
            message = "operator: Exists has no value"
            yield conflict((*path, "value"), message, "remove value, or write operator: Equal")
        elif operator != "Exists":
            yield from label_value((*path, "value"), value)
        if number(item, "tolerationSeconds") is not None and effect != "NoExecute":
            message = "tolerationSeconds requires effect: NoExecute"
            yield conflict((*path, "tolerationSeconds"), message, "remove it, or change effect")


def spread(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """Return the violations of the `topologySpreadConstraints` of a pod whose spec is at a path."""
    seen: set[tuple[str, str]] = set()
    for index, item in items(spec, "topologySpreadConstraints"):
        path = (*at, "topologySpreadConstraints", index)
        key, action = text(item, "topologyKey"), text(item, "whenUnsatisfiable")
        yield from at_least((*path, "maxSkew"), number(item, "maxSkew") or 0, 1)
        for field, value in (("topologyKey", key), ("whenUnsatisfiable", action)):
            if not value:
                yield missing(path, field)
        yield from one_of((*path, "whenUnsatisfiable"), action, SPREAD_ACTIONS)
        if (key, action) in seen:
            message = f"two constraints have the key {key} and {action}"
            yield conflict(path, message, "remove one of the two")
        seen.add((key, action))
        domains = number(item, "minDomains")
        yield from at_least((*path, "minDomains"), domains, 1)
        if domains is not None and action != "DoNotSchedule":
            message = "minDomains requires whenUnsatisfiable: DoNotSchedule"
            yield conflict((*path, "minDomains"), message, "remove it")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from one_of((*path, field), item.get(field), NODE_POLICIES, empty=False)
        yield from _label_keys(path, item)
        yield from selector((*path, "labelSelector"), mapping(item, "labelSelector"))
