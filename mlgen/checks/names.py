"""The names of a job's objects and pods → findings on their syntax and length.

A name is more limited than its kind requires where pods, labels or addresses are made of it.
"""

from collections.abc import Iterator, Sequence

from mlgen.checks.pods import Finding
from mlgen.kubernetes.names import DNS_1035, DNS_1123, LABEL_MAX, STATEFUL_SET_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation.syntax import SUBDOMAIN_MAX, is_subdomain
from mlgen.kubernetes.versions import RELAXED_SERVICE_NAMES, KubeVersion
from mlgen.problems import Problem, ValuePath

NAME: ValuePath = ("metadata", "name")


NAMED_BY_USERS = ("PersistentVolumeClaim",)
"""Kinds whose names may have dots; no pod or address is made of them."""


def findings(objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """Return at most two findings: an invalid name, and the name furthest over its limit."""
    too_long: list[tuple[int, str, int]] = []
    invalid: list[Finding] = []
    for number, item in enumerate(objects):
        kind, name = item["kind"], item["metadata"]["name"]
        for owner, text, limit in _limited_names(item):
            if len(text) > limit:
                reason = f'{owner} "{text}" has {len(text)} characters, the limit is {limit}'
                too_long.append((len(text) - limit, reason, number))
        if kind in NAMED_BY_USERS and is_subdomain(name):
            continue
        strict = kind == "Service" and kube_version < RELAXED_SERVICE_NAMES
        if not (DNS_1035 if strict else DNS_1123).match(name):
            first = "starting with a letter" if strict else "starting with a letter or digit"
            message = f'"{name}" is not a valid name for a {kind}'
            hint = f"use lower-case letters, digits and dashes, {first} and not ending with a dash"
            invalid.append(Finding(item, NAME, Problem(NAME, message, "bad-name", hint)))
    yield from invalid[:1]
    if too_long:
        excess, reason, number = max(too_long)
        message = f"the name is too long: {reason}"
        hint = f"shorten it by {excess} character{'s' if excess > 1 else ''}"
        yield Finding(objects[number], NAME, Problem(NAME, message, "name-too-long", hint))


def _limited_names(item: Object) -> Iterator[tuple[str, str, int]]:
    """Return the names of an object and of its pods: whose it is, the name, and its limit."""
    kind, name, spec = item["kind"], item["metadata"]["name"], item.get("spec", {})
    if kind == "StatefulSet":
        yield "StatefulSet", name, STATEFUL_SET_MAX
        yield "pod", f"{name}-{max(spec.get('replicas', 1), 1) - 1}", LABEL_MAX
    elif kind == "Job" and spec.get("completionMode") == "Indexed":
        yield "pod of the Job", f"{name}-{spec.get('completions', 1) - 1}", LABEL_MAX
    elif kind in NAMED_BY_USERS:
        yield kind, name, SUBDOMAIN_MAX
    else:
        yield kind, name, LABEL_MAX
