"""Objects of a job → what the API server rejects in them, each value at its place in the job file.

The rules are those of Kubernetes (mlgen/kubernetes/validation). Names are limited further where
pods, labels or addresses are made of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import Located, role_path, title, value_at
from mlgen.kubernetes import validation
from mlgen.kubernetes.names import DNS_1035, DNS_1123, LABEL_MAX, STATEFUL_SET_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation.syntax import SUBDOMAIN_MAX, is_subdomain
from mlgen.kubernetes.versions import RELAXED_SERVICE_NAMES, KubeVersion
from mlgen.problems import Problem, ValuePath, dotted

NAMES_CONTAINER = ("missing-image", "volume")
"""Codes of problems whose message says where they are."""


def rejected_values(
    objects: Iterable[Object],
    kube_version: KubeVersion,
    job_file: Mapping[str, Any],
    *,
    written_only: bool = False,
) -> Iterator[Located]:
    """Return the values of a job's objects that the API server rejects.

    Args:
        objects: of the job; one of those that are alike.
        kube_version: of the cluster.
        job_file: its data; empty if there is none.
        written_only: only values that are in the job file.
    """
    for item in objects:
        for broken in validation.broken_rules(item, kube_version):
            path, message = path_in_job_file(job_file, item, broken.path), broken.message
            if path is None and written_only:
                continue
            if path is None and broken.code not in NAMES_CONTAINER:
                message = f"{title(item)}: {dotted(broken.path)}: {message}"
            hint = broken.hint + _other_container(item, broken)
            there = Problem(path or role_path(item), message, broken.code, hint)
            yield Located(item, broken.path, there)


def _other_container(item: Object, problem: Problem) -> str:
    """Return how to make the only other container the training container, if that has no image."""
    if problem.code != "missing-image" or problem.path[-2:] != ("containers", 0):
        return ""
    containers = value_at(item, problem.path[:-1])[1:]
    others = [container["name"] for container in containers if container.get("image")]
    return f", or write mainContainer: {others[0]}" if len(others) == 1 else ""


NAME: ValuePath = ("metadata", "name")

NAMED_BY_USERS = ("PersistentVolumeClaim",)
"""Kinds whose names may have dots; no pod or address is made of them."""


def invalid_names(objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Located]:
    """Return at most two problems: an invalid name, and the name furthest over its limit."""
    too_long: list[tuple[int, str, int]] = []
    invalid: list[Located] = []
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
            invalid.append(Located(item, NAME, Problem(NAME, message, "bad-name", hint)))
    yield from invalid[:1]
    if too_long:
        excess, reason, number = max(too_long)
        message = f"the name is too long: {reason}"
        hint = f"shorten it by {excess} character{'s' if excess > 1 else ''}"
        yield Located(objects[number], NAME, Problem(NAME, message, "name-too-long", hint))


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
