"""A stream of finished manifests → the jobs in it, and problems at their places in the stream.

Overlays, charts, `sed` and people change names, labels and numbers after rendering. The objects of
a job are found by their label `mlgen.dev/job` and checked by the same rules as during rendering.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen import checks, dialects
from mlgen.checks.pods import Located, Objects, role_path, title
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.objects import Key, Object, keys, without_nulls
from mlgen.kubernetes.schema import broken_structure, has_kind
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects.labels import COMPONENT, DECIDES, INSTANCE, JOB, MANAGED_BY
from mlgen.problems import Collector, MlgenError, Place, Problem, ValuePath, dotted

EDIT_JOB_FILE = (
    "change the job file instead of the rendered manifests: see docs/reference/verify.md"
)

HINTS = {
    "deciding": "keep the label mlgen.dev/decides as rendered",
    "name-too-long": "use a shorter prefix or suffix",
    "namespace": "render all objects of a job into one namespace",
    "no-such-peer": EDIT_JOB_FILE,
    "port": EDIT_JOB_FILE,
    "reference": EDIT_JOB_FILE,
    "selector": "keep labels and selectors as rendered",
    "too-large": "add less to the object, or use fewer replicas",
    "volume": EDIT_JOB_FILE,
}
"""Hints by problem code, for manifests; those of the problems are for job files."""


@dataclass(frozen=True)
class Verified:
    """A job in a stream.

    Attributes:
        name: of the job.
        namespace: "" if the objects have none.
        objects: their number.
        pods: their number, without those of the supervisor and TensorBoard.
    """

    name: str
    namespace: str
    objects: int
    pods: int

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        pods = f"{self.pods} pod{'' if self.pods == 1 else 's'}"
        return f"{name}: verified, {self.objects} objects, {pods}"


@dataclass(frozen=True)
class _Part:
    """An object of a stream, with its document and its path in that document."""

    data: dict[str, Any]
    document: Document
    path: ValuePath

    def place(self, path: ValuePath = ()) -> Place:
        """Return the file, line and column of a value in the object."""
        return self.document.place((*self.path, *path))

    @property
    def namespace(self) -> str:
        return str(self.data["metadata"].get("namespace") or "")

    @property
    def labels(self) -> Mapping[str, Any]:
        labels = self.data["metadata"].get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def job(self) -> str | None:
        """The name of the job that it belongs to; None for an object of no job."""
        name = self.labels.get(JOB) if self.data["kind"] in SHAPES else None
        return None if name is None else str(name)

    @property
    def instance(self) -> str | None:
        """The name of the job in the recommended labels."""
        name = self.labels.get(INSTANCE)
        return None if name is None else str(name)

    @property
    def is_status(self) -> bool:
        """Whether it is the ConfigMap of a job's status, which lacks the job's label."""
        labels = {MANAGED_BY: "mlgen", COMPONENT: "status"}
        return self.data["kind"] == "ConfigMap" and labels.items() <= self.labels.items()


def verify(texts: Iterable[Text], kube_version: KubeVersion) -> list[Verified]:
    """Return the jobs of a stream if all of them pass the checks.

    Args:
        texts: manifests, in any order, with any other objects among them.
        kube_version: of the cluster.

    Raises:
        MlgenError: with every problem and its place; also if there is no job.
    """
    collector = Collector()
    documents: list[Document] = []
    order: dict[str, int] = {}
    for text in texts:
        order.setdefault(text.name, len(order))
        for document in read_documents(text):
            if isinstance(document, list):
                collector.extend(document)
            else:
                documents.append(document)
    jobs = verify_documents(documents, kube_version, collector)
    if not jobs and not collector.problems:
        collector.add(_no_job(next(iter(order))))
    if collector.problems:
        problems = sorted(collector.problems, key=lambda problem: _position(problem, order))
        raise MlgenError(problems)
    return jobs


def verify_documents(
    documents: Iterable[Document], kube_version: KubeVersion, collector: Collector
) -> list[Verified]:
    """Return the jobs of a stream, whether or not they pass the checks.

    Args:
        documents: of the whole stream.
        kube_version: of the cluster.
        collector: receives every problem.
    """
    jobs: dict[str, list[_Part]] = {}
    parts = _without_duplicates(list(_parts(documents, collector)), collector)
    for part in parts:
        if part.job is not None:
            jobs.setdefault(part.job, []).append(part)
    by_instance: dict[str | None, list[list[_Part]]] = {}
    for members in jobs.values():
        for instance in {member.instance for member in members}:
            by_instance.setdefault(instance, []).append(members)
    for part in (part for part in parts if part.job is None and part.is_status):
        for members in by_instance.get(part.instance, ()):
            members.append(part)
    return [
        _verified(name, group, kube_version, collector)
        for name, members in jobs.items()
        for group in _by_namespace(name, members, collector)
    ]


def _position(problem: Problem, order: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the sort key of a problem, given the position of each file on the command line."""
    place = problem.place or Place("")
    return order.get(place.file, 0), place.line, place.column


def _with_job(job: str, part: _Part, message: str) -> str:
    """Return a message on one line, with the job's namespace and name in front."""
    name = f"{part.namespace}/{job}" if part.namespace else job
    return " ".join(f"{name}: {message}".split())


def _no_job(file: str) -> Problem:
    """Return the problem of a stream, given its first file, that contains no rendered job."""
    message = f"expected the objects of a job, got none with the label {JOB}"
    hint = "pass the manifests that you apply, with the labels that mlgen set"
    return Problem((), message, "no-job", hint, place=Place(file))


def _parts(documents: Iterable[Document], collector: Collector) -> Iterator[_Part]:
    """Return every object with an identity; report YAML problems of those that belong to a job."""
    for document in documents:
        for path, data in _items(document):
            collector.extend(_not_applicable(document, path, data))
            if not _is_object(data):
                continue
            part = _Part(data, document, path)
            if part.job is not None:
                collector.extend(document.problems)
            yield part


def _items(document: Document) -> Iterator[tuple[ValuePath, Any]]:
    """Return the object in a document, or the items of a List, each with its path."""
    data = document.data
    items = data.get("items") if isinstance(data, dict) and data.get("kind") == "List" else None
    if not isinstance(items, list):
        yield (), without_nulls(data)
        return
    for number, item in enumerate(items):
        yield ("items", number), without_nulls(item)


def _is_object(data: Any) -> bool:
    """Return whether a value has the fields that identify an object."""
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    meta = data["metadata"]
    names = (data.get("apiVersion"), data.get("kind"), meta.get("name"), meta.get("namespace", ""))
    return all(isinstance(name, str) for name in names) and bool(meta["name"])


def _not_applicable(document: Document, path: ValuePath, data: Any) -> Iterator[Problem]:
    """Return a problem if a value is not an object that can be applied."""
    if not isinstance(data, dict):
        message = "expected a Kubernetes object"
        yield Problem((), message, "unknown-kind", place=document.place(path))
        return
    version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    if not dialects.is_foreign(version, kind):
        message = f"this {kind} is not rendered yet"
        hint = "run mlgen render - before mlgen verify -"
        yield Problem((), message, "not-rendered", hint, place=document.place(path))


def _without_duplicates(parts: Sequence[_Part], collector: Collector) -> list[_Part]:
    """Return the first of all objects with the same identity; report duplicates in a job."""
    unique: dict[Key, _Part] = {}
    for part in parts:
        (key,) = keys([part.data])
        first = unique.setdefault(key, part)
        job = part.job or first.job
        if first is not part and job:
            duplicate = f"duplicate {title(part.data)}; first defined at {first.place()}"
            hint = "remove one of the two"
            if part.job and first.job not in (part.job, None):
                duplicate += f", by the job {first.job}"
                hint = "choose another name for one of the jobs, or its role"
            message = _with_job(job, part, duplicate)
            collector.add(Problem((), message, "name-collision", hint, place=part.place()))
    return list(unique.values())


def _by_namespace(job: str, parts: Sequence[_Part], collector: Collector) -> Iterator[list[_Part]]:
    """Return the objects of each job with this name.

    There is one in every namespace with a deciding Job. Objects in other namespaces are reported,
    and counted with the first job.
    """
    namespaces: dict[str, list[_Part]] = {}
    for part in parts:
        namespaces.setdefault(part.namespace, []).append(part)
    with_job = [
        namespace
        for namespace, members in namespaces.items()
        if any(member.labels.get(DECIDES) == "true" for member in members)
    ] or list(namespaces)[:1]
    first = with_job[0]
    for namespace, members in namespaces.items():
        if namespace not in with_job:
            stray, other = members[0], namespaces[first][0]
            difference = (
                f"{title(stray.data)} is {_in_namespace(namespace)}, "
                f"but {title(other.data)} is {_in_namespace(first)}"
            )
            message = _with_job(job, stray, difference)
            hint = HINTS["namespace"]
            collector.add(Problem((), message, "namespace", hint, place=stray.place()))
            namespaces[first] += members
    yield from (namespaces[namespace] for namespace in with_job)


def _in_namespace(namespace: str) -> str:
    return f"in the namespace {namespace}" if namespace else "in no namespace"


def _verified(
    name: str, parts: Sequence[_Part], kube_version: KubeVersion, collector: Collector
) -> Verified:
    """Return one job, and report its problems.

    The checks rely on the shape of the objects, so they run only if no object is malformed.
    """
    objects = [part.data for part in parts]
    part_of = {id(part.data): part for part in parts}
    rejected = list(rejected_fields(objects, kube_version))
    reported = [_located(name, part_of[id(error.item)], error) for error in rejected]
    collector.extend(reported)
    malformed = {id(part.data): each for part in parts for each in _malformed(name, part)}
    if malformed:
        known = {id(error.item) for error in rejected}
        collector.extend(malformed[key] for key in malformed if key not in known)
        return Verified(name, parts[0].namespace, len(objects), 0)
    job = Objects(name, objects)
    every = checks.located(job, kube_version)
    errors = (each for each in every if not each.problem.warning)
    located = dict.fromkeys(_located(name, part_of[id(error.item)], error) for error in errors)
    same = {(problem.place, problem.code) for problem in reported}
    collector.extend(item for item in located if (item.place, item.code) not in same)
    count = sum(pods.count or 0 for pods in job.pods if pods.subdomain[1])
    return Verified(name, parts[0].namespace, len(objects), count)


def rejected_fields(objects: Iterable[Object], kube_version: KubeVersion) -> Iterator[Located]:
    """Return every problem with the API's schema, in the objects of which it has the kinds."""
    for item in (item for item in objects if has_kind(item["kind"])):
        for problem in broken_structure(item["kind"], item, kube_version):
            message = f"{title(item)}: {dotted(problem.path)}: {problem.message}"
            there = Problem(role_path(item), message, problem.code, problem.hint)
            yield Located(item, problem.path, there)


def _located(job: str, part: _Part, located: Located) -> Problem:
    """Return a problem of an object as one of the stream: with place, object and another hint."""
    problem, name = located.problem, title(part.data)
    message = problem.message if name in problem.message else f"{name}: {problem.message}"
    hint = HINTS.get(problem.code, problem.hint)
    place = part.place(located.path)
    return Problem((), _with_job(job, part, message), problem.code, hint, place=place)


def _malformed(job: str, part: _Part) -> Iterator[Problem]:
    """Return at most one problem: the first field that does not have the rendered shape."""
    data = part.data
    mismatch = next(mismatches(data, SHAPES[data["kind"]] | METADATA), None)
    if mismatch:
        path, reason = mismatch
        difference = f"{title(data)} does not match what mlgen renders: {dotted(path)} {reason}"
        message = _with_job(job, part, difference)
        hint = "keep this field as rendered"
        yield Problem((), message, "malformed", hint, place=part.place(path))


def mismatches(value: Any, shape: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Return the paths at which a value does not have a shape, each with the reason.

    Args:
        value: any data.
        shape: a type; `[shape]`, a list; or a mapping of shapes. A key that ends with `?` is an
            optional field, and `*` stands for all fields.
        path: of the value.
    """
    expected: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        yield path, f"is not {TYPE_NAMES[expected]}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from mismatches(item, shape[0], (*path, number))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if key == "*":
                for field in value:
                    yield from mismatches(value[field], inner, (*path, field))
            elif name in value:
                yield from mismatches(value[name], inner, (*path, name))
            elif key == name:
                yield (*path, name), "is missing"


TYPE_NAMES = {str: "a string", int: "an integer", dict: "a mapping", list: "a list"}

STRINGS = {"*": str}
METADATA = {"metadata": {"name": str, "labels": STRINGS, "annotations?": STRINGS}}

CONFIG_MAP = {"configMap?": {"name?": str, "items?": [{"key": str}]}}

CONTAINER = {
    "name": str,
    "image?": str,
    "command?": [str],
    "args?": [str],
    "env?": [{"name": str, "value?": str, "valueFrom?": {"configMapKeyRef?": {"name?": str}}}],
    "envFrom?": [{"configMapRef?": {"name?": str}}],
    "ports?": [{"containerPort": int}],
    "volumeMounts?": [{"name": str}],
}

TEMPLATE = {
    "metadata": {"labels": STRINGS, "annotations?": STRINGS},
    "spec": {
        "subdomain?": str,
        "hostname?": str,
        "serviceAccountName?": str,
        "schedulingGroup?": {"podGroupName?": str},
        "initContainers?": [CONTAINER],
        "containers": [CONTAINER],
        "volumes?": [{"name": str, **CONFIG_MAP, "projected?": {"sources?": [CONFIG_MAP]}}],
    },
}

SELECTOR = {"matchLabels": STRINGS}

SHAPES: dict[str, dict[str, Any]] = {
    "ServiceAccount": {},
    "Role": {"rules": [{"resources?": [str], "resourceNames?": [str], "verbs": [str]}]},
    "RoleBinding": {
        "roleRef": {"name": str},
        "subjects?": [{"kind": str, "name": str, "namespace?": str}],
    },
    "ConfigMap": {"data?": STRINGS, "binaryData?": STRINGS},
    "Service": {
        "spec": {"selector": STRINGS, "clusterIP?": str, "ports?": [{"port": int}]},
    },
    "PodGroup": {
        "spec": {"minMember?": int, "schedulingPolicy?": {"gang?": {"minCount?": int}}},
    },
    "Deployment": {"spec": {"replicas?": int, "selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {
        "spec": {"replicas?": int, "serviceName?": str, "selector": SELECTOR, "template": TEMPLATE}
    },
    "Job": {
        "spec": {
            "completions?": int,
            "parallelism?": int,
            "completionMode?": str,
            "template": TEMPLATE,
        }
    },
}
"""The fields that the checks read, for each kind that mlgen renders."""
