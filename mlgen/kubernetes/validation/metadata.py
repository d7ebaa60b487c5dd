"""Rules for `metadata`, labels, annotations and label selectors.

Sources, as of Kubernetes 1.34.4: k8s.io/apimachinery, pkg/api/validation/objectmeta.go and
pkg/apis/meta/v1/validation/validation.go.
"""

from collections.abc import Iterator

from mlgen.kubernetes.limits import APPLY_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, text, values
from mlgen.kubernetes.validation.syntax import (
    conflict,
    is_qualified,
    label,
    label_value,
    missing,
    one_of,
    qualified,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


def metadata(at: ValuePath, meta: Object) -> Iterator[Violation]:
    """The rules of ValidateObjectMetaAccessor, without the name, whose rule depends on the kind."""
    if not text(meta, "name") and not text(meta, "generateName"):
        yield missing(at, "name")
    if text(meta, "namespace"):
        yield from label((*at, "namespace"), text(meta, "namespace"), "namespace")
    yield from labels((*at, "labels"), mapping(meta, "labels"))
    yield from annotations((*at, "annotations"), mapping(meta, "annotations"))
    yield from _owners(at, meta)
    yield from _finalizers(at, meta)


def labels(at: ValuePath, pairs: Object) -> Iterator[Violation]:
    """The rules of ValidateLabels."""
    for key, value in pairs.items():
        yield from qualified((*at, key), key, "label key")
        yield from label_value((*at, key), value)


def annotations(at: ValuePath, pairs: Object) -> Iterator[Violation]:
    """The rules of ValidateAnnotations: keys, and the size of all of them together."""
    size = 0
    for key, value in pairs.items():
        if not is_qualified(key.lower()):
            yield from qualified((*at, key), key, "annotation key")
        size += len(key.encode()) + len(str(value).encode())
    if size > APPLY_MAX:
        message = f"the annotations have {size} bytes, the limit is {APPLY_MAX}"
        yield Violation(at, message, "put the data into a ConfigMap", "too-large")


def _owners(at: ValuePath, meta: Object) -> Iterator[Violation]:
    """The rules of ValidateOwnerReferences."""
    controllers = 0
    for index, owner in items(meta, "ownerReferences"):
        path = (*at, "ownerReferences", index)
        for field in ("apiVersion", "kind", "name", "uid"):
            if not text(owner, field):
                yield missing(path, field)
        controllers += owner.get("controller") is True
    if controllers > 1:
        message = "an object has only one owner with controller: true"
        yield conflict((*at, "ownerReferences"), message, "keep one of them")


def _finalizers(at: ValuePath, meta: Object) -> Iterator[Violation]:
    """The rules of ValidateFinalizers."""
    names = [name for name in values(meta, "finalizers") if isinstance(name, str)]
    for index, name in enumerate(names):
        yield from qualified((*at, "finalizers", index), name, "finalizer")
    if {ORPHAN, FOREGROUND} <= set(names):
        message = f"{ORPHAN} and {FOREGROUND} are mutually exclusive"
        yield conflict((*at, "finalizers"), message, "keep one of the two")


def selector(at: ValuePath, value: Object) -> Iterator[Violation]:
    """The rules of ValidateLabelSelector."""
    yield from labels((*at, "matchLabels"), mapping(value, "matchLabels"))
    for index, rule in items(value, "matchExpressions"):
        path = (*at, "matchExpressions", index)
        yield from expression(path, rule, SELECTOR_OPERATORS)
        for number_, item in enumerate(values(rule, "values")):
            yield from label_value((*path, "values", number_), item)


def expression(path: ValuePath, rule: Object, operators: tuple[str, ...]) -> Iterator[Violation]:
    """Check key, operator and the number of values: ValidateLabelSelectorRequirement."""
    operator, count = text(rule, "operator"), len(values(rule, "values"))
    if not operator:
        yield missing(path, "operator")
    yield from one_of((*path, "operator"), operator, operators)
    if operator in ("In", "NotIn") and not count:
        yield missing(path, "values", f"add the values; operator {operator} needs at least one")
    if operator in ("Exists", "DoesNotExist") and count:
        message = f"operator {operator} has no values"
        yield conflict((*path, "values"), message, "remove them, or use operator In")
    if operator in ("Gt", "Lt") and count != 1:
        message = f"operator {operator} needs exactly one value, got {count}"
        yield conflict((*path, "values"), message, "write one value")
    yield from qualified((*path, "key"), text(rule, "key"), "label key")


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
