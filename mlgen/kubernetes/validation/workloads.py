"""Rules for Jobs, StatefulSets and Deployments.

Sources, as of Kubernetes 1.34.4: pkg/apis/batch/validation/validation.go (ValidateJob),
pkg/apis/apps/validation/validation.go (ValidateStatefulSetSpec, ValidateDeploymentSpec).
"""

from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.validation import claims
from mlgen.kubernetes.validation._read import items, mapping, number, text
from mlgen.kubernetes.validation.metadata import matches, selector
from mlgen.kubernetes.validation.pod import pod_template
from mlgen.kubernetes.validation.syntax import (
    at_least,
    conflict,
    label,
    missing,
    one_of,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

SPEC: ValuePath = ("spec",)
TEMPLATE: ValuePath = ("spec", "template")

VALID_SERVICE_NAMES = KubeVersion(1, 34)
"""Since then, the API server checks the `serviceName` of a StatefulSet."""


def stateful_set(item: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of ValidateStatefulSetSpec."""
    spec = mapping(item, "spec")
    policies = ("OrderedReady", "Parallel")
    yield from one_of((*SPEC, "podManagementPolicy"), spec.get("podManagementPolicy"), policies)
    yield from _update_strategy(mapping(spec, "updateStrategy"))
    retention, path = mapping(spec, "persistentVolumeClaimRetentionPolicy"), SPEC
    for field in ("whenDeleted", "whenScaled"):
        place = (*path, "persistentVolumeClaimRetentionPolicy", field)
        yield from one_of(place, retention.get(field), ("Retain", "Delete"))
    for index, claim in items(spec, "volumeClaimTemplates"):
        place = (*SPEC, "volumeClaimTemplates", index, "spec")
        yield from claims.claim(place, mapping(claim, "spec"))
    for field in ("replicas", "minReadySeconds"):
        yield from at_least((*SPEC, field), number(spec, field), 0)
    start = number(mapping(spec, "ordinals"), "start")
    yield from at_least((*SPEC, "ordinals", "start"), start, 0)
    if text(spec, "serviceName") and version >= VALID_SERVICE_NAMES:
        yield from label((*SPEC, "serviceName"), text(spec, "serviceName"), "name of a Service")
    yield from _selected(spec)
    yield from pod_template(
        TEMPLATE, _with_claims(spec), version, ignored=("hostname", "subdomain")
    )
    yield from _always(spec, "StatefulSet")


def _with_claims(spec: Object) -> Object:
    """Return a StatefulSet's pod template with the volumes of its claim templates."""
    template = mapping(spec, "template")
    names = [
        text(mapping(claim, "metadata"), "name") for _, claim in items(spec, "volumeClaimTemplates")
    ]
    if not names:
        return template
    pod = mapping(template, "spec")
    # A volume of that name is replaced; its place in the list is kept, for the paths of violations.
    others = [
        {"name": f"replaced-{index}", "emptyDir": {}} if text(volume, "name") in names else volume
        for index, volume in items(pod, "volumes")
    ]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**pod, "volumes": [*others, *made]}}


def _update_strategy(strategy: Object) -> Iterator[Violation]:
    """Check the updateStrategy of a StatefulSet."""
    path = (*SPEC, "updateStrategy")
    yield from one_of((*path, "type"), strategy.get("type"), ("RollingUpdate", "OnDelete"))
    rolling = mapping(strategy, "rollingUpdate")
    if "rollingUpdate" in strategy and strategy.get("type") == "OnDelete":
        yield conflict((*path, "rollingUpdate"), "type: OnDelete has no rollingUpdate", "remove it")
    elif rolling:
        place = (*path, "rollingUpdate")
        yield from at_least((*place, "partition"), number(rolling, "partition"), 0)


def deployment(item: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of ValidateDeploymentSpec."""
    spec = mapping(item, "spec")
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from at_least((*SPEC, field), number(spec, field), 0)
    deadline, ready = number(spec, "progressDeadlineSeconds"), number(spec, "minReadySeconds") or 0
    if (600 if deadline is None else deadline) <= ready:
        message = "progressDeadlineSeconds must be greater than minReadySeconds"
        yield conflict((*SPEC, "progressDeadlineSeconds"), message, "raise it")
    yield from _selected(spec)
    yield from pod_template(TEMPLATE, mapping(spec, "template"), version)
    yield from _always(spec, "Deployment")
    yield from _strategy(mapping(spec, "strategy"))


def _strategy(strategy: Object) -> Iterator[Violation]:
    """The rules of ValidateDeploymentStrategy."""
    path = (*SPEC, "strategy")
    yield from one_of((*path, "type"), strategy.get("type"), ("Recreate", "RollingUpdate"))
    rolling = mapping(strategy, "rollingUpdate")
    if strategy.get("type") == "Recreate":
        if "rollingUpdate" in strategy:
            message = "type: Recreate has no rollingUpdate"
            yield conflict((*path, "rollingUpdate"), message, "remove it")
        return
    place = (*path, "rollingUpdate")
    surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    yield from _share((*place, "maxSurge"), surge, limited=False)
    yield from _share((*place, "maxUnavailable"), unavailable)
    if surge in (0, "0%") and unavailable in (0, "0%"):
        message = "maxSurge and maxUnavailable are both 0, so nothing could be updated"
        yield conflict((*place, "maxUnavailable"), message, "raise one of them")


def _share(path: ValuePath, value: Any, *, limited: bool = True) -> Iterator[Violation]:
    """The rules of ValidatePositiveIntOrPercent, IsNotMoreThan100Percent."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        share = natural(digits)
        if share is None or digits == value:
            hint = "write a number, or a percentage such as 25%"
            yield Violation(path, f'"{value}" is not a percentage', hint, "bad-value")
            return
        value = share
        if limited and value > 100:  # noqa: PLR2004
            yield Violation(path, f"expected at most 100%, got {value}%", "", "bad-value")
    if isinstance(value, int):
        yield from at_least(path, value, 0)


def _selected(spec: Object) -> Iterator[Violation]:
    """Check that a selector is not empty, is valid, and selects the pods of the template."""
    rules, path = mapping(spec, "selector"), (*SPEC, "selector")
    yield from selector(path, rules)
    if not mapping(rules, "matchLabels") and not any(items(rules, "matchExpressions")):
        yield missing(SPEC, "selector")
        return
    found = mapping(spec, "template", "metadata", "labels")
    if not matches(rules, found):
        wanted = mapping(rules, "matchLabels")
        changed = [key for key in wanted if found.get(key) != wanted[key]]
        hint = f"do not override the labels {', '.join(changed)} in templates" if changed else ""
        yield Violation((*path, "matchLabels"), "it selects none of its pods", hint, "selector")


def _always(spec: Object, kind: str) -> Iterator[Violation]:
    """Check the fields of the pods of a workload that keeps them running."""
    pod, path = mapping(spec, "template", "spec"), (*TEMPLATE, "spec")
    policy = text(pod, "restartPolicy")
    if policy in ("Never", "OnFailure"):
        message = f"the pods of a {kind} have restartPolicy: Always, got {policy}"
        yield conflict((*path, "restartPolicy"), message, "remove it")
    if "activeDeadlineSeconds" in pod:
        message = f"the pods of a {kind} have no activeDeadlineSeconds"
        yield conflict((*path, "activeDeadlineSeconds"), message, "remove it")
