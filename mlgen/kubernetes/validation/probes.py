"""Rules for probes and lifecycle hooks.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (validateProbe, validateHandler,
validateLifecycle); defaults: pkg/apis/core/v1/defaults.go.
"""

import re
from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, number, text, values
from mlgen.kubernetes.validation.syntax import (
    at_least,
    between,
    conflict,
    exactly_one,
    invalid,
    missing,
    one_of,
    port,
    port_or_name,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("postStart", "preStop")
PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
COUNTS = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold"),
)

SLEEP_ZERO = KubeVersion(1, 33)
"""Since then, a hook may sleep for 0 s (PodLifecycleSleepActionAllowZero)."""

GRACE = 30
"""The default of terminationGracePeriodSeconds."""

_HEADER = r"[-A-Za-z0-9]+\Z"


def probes(at: ValuePath, container: Object) -> Iterator[Violation]:
    """Return the violations of the probes of a container at a path."""
    for name in PROBES:
        probe = mapping(container, name)
        if name in container:
            yield from _probe((*at, name), name, probe)


def _probe(at: ValuePath, name: str, probe: Object) -> Iterator[Violation]:
    yield from _handler(at, probe, PROBE_HANDLERS)
    for field in COUNTS:
        yield from at_least((*at, field), number(probe, field), 0)
    threshold = number(probe, "successThreshold")
    if name != "readinessProbe" and threshold is not None and threshold > 1:
        message = f"the successThreshold of a {name} is 1, got {threshold}"
        yield conflict((*at, "successThreshold"), message, "remove it")
    grace = number(probe, "terminationGracePeriodSeconds")
    yield from at_least((*at, "terminationGracePeriodSeconds"), grace, 1)
    if grace is not None and name == "readinessProbe":
        message = "a readinessProbe has no terminationGracePeriodSeconds"
        yield conflict((*at, "terminationGracePeriodSeconds"), message, "remove it")


def lifecycle(
    at: ValuePath, container: Object, spec: Object, version: KubeVersion
) -> Iterator[Violation]:
    """Return the violations of the lifecycle hooks of a container.

    Args:
        at: the path of the container.
        container: the container.
        spec: the spec of its pod.
        version: of the cluster.
    """
    hooks = mapping(container, "lifecycle")
    grace = number(spec, "terminationGracePeriodSeconds")
    for name in HOOKS:
        hook = mapping(hooks, name)
        path = (*at, "lifecycle", name)
        if name not in hooks:
            continue
        yield from _handler(path, hook, HOOK_HANDLERS)
        if isinstance(hook.get("sleep"), dict):
            seconds = number(hook["sleep"], "seconds") or 0
            low = 0 if version >= SLEEP_ZERO else 1
            high = GRACE if grace is None else grace
            yield from between((*path, "sleep", "seconds"), seconds, low, high)


def _handler(at: ValuePath, value: Object, names: tuple[str, ...]) -> Iterator[Violation]:
    """The rules of validateHandler: exactly one handler, and its fields."""
    yield from exactly_one(at, value, names, f"{at[-1]} does nothing")
    for name in [name for name in names if value.get(name) is not None][:1]:
        handler, path = mapping(value, name), (*at, name)
        if name == "exec" and not values(handler, "command"):
            yield missing(path, "command")
        elif name in ("httpGet", "tcpSocket"):
            yield from port_or_name((*path, "port"), handler.get("port"))
            yield from one_of((*path, "scheme"), handler.get("scheme"), ("HTTP", "HTTPS"))
            yield from _headers(path, handler)
        elif name == "grpc":
            yield from port((*path, "port"), number(handler, "port") or 0)


def _headers(at: ValuePath, handler: Object) -> Iterator[Violation]:
    """The rules of IsHTTPHeaderName, for each header."""
    for index, header in items(handler, "httpHeaders"):
        name = text(header, "name")
        if not re.match(_HEADER, name):
            path = (*at, "httpHeaders", index, "name")
            yield invalid(path, name, "header name", "use letters, digits and dashes")
