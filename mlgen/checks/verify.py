"""A finished stream of manifests → whether the jobs in it are still what mlgen made.

Overlays, charts, `sed` and hands change names, labels and numbers after rendering. The objects of
a job are found by their label `mlgen.dev/job`, and held against the same rules as when they were
made; what is said of them is said at their place in the stream.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen import checks, dialects
from mlgen.checks.pods import WORKLOADS, Finding, called, pods_of
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.objects import Key, keys, without_nulls
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects.labels import DECIDES, JOB
from mlgen.problems import Collector, MlgenError, Place, Problem, ValuePath, dotted

BEFORE = "change the job before it is rendered, not what was rendered: see docs/verify.md"

HINTS = {
    "deciding": "leave the label mlgen.dev/decides as it was rendered",
    "name-too-long": "take a shorter prefix or suffix",
    "namespace": "put all objects of a job into one namespace, before it is rendered",
    "no-such-peer": BEFORE,
    "port": BEFORE,
    "reference": BEFORE,
    "selector": "leave labels and selectors as they were rendered",
    "too-large": "change less, or use fewer replicas",
    "volume": BEFORE,
}
"""What to do about a problem of this code where there is a stream, and no job file to mend."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A job of which all objects fit together.

    Attributes:
        pods: how many there are at once, without the supervisor's and TensorBoard's.
    """

    name: str
    namespace: str
    objects: int
    pods: int

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        pods = f"{self.pods} pod{'' if self.pods == 1 else 's'}"
        return f"{name}: verified, {self.objects} objects, {pods}"


@dataclass(frozen=True, slots=True)
class _Part:
    """An object of a stream, and where in which document it stands."""

    data: dict[str, Any]
    document: Document
    within: ValuePath

    def place(self, where: ValuePath = ()) -> Place:
        return self.document.place((*self.within, *where))

    @property
    def namespace(self) -> str:
        return str(self.data["metadata"].get("namespace") or "")

    @property
    def labels(self) -> Mapping[str, Any]:
        labels = self.data["metadata"].get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def job(self) -> str | None:
        """The job that it is of."""
        named = self.labels.get(JOB) if self.data["kind"] in SHAPES else None
        return None if named is None else str(named)

    @property
    def is_status(self) -> bool:
        """Whether it is what a supervisor writes to, which must not be found by the job's label."""
        words = {MANAGED_BY: "mlgen", COMPONENT: "status"}
        return self.data["kind"] == "ConfigMap" and words.items() <= self.labels.items()


COMPONENT, MANAGED_BY, PART_OF = (
    f"app.kubernetes.io/{word}" for word in ("component", "managed-by", "part-of")
)


def verify(texts: Iterable[Text], kube_version: KubeVersion) -> list[Verified]:
    """Return the jobs of a stream, all of whose objects fit together.

    Args:
        texts: hold the manifests, in any order, among any others.
        kube_version: of the cluster.

    Raises:
        MlgenError: with every problem, each with its place; or there is no job.
    """
    texts = list(texts)
    collector = Collector()
    documents = []
    for text in texts:
        for document in read_documents(text):
            if isinstance(document, list):
                collector.extend(document)
            else:
                documents.append(document)
    jobs = verify_documents(documents, kube_version, collector)
    if not jobs and not collector.problems:
        collector.add(_no_job(texts))
    if collector.problems:
        order = {text.name: number for number, text in reversed(list(enumerate(texts)))}
        problems = sorted(collector.problems, key=lambda problem: _position(problem, order))
        raise MlgenError(problems)
    return jobs


def verify_documents(
    documents: Iterable[Document], kube_version: KubeVersion, collector: Collector
) -> list[Verified]:
    """Return the jobs of a stream, whether or not their objects fit together.

    Args:
        documents: of the whole stream.
        kube_version: of the cluster.
        collector: is told every problem.
    """
    jobs: dict[str, list[_Part]] = {}
    parts = _once(list(_parts(documents, collector)), collector)
    for part in parts:
        if part.job is not None:
            jobs.setdefault(part.job, []).append(part)
    for part in (part for part in parts if part.job is None and part.is_status):
        for same in jobs.values():
            if any(part.labels.get(PART_OF) == other.labels.get(PART_OF) for other in same):
                same.append(part)
    return [
        _verified(name, group, kube_version, collector)
        for name, same in jobs.items()
        for group in _apart(name, same, collector)
    ]


def _position(problem: Problem, order: Mapping[str, int]) -> tuple[int, int, int]:
    place = problem.place or Place("")
    return order.get(place.file, 0), place.line, place.column


def _of(job: str, part: _Part, message: str) -> str:
    name = f"{part.namespace}/{job}" if part.namespace else job
    return " ".join(f"{name}: {message}".split())


def _no_job(texts: Sequence[Text]) -> Problem:
    message = f"no object here has the label {JOB}, so none is of a job that mlgen rendered"
    hint = "name the manifests that are applied, with the labels that mlgen gave them"
    return Problem((), message, "no-job", hint, place=Place(texts[0].name))


def _parts(documents: Iterable[Document], collector: Collector) -> Iterator[_Part]:
    """Every object that can be told apart from others; of a job, with the problems of its YAML."""
    for document in documents:
        for within, data in _items(document):
            collector.extend(_unfit(document, within, data))
            if not _is_object(data):
                continue
            part = _Part(data, document, within)
            if part.job is not None:
                collector.extend(document.problems)
            yield part


def _items(document: Document) -> Iterator[tuple[ValuePath, Any]]:
    """The document, or what is in it if it is a List."""
    data = document.data
    items = data.get("items") if isinstance(data, dict) and data.get("kind") == "List" else None
    if not isinstance(items, list):
        yield (), without_nulls(data)
        return
    for number, item in enumerate(items):
        yield ("items", number), without_nulls(item)


def _is_object(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    meta = data["metadata"]
    names = (data.get("apiVersion"), data.get("kind"), meta.get("name"), meta.get("namespace", ""))
    return all(isinstance(name, str) for name in names) and bool(meta["name"])


def _unfit(document: Document, within: ValuePath, data: Any) -> Iterator[Problem]:
    """What stands in the stream although nothing in a cluster knows it."""
    if not isinstance(data, dict):
        message = "is no Kubernetes object"
        yield Problem((), message, "unknown-kind", place=document.place(within))
        return
    version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    if not dialects.is_foreign(version, kind):
        message = f"this {kind} is not rendered yet"
        hint = "put mlgen render - before mlgen verify -"
        yield Problem((), message, "not-rendered", hint, place=document.place(within))


def _once(parts: Sequence[_Part], collector: Collector) -> list[_Part]:
    """Every object once; of two that are the same in a cluster, the second overwrites the first."""
    first: dict[Key, _Part] = {}
    for part in parts:
        (key,) = keys([part.data])
        before = first.setdefault(key, part)
        job = part.job or before.job
        if before is not part and job:
            again = f"{called(part.data)} stands here again, after {before.place()}"
            message = _of(job, part, again)
            hint = "leave one of the two out"
            collector.add(Problem((), message, "name-collision", hint, place=part.place()))
    return list(first.values())


def _apart(job: str, parts: Sequence[_Part], collector: Collector) -> Iterator[list[_Part]]:
    """The objects of jobs of one name, by namespace: a job is where its deciding Job is."""
    spaces: dict[str, list[_Part]] = {}
    for part in parts:
        spaces.setdefault(part.namespace, []).append(part)
    homes = [
        name for name, same in spaces.items() if any(o.labels.get(DECIDES) == "true" for o in same)
    ]
    home = (homes or list(spaces))[0]
    for name, same in spaces.items():
        if name not in (homes or [home]):
            others = spaces[home]
            what = f"{called(same[0].data)} is {_named(name)}"
            message = _of(job, same[0], f"{what}, and {called(others[0].data)} {_named(home)}")
            hint = HINTS["namespace"]
            collector.add(Problem((), message, "namespace", hint, place=same[0].place()))
            others += same
    yield from (spaces[name] for name in homes or [home])


def _named(namespace: str) -> str:
    return f"in the namespace {namespace}" if namespace else "in no namespace"


def _verified(
    name: str, parts: Sequence[_Part], kube_version: KubeVersion, collector: Collector
) -> Verified:
    """One job; what is wrong with it is added to the problems."""
    unlike = [problem for part in parts for problem in _misshapen(name, part)]
    collector.extend(unlike)
    objects = [part.data for part in parts]
    if not unlike:
        where = {id(part.data): part for part in parts}
        found = checks.findings(name, objects, kube_version)
        told = (_told(name, where[id(one.item)], one) for one in found if not one.problem.warning)
        collector.extend(dict.fromkeys(told))
    pods = [] if unlike else [pods_of(item) for item in objects if item["kind"] in WORKLOADS]
    count = sum(found.count or 0 for found in pods if found.subdomain[1])
    return Verified(name, parts[0].namespace, len(objects), count)


def _told(job: str, part: _Part, finding: Finding) -> Problem:
    """A finding, at its place in the stream, with the object's name and a hint that fits there."""
    problem, name = finding.problem, called(part.data)
    message = problem.message if name in problem.message else f"{name}: {problem.message}"
    hint = HINTS.get(problem.code, problem.hint)
    place = part.place(finding.where)
    return Problem((), _of(job, part, message), problem.code, hint, place=place)


def _misshapen(job: str, part: _Part) -> Iterator[Problem]:
    """At most one problem: where the object first differs in shape from what mlgen renders."""
    data = part.data
    wrong = next(_misfits(data, SHAPES[data["kind"]] | METADATA), None)
    if wrong:
        where, what = wrong
        unlike = f"{called(data)} is not what mlgen renders: {dotted(where)} {what}"
        message = _of(job, part, unlike)
        hint = "leave this field as it was rendered"
        yield Problem((), message, "malformed", hint, place=part.place(where))


def _misfits(value: Any, shape: Any, where: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Where a value has not the shape that the checks rely on, and what is wrong there.

    Args:
        value: any data.
        shape: a type; `[shape]`, a list of such; or a mapping, whose key may end in `?`, if the
            field can be missing, or be `*`, for all fields.
        where: the way to the value.
    """
    kind: Any = shape if isinstance(shape, type) else type(shape)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if not fits:
        yield where, f"is not {KINDS[kind]}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from _misfits(item, shape[0], (*where, number))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if key == "*":
                for field in value:
                    yield from _misfits(value[field], inner, (*where, field))
            elif name in value:
                yield from _misfits(value[name], inner, (*where, name))
            elif key == name:
                yield (*where, name), "is missing"


KINDS = {str: "a text", int: "a whole number", dict: "a mapping", list: "a list", bool: "a boolean"}

TEXTS = {"*": str}
METADATA = {"metadata": {"name": str, "labels": TEXTS, "annotations?": TEXTS}}

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
    "metadata": {"labels": TEXTS, "annotations?": TEXTS},
    "spec": {
        "subdomain?": str,
        "hostname?": str,
        "serviceAccountName?": str,
        "initContainers?": [CONTAINER],
        "containers": [CONTAINER],
        "volumes?": [{"name": str, **CONFIG_MAP, "projected?": {"sources?": [CONFIG_MAP]}}],
    },
}

SELECTOR = {"matchLabels": TEXTS}

SHAPES: dict[str, dict[str, Any]] = {
    "ServiceAccount": {},
    "Role": {"rules": [{"resources?": [str], "resourceNames?": [str]}]},
    "RoleBinding": {
        "roleRef": {"name": str},
        "subjects?": [{"kind": str, "name": str, "namespace?": str}],
    },
    "ConfigMap": {"data?": TEXTS, "binaryData?": TEXTS},
    "Service": {
        "spec": {"selector": TEXTS, "clusterIP?": str, "ports?": [{"port": int}]},
    },
    "PodGroup": {"spec": {"minMember?": int}},
    "Deployment": {"spec": {"replicas?": int, "selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {
        "spec": {"replicas?": int, "serviceName?": str, "selector": SELECTOR, "template": TEMPLATE}
    },
    "Job": {
        "spec": {
            "completions": int,
            "parallelism?": int,
            "completionMode?": str,
            "template": TEMPLATE,
        }
    },
}
"""What the checks read of each kind that mlgen makes for a job; an object may have more."""
