"""Rules for Jobs.

Source: Kubernetes 1.34.4, pkg/apis/batch/validation/validation.go (ValidateJob, validateJobSpec);
defaults: pkg/apis/batch/v1/defaults.go.
"""

import re
from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, number, text, values
from mlgen.kubernetes.validation.metadata import matches, selector
from mlgen.kubernetes.validation.pod import pod_template
from mlgen.kubernetes.validation.syntax import (
    at_least,
    between,
    conflict,
    few,
    invalid,
    is_qualified,
    missing,
    one_of,
    qualified,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

SPEC: ValuePath = ("spec",)
POLICY: ValuePath = ("spec", "podFailurePolicy")
TEMPLATE: ValuePath = ("spec", "template")

COUNTS = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
    *("ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"),
)
PER_INDEX = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")

INDEXES_MAX = 100_000
"""The maximum parallelism and maxFailedIndexes of an Indexed Job."""

MANY_COMPLETIONS, PARALLEL_OF_MANY = 100_000, 10_000
"""With backoffLimitPerIndex and more completions, the maximum parallelism and failed indexes."""

RULES_MAX = 20
CODES_MAX = 255
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
STATUSES = ("True", "False", "Unknown")
REPLACEMENTS = ("Failed", "TerminatingOrFailed")

GENERATED_LABELS = (
    *("controller-uid", "batch.kubernetes.io/controller-uid"),
    *("job-name", "batch.kubernetes.io/job-name"),
)

_INTEGER = r"[+-]?[0-9]{1,10}\Z"


def job(item: Object, version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of a Job."""
    spec = mapping(item, "spec")
    for field in COUNTS:
        yield from at_least((*SPEC, field), number(spec, field), 0)
    modes = ("NonIndexed", "Indexed")
    yield from one_of((*SPEC, "completionMode"), spec.get("completionMode"), modes, empty=False)
    yield from _managed_by(spec)
    if spec.get("completionMode") == "Indexed":
        yield from _indexed(spec)
    else:
        for field in (field for field in PER_INDEX if field in spec):
            message = f"{field} requires completionMode: Indexed"
            yield conflict((*SPEC, field), message, "remove it")
    if number(spec, "maxFailedIndexes") is not None and "backoffLimitPerIndex" not in spec:
        message = "maxFailedIndexes requires backoffLimitPerIndex"
        yield conflict((*SPEC, "maxFailedIndexes"), message, "add backoffLimitPerIndex")
    yield from _failure_policy(spec)
    yield from _selector(item, spec)
    yield from pod_template(TEMPLATE, mapping(spec, "template"), version)
    yield from _restart(spec)


def _restart(spec: Object) -> Iterator[Violation]:
    """Check the restartPolicy of the pods."""
    path = (*TEMPLATE, "spec", "restartPolicy")
    policy = text(mapping(spec, "template", "spec"), "restartPolicy") or "Always"
    if policy == "Always":
        message = "the pods of a Job have restartPolicy: Never or OnFailure, got Always"
        yield conflict(path, message, "write restartPolicy: Never or OnFailure")
    elif policy == "OnFailure" and "podFailurePolicy" in spec:
        message = "podFailurePolicy requires restartPolicy: Never"
        yield conflict(path, message, "write restartPolicy: Never")


def _managed_by(spec: Object) -> Iterator[Violation]:
    """The rules of IsDomainPrefixedPath."""
    name = spec.get("managedBy")
    if isinstance(name, str) and ("/" not in name or not is_qualified(name)):
        hint = "write the name of a controller, as in example.com/controller"
        yield invalid((*SPEC, "managedBy"), name, "name of a controller", hint)


def _indexed(spec: Object) -> Iterator[Violation]:
    """Check what only an Indexed Job has."""
    completions, failed = number(spec, "completions"), number(spec, "maxFailedIndexes")
    parallelism = number(spec, "parallelism")
    if completions is None and parallelism is None:
        completions = 1
    if completions is None:
        yield missing(SPEC, "completions", "write the number of pods")
    yield from between((*SPEC, "parallelism"), _positive(parallelism), 0, INDEXES_MAX)
    most = INDEXES_MAX if completions is None else min(completions, INDEXES_MAX)
    yield from between((*SPEC, "maxFailedIndexes"), _positive(failed), 0, most)
    if (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if failed is None:
            yield missing(SPEC, "maxFailedIndexes")
        for field in ("parallelism", "maxFailedIndexes"):
            value = _positive(number(spec, field))
            yield from between((*SPEC, field), value, 0, PARALLEL_OF_MANY)
    if isinstance(spec.get("successPolicy"), dict):
        yield from _success_policy(spec["successPolicy"], completions or 0)


def _positive(value: int | None) -> int | None:
    """Return a number unless it is negative, which is reported elsewhere."""
    return value if value is None or value >= 0 else None


def _success_policy(policy: Object, completions: int) -> Iterator[Violation]:
    """The rules of validateSuccessPolicy."""
    path = (*SPEC, "successPolicy")
    rules = values(policy, "rules")
    if not rules:
        yield missing(path, "rules", "add at least one rule")
    yield from few((*path, "rules"), rules, RULES_MAX)
    for index, rule in items(policy, "rules"):
        place = (*path, "rules", index)
        count, indexes = number(rule, "succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            yield missing(place, "succeededCount", "add succeededCount or succeededIndexes")
        most = completions
        if isinstance(indexes, str):
            total = _indexes(indexes, completions)
            if total is None:
                hint = f"write increasing indexes below {completions}, as in 0,2-4"
                yield invalid((*place, "succeededIndexes"), indexes, "list of indexes", hint)
            most = min(total or 0, completions)
        yield from between((*place, "succeededCount"), count, 0, most)


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


def _failure_policy(spec: Object) -> Iterator[Violation]:
    """The rules of validatePodFailurePolicy, validatePodReplacementPolicy."""
    policy = mapping(spec, "podFailurePolicy")
    allowed = REPLACEMENTS[:1] if "podFailurePolicy" in spec else REPLACEMENTS
    replacement = spec.get("podReplacementPolicy")
    yield from one_of((*SPEC, "podReplacementPolicy"), replacement, allowed, empty=False)
    yield from few((*POLICY, "rules"), values(policy, "rules"), RULES_MAX)
    pod = mapping(spec, "template", "spec")
    fields = ("containers", "initContainers")
    names = {text(container, "name") for field in fields for _, container in items(pod, field)}
    for index, rule in items(policy, "rules"):
        path = (*POLICY, "rules", index)
        action = text(rule, "action")
        if not action:
            yield missing(path, "action", f"add one of: {', '.join(ACTIONS)}")
        yield from one_of((*path, "action"), action, ACTIONS)
        if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            message = "FailIndex requires backoffLimitPerIndex"
            yield conflict((*path, "action"), message, "add backoffLimitPerIndex, or use FailJob")
        conditions = values(rule, "onPodConditions")
        if ("onExitCodes" in rule) == bool(conditions):
            message = "expected either onExitCodes or onPodConditions"
            yield conflict(path, message, "keep or add one of them")
        if isinstance(rule.get("onExitCodes"), dict):
            yield from _exit_codes((*path, "onExitCodes"), rule["onExitCodes"], names)
        yield from few((*path, "onPodConditions"), conditions, RULES_MAX)
        for number_, pattern in items(rule, "onPodConditions"):
            place = (*path, "onPodConditions", number_)
            kind = text(pattern, "type")
            yield from qualified((*place, "type"), kind, "type of a condition")
            yield from one_of((*place, "status"), pattern.get("status"), STATUSES)


def _exit_codes(at: ValuePath, rule: Object, names: set[str]) -> Iterator[Violation]:
    """The rules of validatePodFailurePolicyRuleOnExitCodes."""
    operator, name = text(rule, "operator"), rule.get("containerName")
    if not operator:
        yield missing(at, "operator", "add operator: In or NotIn")
    yield from one_of((*at, "operator"), operator, ("In", "NotIn"))
    if isinstance(name, str) and name not in names:
        message = f'the pod has no container "{name}"'
        yield Violation((*at, "containerName"), message, "use one of its names", "reference")
    path, codes = (*at, "values"), values(rule, "values", 0)
    if not codes:
        yield missing(at, "values", "add at least one exit code")
    yield from few(path, codes, CODES_MAX)
    whole = [code for code in codes if isinstance(code, int)]
    if operator == "In" and 0 in whole:
        yield conflict(path, "exit code 0 is no failure", "remove 0")
    if whole != sorted(set(whole)):
        yield conflict(path, "exit codes must increase", "sort them, without duplicates")


def _selector(item: Object, spec: Object) -> Iterator[Violation]:
    """The rules of ValidateJobSpec, validateGeneratedSelector: the API server writes it."""
    found = mapping(spec, "template", "metadata", "labels")
    if spec.get("manualSelector") is True:
        rules = mapping(spec, "selector")
        yield from selector((*SPEC, "selector"), rules)
        wanted = mapping(rules, "matchLabels")
        if "selector" not in spec:
            yield missing(SPEC, "selector")
        elif any(found.get(key) != value for key, value in wanted.items()):
            message = "the selector does not match the labels of the pods"
            hint = "remove selector and manualSelector"
            yield Violation((*SPEC, "selector"), message, hint, "selector")
        return
    name = text(mapping(item, "metadata"), "name")
    rules = dict(mapping(spec, "selector"))
    rules["matchLabels"] = {
        key: value
        for key, value in mapping(rules, "matchLabels").items()
        if key != "batch.kubernetes.io/controller-uid"
    }
    made = {key: name for key in GENERATED_LABELS if key.endswith("job-name")}
    if not matches(rules, made):
        message = "the API server writes the selector of a Job"
        yield conflict((*SPEC, "selector"), message, "remove it")
    yield from selector((*SPEC, "selector"), rules)
    for key in GENERATED_LABELS:
        expected = name if key.endswith("job-name") else None
        if key in found and found[key] != expected:
            message = f"the API server sets the label {key}"
            yield conflict((*TEMPLATE, "metadata", "labels", key), message, "remove it")
