"""Objects of a job → problems with names, values, sizes and references between objects.

Without these checks, the API server or a controller would report the problem later, or the job
would hang without an error. mlgen/kubernetes/validation contains the rules of the API server. Names
have stricter limits if they become part of pod names, labels or addresses.
"""

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.checks import (  # noqa: F401  # modules that only define rules
    amounts,
    commands,
    files,
    network,
    operators,
    placement,
    references,
    startup,
    volumes,
)
from mlgen.checks.job_file import in_job_file, path_in_job_file
from mlgen.checks.pods import (
    NAME,
    WORKLOADS,
    Located,
    Objects,
    of_containers,
    of_manifests,
    of_objects,
    of_pods,
    pods_of,
    role_path,
    texts,
    title,
)
from mlgen.documents.flags import ROLES
from mlgen.kubernetes import validation
from mlgen.kubernetes.names import DNS_1035, DNS_1123, LABEL_MAX, LAST_APPLIED, STATEFUL_SET_MAX
from mlgen.kubernetes.objects import (
    APPLY_MAX,
    CONFIG_MAP_MAX,
    ETCD_MAX,
    WORKFLOW_MAX,
    Key,
    Object,
    config_map_bytes,
    group_of,
    is_built_in,
    kib,
    overlong,
    stored_bytes,
)
from mlgen.kubernetes.pod_security import LEVELS, Level, Violation, violations
from mlgen.kubernetes.validation.rows import SUBDOMAIN_MAX, is_subdomain
from mlgen.kubernetes.versions import RELAXED_SERVICE_NAMES, KubeVersion
from mlgen.objects.labels import DECIDES, REPLICA_INDEX, ROLE
from mlgen.problems import Problem, bounded, dotted, listed


def job_problems(
    name: str,
    objects: Sequence[Object],
    kube_version: KubeVersion,
    job_file: Mapping[str, Any] | None = None,
    *,
    jobset: bool = False,
) -> list[Problem]:
    """Return the problems of one job's objects, with their paths in the job file.

    Args:
        name: the name of the job.
        objects: all objects of the job.
        kube_version: the version of the cluster.
        job_file: the data of the job file, for the paths; None if there is none.
        jobset: True if JobSet's controller runs the job.
    """
    written = job_file or {}
    job = Objects(
        name,
        objects,
        alike=bool(job_file),
        jobset=jobset,
        version=kube_version,
        job_file=written,
    )
    return list(dict.fromkeys(bounded(_problems(job))))


def _problems(job: Objects) -> Iterator[Problem]:
    """Yield the problems of one job's objects, with their paths in the job file."""
    for found in _of_rules(job):
        yield in_job_file(found, job.job_file)
    plan = references.plan_of(job)
    version = references.needed_version(plan, job.version) if plan else job.version
    for found in located(job, version):
        # A problem of an address is at the text that contains it, and any other one at the role.
        is_address = found.problem.code in ("no-such-peer", "namespace", "port")
        yield in_job_file(found, job.job_file) if is_address else found.problem
    if plan:
        yield from references.restarts(job, plan, job.version)


def _of_rules(job: Objects) -> Iterator[Located]:
    """Yield the problems that rules find in the objects, their pods and containers."""
    yield from of_objects.broken_by(job)
    for pods in job.distinct_pods:
        yield from of_pods.broken_by(pods)
    for pods in job.distinct_pods:
        for container in pods.containers:
            yield from of_containers.broken_by(container)


def located(job: Objects, kube_version: KubeVersion) -> Iterator[Located]:
    """Yield the problems of one job's objects, with their paths in the job file and the objects.

    Args:
        job: the objects of the job.
        kube_version: the version of the cluster.
    """
    named = list(invalid_names(job.items, kube_version))
    yield from named
    yield from _deciding(job)
    # If the job's name is invalid, so are the names derived from it.
    written_only = bool(named and job.job_file)
    yield from _rejected_values(job, kube_version, written_only=written_only)
    yield from of_manifests.broken_by(job)
    yield from references.broken_references(job)
    yield from references.unschedulable_groups(job, kube_version)
    yield from _sizes(job)


NAMES_CONTAINER = ("missing-image", "volume")
"""Codes of problems with the location in the message."""


def _rejected_values(
    job: Objects, kube_version: KubeVersion, *, written_only: bool
) -> Iterator[Located]:
    """Yield the problems of a job's objects that the API server would reject.

    Args:
        job: the objects of the job.
        kube_version: the version of the cluster.
        written_only: True to report only values from the job file.
    """
    for item in job.distinct:
        for broken in validation.broken_rules(item, kube_version):
            path, message = path_in_job_file(job.job_file, item, broken.path), broken.message
            if path is None and written_only:
                continue
            if path is None and broken.code not in NAMES_CONTAINER:
                message = f"{title(item)}: {dotted(broken.path)}: {message}"
            hint = broken.hint + _other_container(item, broken)
            at, warning = path or role_path(item), broken.warning
            there = Problem(at, message, broken.code, hint, warning=warning)
            yield Located(item, broken.path, there)


def _other_container(item: Object, problem: Problem) -> str:
    """Return a hint for a container without an image, or "".

    Users may mean the training container by the name of another one, or the other way round.
    """
    if problem.code != "missing-image" or problem.path[-2:-1] != ("containers",):
        return ""
    main, *containers = item["spec"]["template"]["spec"]["containers"]
    if problem.path[-1] != 0:
        return f", or write name: {main['name']} to change the training container"
    others = [container["name"] for container in containers if container.get("image")]
    return f", or write mainContainer: {listed(others, 'or')}" if others else ""


WITH_DOTS = ("ConfigMap", "PersistentVolumeClaim")
"""Kinds whose names may contain dots, because no pod name or address is derived from them."""


def invalid_names(objects: Sequence[Object], kube_version: KubeVersion) -> Iterator[Located]:
    """Yield at most two problems: the first invalid name, and the name furthest over its limit."""
    too_long: list[tuple[int, str, int]] = []
    invalid: list[Located] = []
    for number, item in enumerate(objects):
        kind, name = item["kind"], item["metadata"]["name"]
        for owner, text, limit in _limited_names(item):
            if len(text) > limit:
                reason = f'{owner} "{text}" has {len(text)} characters, the limit is {limit}'
                too_long.append((len(text) - limit, reason, number))
        if kind in WITH_DOTS and is_subdomain(name):
            continue
        strict = kind == "Service" and kube_version < RELAXED_SERVICE_NAMES
        if not (DNS_1035 if strict else DNS_1123).match(name):
            first = "starting with a letter" if strict else "starting with a letter or digit"
            message = f'"{name}" is not a valid name for a {kind}'
            hint = f"use lowercase letters, digits and dashes, {first} and not ending with a dash"
            invalid.append(Located(item, NAME, Problem(NAME, message, "bad-name", hint)))
    yield from invalid[:1]
    if too_long:
        excess, reason, number = max(too_long)
        message = f"the name is too long: {reason}"
        hint = f"shorten the name by {excess} character{'s' if excess > 1 else ''}"
        yield Located(objects[number], NAME, Problem(NAME, message, "name-too-long", hint))


def _limited_names(item: Object) -> Iterator[tuple[str, str, int]]:
    """Yield the names of an object and its pods: the owner, the name, and the length limit."""
    kind, name, spec = item["kind"], item["metadata"]["name"], item.get("spec", {})
    if kind == "StatefulSet":
        yield "StatefulSet", name, STATEFUL_SET_MAX
        yield "pod", f"{name}-{max(spec.get('replicas', 1), 1) - 1}", LABEL_MAX
    elif kind == "Job" and spec.get("completionMode") == "Indexed":
        yield "pod of the Job", f"{name}-{spec.get('completions', 1) - 1}", LABEL_MAX
    elif kind in WITH_DOTS:
        yield kind, name, SUBDOMAIN_MAX
    else:
        yield kind, name, LABEL_MAX


def collisions(
    identities: Iterable[Key], taken: Container[Key], hint: str = "rename the job or its roles"
) -> list[Problem]:
    """Return at most one problem: the objects that are rendered twice.

    Args:
        identities: the identities of the objects of one job.
        taken: the identities of the objects of earlier jobs, and of other objects of the input.
        hint: the fix.
    """
    counts = Counter(identities)
    duplicates = [key for key in counts if counts[key] > 1 or key in taken]
    if not duplicates:
        return []
    _, kind, _, name = duplicates[0]
    more = f" (and {len(duplicates) - 1} more)" if len(duplicates) > 1 else ""
    message = f"{kind} {name} would be rendered twice{more}"
    return [Problem(NAME, message, "name-collision", hint)]


def foreign(kind: str) -> Problem:
    """Return the problem of an object that is not a job, for --only-jobs."""
    message = f"expected a job, got {kind or 'an object without kind'}"
    hint = "remove it: --only-jobs rejects all other objects"
    return Problem(("kind",), message, "foreign-object", hint)


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
    """Yield the violations of the Pod Security Standard that the job file requires."""
    for violation, roles in obstacles(objects, kube_version).items():
        if LEVELS.index(violation.level) <= LEVELS.index(required):
            weaker = LEVELS[LEVELS.index(violation.level) - 1]
            message = f"{violation.field} of {', '.join(roles)} {violation.message}"
            hint = f"change it, or set profile: {weaker}"
            yield Problem(("spec", "security", "profile"), message, "profile", hint)


def _deciding(job: Objects) -> Iterator[Located]:
    """Check that there is exactly one deciding Job.

    In a workflow, several deciding Jobs are marked only in the plan.
    """
    deciding = [item for item in job.items if item["metadata"]["labels"].get(DECIDES) == "true"]
    policy = job.job_file.get("spec", {}).get("successPolicy", {})
    if not deciding and (policy.get("roles") or policy.get("replicas") == "All"):
        return
    if len(deciding) != 1 or deciding[0]["kind"] != "Job":
        names = ", ".join(map(title, deciding)) or "none"
        message = f"expected exactly one deciding Job, got {names}"
        hint = "set successPolicy.role to a role that runs to completion"
        jobs = [item for item in job.items if item["kind"] == "Job"]
        there = Problem(ROLES, message, "deciding", hint)
        yield Located((deciding or jobs or job.items)[0], ("metadata", "labels"), there)


def _sizes(job: Objects) -> Iterator[Located]:
    """Check the sizes of objects, variables and arguments."""
    hint = "use fewer replicas"
    for pods in job.pods:
        if REPLICA_INDEX in pods.item["metadata"]["labels"]:
            remedy = f"give every {role_path(pods.item)[-1]} the same fields"
            if pods.spec.get("hostNetwork"):
                remedy = "remove network.host"
            hint += f", or {remedy}, so that they share a Job"
            break
    for item in job.distinct:
        for problem in sizes(item, hint):
            yield Located(item, (), problem)
    for text in texts(job.distinct_pods):
        for problem in overlong(role_path(text.item), text.label, text.text, IN_FILE):
            yield Located(text.item, text.path, problem)


IN_FILE = "put the text into a file: volumes: {NAME: {mountPath: …, files: {…}}}"
"""The hint for a variable or an argument that is too long."""


def _size(item: Object) -> int:
    """Return the size of the annotations after a client-side `kubectl apply`, in bytes.

    kubectl stores the object in an annotation, as compact JSON in which Go escapes `<>&`
    (k8s.io/kubectl, pkg/util/apply.go, GetModifiedConfiguration).
    """
    metadata = {"namespace": "default", "annotations": {}} | item["metadata"]
    annotations = metadata["annotations"] or {}
    others = sum(len(name) + len(str(text).encode()) for name, text in annotations.items())
    applied = item | {"metadata": metadata}
    line = json.dumps(applied, ensure_ascii=False, separators=(",", ":")) + "\n"
    return others + len(LAST_APPLIED) + len(line.encode()) + 5 * sum(map(line.count, "<>&"))


def sizes(item: Object, hint: str) -> Iterator[Problem]:
    """Yield a problem if an object is too large for the cluster or for a client-side apply.

    Args:
        item: the object.
        hint: the hint for an object that is too large for the cluster.
    """
    kind, name = item["kind"], item["metadata"]["name"]
    size, stored, limit = _size(item), 0, ETCD_MAX
    if kind == "ConfigMap":
        limit = CONFIG_MAP_MAX
        stored = config_map_bytes(item)
    elif group_of(item["apiVersion"]) == "argoproj.io":
        limit, stored = WORKFLOW_MAX, size
    elif size > limit:
        # Custom resources are stored as JSON.
        stored = stored_bytes(item) if is_built_in(item["apiVersion"]) else size
    if stored > limit:
        message = f"{kind} {name} has {kib(stored)}, the limit is {kib(limit)}"
        yield Problem(("spec", "roles"), message, "too-large", hint)
    elif size > APPLY_MAX:
        message = (
            f"{kind} {name} has {kib(size)}, too large for a client-side kubectl apply,"
            f" whose limit is {kib(APPLY_MAX)}"
        )
        hint = "use kubectl apply --server-side"
        yield Problem(("spec", "roles"), message, "large-object", hint, warning=True)
