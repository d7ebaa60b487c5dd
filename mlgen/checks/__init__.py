"""Objects → problems: what holds between the objects of a job, whatever made them.

Each of these would be found much later by the API server, by a controller's event that nobody
reads, or by nobody, as a job that hangs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlgen.checks import references
from mlgen.checks.pods import ROLES, WORKLOADS, Finding, Objects, called, pods_of, texts
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
    """Return what is wrong with one job's objects, as problems of its job file.

    Args:
        name: the job's.
        objects: all of its objects.
        kube_version: of the cluster.
    """
    found = findings(name, objects, kube_version)
    return list(dict.fromkeys(finding.problem for finding in found))


def findings(name: str, objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """Return what is wrong with one job's objects, and with which of them.

    Args:
        name: the job's.
        objects: all of its objects.
        kube_version: of the cluster.
    """
    job = Objects(name, objects)
    yield from _names(objects, kube_version)
    yield from _deciding(objects)
    yield from _images(job)
    yield from references.findings(job)
    yield from _sizes(job)


def collisions(objects: Iterable[Object], taken: Iterable[Key]) -> list[Problem]:
    """Return the objects that are made twice: by one job, or by one of those before it.

    Args:
        objects: those of one job.
        taken: what the jobs before it make.
    """
    made = Counter(keys(objects))
    twice = [key for key in made if made[key] > 1 or key in taken]
    if not twice:
        return []
    _, kind, _, name = twice[0]
    more = f" (and {len(twice) - 1} more)" if len(twice) > 1 else ""
    message = f"{kind} {name} would be made twice{more}"
    return [Problem(NAME, message, "name-collision", "give the job, or its roles, other names")]


def obstacles(objects: Iterable[Object], kube_version: KubeVersion) -> dict[Violation, list[str]]:
    """Return what keeps the pods from PodSecurity's strictest level, and of which roles it is."""
    found: dict[Violation, dict[str, None]] = {}
    for pods in (pods_of(item) for item in objects if item["kind"] in WORKLOADS):
        role = pods.template["metadata"]["labels"][ROLE]
        for violation in violations(pods.template, kube_version):
            found.setdefault(violation, {})[role] = None
    return {violation: list(roles) for violation, roles in found.items()}


def profile(
    wanted: Level, objects: Iterable[Object], kube_version: KubeVersion
) -> Iterator[Problem]:
    """Return what stands against the PodSecurity level that the user asks for."""
    for violation, roles in obstacles(objects, kube_version).items():
        if LEVELS.index(violation.level) <= LEVELS.index(wanted):
            less = LEVELS[LEVELS.index(violation.level) - 1]
            message = f"{violation.field} of {', '.join(roles)} {violation.message}"
            hint = f"change it, or write profile: {less}"
            yield Problem(("spec", "security", "profile"), message, "profile", hint)


def _names(objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """One problem for the name that is longest over its limit, one for those malformed."""
    over: list[tuple[int, str, int]] = []
    malformed: list[Finding] = []
    for number, item in enumerate(objects):
        kind, name = item["kind"], item["metadata"]["name"]
        for what, text, limit in _derived(item):
            if len(text) > limit:
                said = f'{what} "{text}" has {len(text)} of {limit}'
                over.append((len(text) - limit, said, number))
        strict = kind == "Service" and kube_version < RELAXED_SERVICE_NAMES
        if not (DNS_1035 if strict else DNS_1123).match(name):
            first = "a letter first" if strict else "no dash first"
            message = f'"{name}" cannot name a {kind}'
            hint = f"use lower-case letters, digits and dashes, {first} and no dash last"
            malformed.append(Finding(item, NAME, Problem(NAME, message, "bad-name", hint)))
    yield from malformed[:1]
    if over:
        cut, text, number = max(over)
        message = f"the name is too long: {text} characters"
        hint = f"cut {cut} character{'s' if cut > 1 else ''}"
        yield Finding(objects[number], NAME, Problem(NAME, message, "name-too-long", hint))


def _derived(item: Object) -> Iterator[tuple[str, str, int]]:
    """The names that Kubernetes makes of an object's, and how long each may be."""
    kind, name, spec = item["kind"], item["metadata"]["name"], item.get("spec", {})
    if kind == "StatefulSet":
        yield "StatefulSet", name, STATEFUL_SET_MAX
        yield "pod", f"{name}-{max(spec.get('replicas', 1), 1) - 1}", LABEL_MAX
    elif kind == "Job" and spec.get("completionMode") == "Indexed":
        yield "pod of the Job", f"{name}-{spec['completions'] - 1}", LABEL_MAX
    else:
        yield kind, name, LABEL_MAX


def _deciding(objects: Sequence[Object]) -> Iterator[Finding]:
    found = [o for o in objects if o["metadata"]["labels"].get(DECIDES) == "true"]
    if len(found) != 1 or found[0]["kind"] != "Job":
        names = ", ".join(map(called, found)) or "none"
        message = f"exactly one Job must decide when training has ended; here it is {names}"
        hint = "name one role that ends by itself in successPolicy.role"
        problem = Problem(ROLES, message, "deciding", hint)
        jobs = [item for item in objects if item["kind"] == "Job"]
        yield Finding((found or jobs or objects)[0], ("metadata", "labels"), problem)


def _images(job: Objects) -> Iterator[Finding]:
    for pods in job.pods:
        for where, container in pods.containers():
            if not container.get("image"):
                message = f"the container {container['name']} has no image"
                hint = "write image, here or in spec"
                problem = Problem(pods.path, message, "missing-image", hint)
                yield Finding(pods.item, where, problem)


def _sizes(job: Objects) -> Iterator[Finding]:
    for item in job.items:
        for problem in sizes(item, "use fewer replicas"):
            yield Finding(item, (), problem)
    for pods in job.pods:
        for text in texts([pods]):
            for problem in overlong(pods.path, text.said, text.text):
                yield Finding(pods.item, text.where, problem)


def sizes(item: Object, hint: str) -> Iterator[Problem]:
    """Return a problem where an object is larger than the cluster, or a plain apply, can take.

    Args:
        item: the object.
        hint: what makes it smaller.
    """
    kind, name = item["kind"], item["metadata"]["name"]
    size = len(json.dumps(item, ensure_ascii=False).encode())
    if kind == "ConfigMap" and size > CONFIG_MAP_MAX:
        message = f"ConfigMap {name} would have {size >> 10} KiB, of {CONFIG_MAP_MAX >> 10}"
        yield Problem(("spec", "roles"), message, "too-large", hint)
    elif size > APPLY_MAX:
        message = f"{kind} {name} has {size >> 10} KiB, too many for a plain kubectl apply"
        hint = "use kubectl apply --server-side"
        yield Problem(("spec", "roles"), message, "large-object", hint, warning=True)
