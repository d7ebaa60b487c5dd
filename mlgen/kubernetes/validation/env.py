"""Rules for `env` and `envFrom` of a container.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidateEnv, ValidateEnvFrom,
validateContainerResourceFieldSelector).
"""

import re
from collections.abc import Callable, Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import total
from mlgen.kubernetes.validation._read import items, mapping, text
from mlgen.kubernetes.validation.fields import field_reference
from mlgen.kubernetes.validation.resources import HUGE_PAGES, amount_of, quantity
from mlgen.kubernetes.validation.syntax import (
    conflict,
    data_key,
    exactly_one,
    invalid,
    missing,
    one_of,
    subdomain,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

RELAXED_ENV_NAMES = KubeVersion(1, 32)
"""Since then, the name of a variable is any printable ASCII text without = (feature gate
RelaxedEnvironmentVariableValidation)."""

FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
    "status.podIPs",
)
RESOURCES = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
NO_SOURCE = "the source of the value is missing"
CPU_DIVISORS = ("1m", "1")
DIVISORS = (
    *("1", "1k", "1M", "1G", "1T", "1P", "1E"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
)

_RELAXED = re.compile(r"[ -<>-~]+\Z")
_EXPONENT = r"[eE][+-]?[0-9]"
_STRICT = r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z"


def env(at: ValuePath, container: Object, version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of the variables of a container.

    Args:
        at: the path of the container.
        container: the container.
        version: of the cluster.
    """
    for index, variable in items(container, "env"):
        path = (*at, "env", index)
        if not text(variable, "name"):
            yield missing(path, "name")
        else:
            yield from _name((*path, "name"), text(variable, "name"), version)
        if isinstance(variable.get("valueFrom"), dict):
            yield from _value_from(path, variable)
    for index, source in items(container, "envFrom"):
        path = (*at, "envFrom", index)
        if text(source, "prefix"):
            yield from _name((*path, "prefix"), text(source, "prefix"), version)
        yield from exactly_one(path, source, ("configMapRef", "secretRef"), NO_SOURCE)
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if isinstance(source.get(field), dict):
                yield from _named((*path, field), source[field], kind)


def _name(at: ValuePath, name: str, version: KubeVersion) -> Iterator[Violation]:
    """The rules of IsRelaxedEnvVarName, and IsEnvVarName for older versions."""
    if version >= RELAXED_ENV_NAMES:
        if not _RELAXED.match(name):
            yield invalid(at, name, "variable name", "use printable ASCII characters other than =")
    elif not re.match(_STRICT, name) or name == "." or name.startswith(".."):
        hint = "use letters, digits, dashes, underscores and dots, not starting with a digit"
        yield invalid(at, name, "variable name", hint)


def _value_from(path: ValuePath, variable: Object) -> Iterator[Violation]:
    """The rules of validateEnvVarValueFrom."""
    sources, at = mapping(variable, "valueFrom"), (*path, "valueFrom")
    yield from exactly_one(at, sources, tuple(SOURCES), NO_SOURCE)
    if text(variable, "value"):
        message = "value and valueFrom are mutually exclusive"
        yield conflict(at, message, "keep one of the two")
    for field, rule in SOURCES.items():
        if isinstance(sources.get(field), dict):
            yield from rule((*at, field), sources[field])


def _named(at: ValuePath, reference: Object, kind: str) -> Iterator[Violation]:
    if not text(reference, "name"):
        yield missing(at, "name")
    else:
        yield from subdomain((*at, "name"), text(reference, "name"), f"name of a {kind}")


def _field(at: ValuePath, reference: Object) -> Iterator[Violation]:
    yield from field_reference(at, reference, FIELDS)


def _key(kind: str) -> Callable[[ValuePath, Object], Iterator[Violation]]:
    """The rules of validateConfigMapKeySelector, validateSecretKeySelector."""

    def rule(at: ValuePath, reference: Object) -> Iterator[Violation]:
        yield from _named(at, reference, kind)
        if not text(reference, "key"):
            yield missing(at, "key")
        else:
            yield from data_key((*at, "key"), text(reference, "key"))

    return rule


def _file_key(at: ValuePath, reference: Object) -> Iterator[Violation]:
    """The rules of validateFileKeySelector; the schema has the field since Kubernetes 1.35."""
    for name in ("key", "path", "volumeName"):
        if not text(reference, name):
            yield missing(at, name)


def resource_field(at: ValuePath, reference: Object) -> Iterator[Violation]:
    """The rules of validateContainerResourceFieldSelector."""
    name = text(reference, "resource")
    if not name:
        yield missing(at, "resource")
        return
    if not name.startswith((f"requests.{HUGE_PAGES}", f"limits.{HUGE_PAGES}")):
        yield from one_of((*at, "resource"), name, RESOURCES)
    divisor, place = reference.get("divisor"), (*at, "divisor")
    if divisor is None or amount_of(divisor) == 0:
        return
    yield from quantity(place, divisor)
    allowed = CPU_DIVISORS if name.endswith(".cpu") else DIVISORS
    amount = amount_of(divisor)
    # An amount with an exponent keeps it.
    has_exponent = bool(re.search(_EXPONENT, str(divisor))) and amount != 1
    if amount is not None and (has_exponent or total([divisor]) not in allowed):
        yield invalid(place, divisor, f"divisor of {name}", f"use one of: {', '.join(allowed)}")


SOURCES: dict[str, Callable[[ValuePath, Object], Iterator[Violation]]] = {
    "fieldRef": _field,
    "resourceFieldRef": resource_field,
    "configMapKeyRef": _key("ConfigMap"),
    "secretKeyRef": _key("Secret"),
    "fileKeyRef": _file_key,
}
"""The sources of a variable."""
