"""Objects of a job → problems with names, sizes, images and references between objects.

Without these checks the API server or a controller would report the problem later, or the job would
hang without an error.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlgen.checks import references
from mlgen.checks.pods import ROLES, WORKLOADS, Finding, Objects, pods_of, texts, title
from mlgen.kubernetes.limits import APPLY_MAX, CONFIG_MAP_MAX, overlong
from mlgen.kubernetes.names import DNS_1035, DNS_1123, LABEL_MAX, STATEFUL_SET_MAX
from mlgen.kubernetes.objects import Key, keys
from mlgen.kubernetes.pod_security import LEVELS, Level, Violation, violations
from mlgen.kubernetes.versions import RELAXED_SERVICE_NAMES, KubeVersion
from mlgen.objects.labels import DECIDES, ROLE
from mlgen.problems import Problem, ValuePath

Object = dict[str, Any]

NAME: ValuePath = ("metadata", "name")


def problems(name: str, objects: Sequence[Object], kube_version: KubeVersion) -> list[Problem]:
    """Return the problems of one job's objects, with their paths in the job file.

    Args:
        name: of the job.
        objects: all objects of the job.
        kube_version: of the cluster.
    """
    violations = findings(name, objects, kube_version)
    return list(dict.fromkeys(finding.problem for finding in violations))


def findings(name: str, objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """Return the problems of one job's objects, with their paths in the objects too.

    Args:
        name: of the job.
        objects: all objects of the job.
        kube_version: of the cluster.
    """
    job = Objects(name, objects)
    yield from _names(objects, kube_version)
    yield from _deciding(objects)
    yield from _images(job)
    yield from references.findings(job)
    yield from _sizes(job)


def collisions(objects: Iterable[Object], taken: Iterable[Key]) -> list[Problem]:
    """Return at most one problem: the objects that are rendered twice.

    Args:
        objects: of one job.
        taken: the identities of the objects of earlier jobs.
    """
    counts = Counter(keys(objects))
    duplicates = [key for key in counts if counts[key] > 1 or key in taken]
    if not duplicates:
        return []
    _, kind, _, name = duplicates[0]
    more = f" (and {len(duplicates) - 1} more)" if len(duplicates) > 1 else ""
    message = f"{kind} {name} would be rendered twice{more}"
    return [Problem(NAME, message, "name-collision", "rename the job or its roles")]


def obstacles(objects: Iterable[Object], kube_version: KubeVersion) -> dict[Violation, list[str]]:
    """Return the violations of the Pod Security Standard `restricted`, each with its roles."""
    roles_of: dict[Violation, dict[str, None]] = {}
    for pods in (pods_of(item) for item in objects if item["kind"] in WORKLOADS):
        role = pods.template["metadata"]["labels"][ROLE]
        for violation in violations(pods.template, kube_version):
            roles_of.setdefault(violation, {})[role] = None
    return {violation: list(roles) for violation, roles in roles_of.items()}


def profile(
    required: Level, objects: Iterable[Object], kube_version: KubeVersion
) -> Iterator[Problem]:
    """Return the violations of the Pod Security Standard that the job file requires."""
    for violation, roles in obstacles(objects, kube_version).items():
        if LEVELS.index(violation.level) <= LEVELS.index(required):
            weaker = LEVELS[LEVELS.index(violation.level) - 1]
            message = f"{violation.field} of {', '.join(roles)} {violation.message}"
            hint = f"change it, or set profile: {weaker}"
            yield Problem(("spec", "security", "profile"), message, "profile", hint)


def _names(objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """Return at most two findings: an invalid name, and the name furthest over its limit."""
    too_long: list[tuple[int, str, int]] = []
    invalid: list[Finding] = []
    for number, item in enumerate(objects):
        kind, name = item["kind"], item["metadata"]["name"]
        for owner, text, limit in _limited_names(item):
            if len(text) > limit:
                reason = f'{owner} "{text}" has {len(text)} characters, the limit is {limit}'
                too_long.append((len(text) - limit, reason, number))
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
        yield "pod of the Job", f"{name}-{spec['completions'] - 1}", LABEL_MAX
    else:
        yield kind, name, LABEL_MAX


def _deciding(objects: Sequence[Object]) -> Iterator[Finding]:
    """Check that there is exactly one deciding Job."""
    deciding = [item for item in objects if item["metadata"]["labels"].get(DECIDES) == "true"]
    if len(deciding) != 1 or deciding[0]["kind"] != "Job":
        names = ", ".join(map(title, deciding)) or "none"
        message = f"expected exactly one deciding Job, got {names}"
        hint = "set successPolicy.role to a role that runs to completion"
        problem = Problem(ROLES, message, "deciding", hint)
        jobs = [item for item in objects if item["kind"] == "Job"]
        yield Finding((deciding or jobs or objects)[0], ("metadata", "labels"), problem)


def _images(job: Objects) -> Iterator[Finding]:
    """Check that every container has an image."""
    for pods in job.pods:
        for path, container in pods.containers():
            if not container.get("image"):
                message = f"container {container['name']} has no image"
                hint = "set image here or in spec"
                problem = Problem(pods.role_path, message, "missing-image", hint)
                yield Finding(pods.item, path, problem)


def _sizes(job: Objects) -> Iterator[Finding]:
    """Check the sizes of objects, variables and arguments."""
    for item in job.items:
        for problem in sizes(item, "use fewer replicas"):
            yield Finding(item, (), problem)
    for pods in job.pods:
        for text in texts([pods]):
            for problem in overlong(pods.role_path, text.label, text.text):
                yield Finding(pods.item, text.path, problem)


def sizes(item: Object, hint: str) -> Iterator[Problem]:
    """Return a problem if an object is too large for the cluster or for a client-side apply.

    Args:
        item: the object.
        hint: how to make it smaller.
    """
    kind, name = item["kind"], item["metadata"]["name"]
    size = len(json.dumps(item, ensure_ascii=False).encode())
    if kind == "ConfigMap" and size > CONFIG_MAP_MAX:
        message = f"ConfigMap {name} has {size >> 10} KiB, the limit is {CONFIG_MAP_MAX >> 10} KiB"
        yield Problem(("spec", "roles"), message, "too-large", hint)
    elif size > APPLY_MAX:
        message = f"{kind} {name} has {size >> 10} KiB, too large for a client-side kubectl apply"
        hint = "use kubectl apply --server-side"
        yield Problem(("spec", "roles"), message, "large-object", hint, warning=True)
