"""A stream of rendered manifests → a line for each job, and problems with file and line.

Overlays, charts, `sed` and users change names, labels and numbers after rendering. The objects of a
job are identified by their label `mlgen.dev/job` and checked by the same rules as in rendering.
These rules rely on the shape of the objects, which `schemas/checks/verify.json` describes.

The program of a supervisor must be the one that this mlgen builds, byte for byte. Whoever can
change it acts with the supervisor's permissions. The annotation of the program proves nothing,
because it can be changed as well.
"""

import re
from base64 import b64decode
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mlgen import checks, dialects
from mlgen.checks.pods import Located, Objects, items_of, role_path, title, with_jobs
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.objects import Key, Object, keys, without_nulls
from mlgen.kubernetes.schema import broken_structure, has_kind
from mlgen.kubernetes.values import value_at
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects.labels import (
    DECIDES,
    INSTANCE,
    JOB,
    PROGRAM,
    ROLE,
    SUPERVISES,
    is_rendered_jobset,
    part_of,
)
from mlgen.objects.supervisor import (
    FILE,
    FOLDER,
    IN_ARCHIVE,
    IN_IMAGE,
    NAME,
    PLAN,
    archive,
    planned,
    read_plan,
)
from mlgen.problems import (
    Code,
    Collector,
    Place,
    Problem,
    ValuePath,
    dotted,
    limited_hints,
    severe,
)
from mlgen.resources import table
from mlgen.version import VERSION

FIELDS = {
    *("name", "image", "imagePullPolicy", "command", "env", "ports", "resources"),
    *("securityContext", "terminationMessagePath", "terminationMessagePolicy", "volumeMounts"),
}
"""The fields of a container that are checked, or do not start a program."""

PREFIXES = ("PYTHON", "LD_")
"""Prefixes of variables that can make Python, or any program, run other code."""

HARMLESS = {
    *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING"),
    *("PYTHONMALLOC", "PYTHONUNBUFFERED", "PYTHONUTF8"),
}
"""Variables with such a prefix that run no other code:
https://docs.python.org/3/using/cmdline.html#environment-variables."""

OURS = f"the program of mlgen {VERSION}"
HINT = "read it with mlgen show --program, or render the job again with this mlgen"

POD = ("spec", "template", "spec")


def unknown(objects: Sequence[Object]) -> Iterator[Located]:
    """Yield a warning for each place from which a supervisor gets or starts an unknown program.

    Args:
        objects: of a job, in the shape of `schemas/checks/verify.json`.
    """
    for item in objects:
        if program_path(item) and not is_known(item):
            yield unknown_program(item)
    programs = {item["metadata"]["name"] for item in objects if program_path(item)}
    for item in objects:
        if item["kind"] == "Job" and item["metadata"]["labels"].get(ROLE) == NAME:
            yield from _started(item, programs)


def unknown_program(item: Object) -> Located:
    """Return the warning for a ConfigMap of any shape that has another program."""
    claim = value_at(item, ("metadata", "annotations", PROGRAM))
    claimed = f"; its annotation names {claim}" if claim else ""
    return _warning(item, program_path(item), f"{FILE} is not {OURS}{claimed}")


def program_path(item: Object) -> ValuePath:
    """Return the path of the program in an object of any shape; () if it has none."""
    paths = [(field, FILE) for field in ("data", "binaryData")]
    is_map = item.get("kind") == "ConfigMap"
    return next((path for path in paths if is_map and value_at(item, path) is not None), ())


def is_known(item: Object) -> bool:
    """Return whether a ConfigMap of any shape has exactly the program that its plan needs."""
    try:
        content = b64decode(item["binaryData"][FILE], validate=True)
        # The plan of a workflow's step is not in the ConfigMap of a supervisor.
        return content == archive(read_plan(item["data"][PLAN]), step=planned(item) is None)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return False


def _started(job: Object, programs: set[str]) -> Iterator[Located]:
    """Yield a warning for each field of a supervisor's Job that starts an unknown program."""
    pod = job["spec"]["template"]["spec"]
    names = [each["name"] for each in pod["containers"]]
    if NAME not in names:
        yield _warning(job, (*POD, "containers"), f"no container has the name {NAME}")
        return
    path = (*POD, "containers", names.index(NAME))
    container = pod["containers"][names.index(NAME)]
    command = container.get("command")
    if command not in (IN_ARCHIVE, IN_IMAGE):
        yield _warning(job, path, f"the container does not start {OURS}")
    for field in sorted(container.keys() - FIELDS):
        yield _warning(job, (*path, field), f"the field {field} can start another program")
    for index, variable in enumerate(container.get("env", [])):
        if variable["name"].startswith(PREFIXES) and variable["name"] not in HARMLESS:
            text = f"the variable {variable['name']} can start other code"
            yield _warning(job, (*path, "env", index), text)
    # A mount in the folder, such as one with a subPath, could replace the program.
    mounts = [each for each in container.get("volumeMounts", []) if _is_in_folder(each)]
    volumes = {each["name"]: each.get("configMap", {}) for each in pod.get("volumes", [])}
    sources = [volumes.get(each["name"], {}) for each in mounts if "subPath" not in each]
    maps = {each.get("name") for each in sources if "items" not in each} & programs
    if command == IN_ARCHIVE and (len(mounts), len(maps)) != (1, 1):
        yield _warning(job, path, f"its files in {FOLDER} are not {OURS}")


def _is_in_folder(mount: Object) -> bool:
    return f"{mount.get('mountPath')}/".startswith(f"{FOLDER}/")


def _warning(item: Object, path: ValuePath, text: str) -> Located:
    message = f"{title(item)}: {text}"
    return Located(item, path, Problem(path, message, "unknown-program", HINT, warning=True))


EXPECTED = table("checks/verify")

RENDER = "change the job file instead of the rendered manifests: see docs/reference/verify.md"
HINTS = {
    **dict.fromkeys(("no-such-peer", "port", "reference", "volume"), RENDER),
    "deciding": "keep the label mlgen.dev/decides as rendered",
    "name-too-long": "use a shorter prefix or suffix",
    "namespace": "render all objects of a job into one namespace",
    "selector": "keep labels and selectors as rendered",
    "too-large": "add less to the object, or use fewer replicas",
}
"""Hints by the code of a problem, because those of rules are for job files."""

LABELS = ("metadata", "labels")
TYPES: dict[str, Any] = {"a string": str, "an integer": int, "a mapping": dict, "a list": list}


class _Part(NamedTuple):
    """An object of a stream, with its document and its path in that document."""

    data: dict[str, Any]
    document: Document
    path: ValuePath

    def place(self, path: ValuePath = ()) -> Place:
        """Return the file, line and column of a value in the object."""
        return self.document.place((*self.path, *path))

    def problem(
        self, job: str, message: str, code: Code, hint: str, path: ValuePath = ()
    ) -> Problem:
        """Return a problem at a value, with the job's namespace and name before its message."""
        name = f"{self.namespace}/{job}" if self.namespace else job
        line = " ".join(f"{name}: {message}".split())
        return Problem((), line, code, hint, place=self.place(path))

    @property
    def namespace(self) -> str:
        return str(self.data["metadata"].get("namespace") or "")

    def label(self, name: str) -> str | None:
        """Return the text of a label, if the object has it."""
        value = value_at(self.data, ("metadata", "labels", name))
        return None if value is None else str(value)

    @property
    def job(self) -> str | None:
        """The name of the object's job; None if it belongs to no job."""
        return self.label(JOB) if self.data["kind"] in EXPECTED["kinds"] else None

    @property
    def is_status(self) -> bool:
        """True for the ConfigMap with a job's status, which lacks the job's label."""
        return part_of(self.data) == "status"

    @property
    def is_step(self) -> bool:
        """True for the ConfigMap of a workflow's step that has a program."""
        return part_of(self.data) == "manifests" and bool(program_path(self.data))

    def is_claim_of(self, jobs: Container[str]) -> bool:
        """Return whether a PersistentVolumeClaim is of a job. It lacks the label of the job."""
        return self.data["kind"] == "PersistentVolumeClaim" and self.label(INSTANCE) in jobs

    def statuses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return keys of a status or of a supervisor's status, with and without its namespace.

        Their names differ only in their ends, to which an overlay adds the same text.
        """
        name = re.sub("[-.](supervisor|status)", "", self.data["metadata"]["name"])
        instance = str(self.label(SUPERVISES) or self.job or self.label(INSTANCE))
        return (instance, name, self.namespace), (instance, name)


class Verified(NamedTuple):
    """The result of `verify`: a line for each job, and the warnings."""

    jobs: list[str]
    warnings: list[Problem]


@limited_hints()
def verify(
    texts: Iterable[Text], kube_version: KubeVersion, *, only_jobs: bool = False
) -> Verified:
    """Verify a stream. Raise if a job does not pass the checks.

    Args:
        texts: manifests in any order, with or without other objects.
        kube_version: the version of the cluster.
        only_jobs: other objects, and a program that is not of this mlgen, are errors.

    Raises:
        MlgenError: there are errors (all problems, with file and line), or there is no job.
    """
    collector = Collector()
    documents: list[Document] = []
    order: dict[str, int] = {}
    for text in texts:
        order.setdefault(text.name, len(order))
        for document in read_documents(text):
            if isinstance(document, list):
                collector.extend(each for each in document if not each.warning)
            else:
                documents.append(document)
    jobs = verify_documents(documents, kube_version, collector, only_jobs=only_jobs)
    if not jobs and not collector.problems:
        message = f"expected the objects of a job, but none has the label {JOB}"
        hint = "pass the manifests that you apply, with the labels that mlgen set"
        collector.add(Problem((), message, "no-job", hint, place=Place(next(iter(order)))))

    def position(problem: Problem) -> tuple[int, int, int]:
        place = problem.place or Place("")
        return order.get(place.file, 0), place.line, place.column

    problems = severe(sorted(collector.problems, key=position), strict=only_jobs)
    Collector(problems).raise_errors()
    return Verified(jobs, problems)


def verify_documents(
    documents: Iterable[Document],
    kube_version: KubeVersion,
    collector: Collector,
    *,
    only_jobs: bool = False,
) -> list[str]:
    """Return a line for each job of a stream, and report its problems.

    Args:
        documents: all documents of the stream.
        kube_version: the version of the cluster.
        collector: receives every problem.
        only_jobs: report other objects.
    """
    jobs: dict[str, list[_Part]] = {}
    watched: dict[tuple[str, ...], dict[str, None]] = {}
    found = list(_parts(documents, collector, only_jobs=only_jobs))
    parts = _without_duplicates(found, collector)
    for part in parts:
        if part.job is not None:
            jobs.setdefault(part.job, []).append(part)
            if part.label(ROLE) == "supervisor":
                exact, elsewhere = part.statuses()
                watched.setdefault(exact, {})[part.job] = None
                watched.setdefault(elsewhere, {part.job: None})
    for part in parts:
        if part.job is None and part.is_status:
            for job in next(filter(None, map(watched.get, part.statuses())), ()):
                jobs[job].append(part)
    lines = [
        _verified(name, group, kube_version, collector)
        for name, members in jobs.items()
        for group in _by_namespace(name, members, collector)
    ]
    own = {id(part) for members in jobs.values() for part in members}
    steps = [part for part in parts if part.job is None and part.is_step]
    lines += [_step(part, collector) for part in steps]
    own |= {id(part) for part in parts if part.is_claim_of(jobs)} | set(map(id, steps))
    others = (part for part in parts if id(part) not in own) if only_jobs else ()
    collector.extend(_foreign(part.document, part.path, part.data) for part in others)
    return [*filter(None, lines)]


def _step(part: _Part, collector: Collector) -> str:
    """Return the line of a ConfigMap with the step of a workflow, or report its program."""
    name = str(part.data["metadata"]["name"])
    if is_known(part.data):
        return f"{name}: verified, {OURS}"
    collector.add(_located(name, part, unknown_program(part.data)))
    return ""


def _foreign(document: Document, path: ValuePath, data: Object) -> Problem:
    """Return the problem of an object that belongs to no job, for --only-jobs."""
    return replace(checks.foreign(str(data.get("kind") or "")), place=document.place(path))


def _parts(
    documents: Iterable[Document], collector: Collector, *, only_jobs: bool
) -> Iterator[_Part]:
    """Yield every object with an identity. Report YAML problems of objects that belong to a job."""
    for document in documents:
        for path, item in items_of(document.data):
            data = without_nulls(item)
            if _has_jobs(data):
                yield from (_Part(each, document, at) for at, each in _of_jobset(path, data))
                continue
            collector.extend(_not_applicable(document, path, data))
            if not _is_object(data):
                if only_jobs and isinstance(data, dict):
                    collector.add(_foreign(document, path, data))
                continue
            part = _Part(data, document, path)
            if part.job is not None:
                collector.extend(document.problems)
            yield part


def _has_jobs(data: Any) -> bool:
    """Return True for a JobSet that mlgen has rendered, if its Jobs are still complete."""
    jobs = value_at(data, ("spec", "replicatedJobs"))
    return (
        (is_rendered_jobset(data) and _is_object(data) and isinstance(jobs, list) and bool(jobs))
        and all(isinstance(value_at(each, ("name",)), str) for each in jobs)
        and all(isinstance(value_at(each, ("template", "spec")), dict) for each in jobs)
        and all(isinstance(value_at(each, ("template", *LABELS)), dict) for each in jobs)
    )


def _of_jobset(path: ValuePath, jobset: Object) -> Iterator[tuple[ValuePath, Object]]:
    """Yield the Service and the Jobs that JobSet creates, each with its path in the document.

    JobSet reports the outcome of several deciding Jobs. Here, one of them is marked.
    """
    metadata, name = jobset["metadata"], jobset["metadata"]["name"]
    hidden = value_at(jobset, ("spec", "network", "publishNotReadyAddresses")) is False
    selector = {JOB: metadata["labels"].get(JOB)}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": not hidden, "selector": selector}
    own = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    own["name"] = value_at(jobset, ("spec", "network", "subdomain")) or name
    yield path, {"apiVersion": "v1", "kind": "Service", "metadata": own, "spec": spec}
    targets = value_at(jobset, ("spec", "successPolicy", "targetReplicatedJobs"))
    marked = f"{name}-{targets[0]}-0" if isinstance(targets, list) and targets[1:] else ""
    _, *jobs = with_jobs([jobset])
    for number, job in enumerate(jobs):
        if job["metadata"]["name"] == marked:
            labels = job["metadata"]["labels"] | {DECIDES: "true"}
            job["metadata"] = job["metadata"] | {"labels": labels}
        yield (*path, "spec", "replicatedJobs", number, "template"), job


def _is_object(data: Any) -> bool:
    """Return whether a value has the fields that identify an object."""
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    meta = data["metadata"]
    names = (data.get("apiVersion"), data.get("kind"), meta.get("name"), meta.get("namespace", ""))
    return all(isinstance(name, str) for name in names) and bool(meta["name"])


def _not_applicable(document: Document, path: ValuePath, data: Any) -> Iterator[Problem]:
    """Yield a problem if a value is not an object that can be applied."""
    place = document.place(path)
    if not isinstance(data, dict):
        yield Problem((), "expected a Kubernetes object", "unknown-kind", place=place)
        return
    version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    if not dialects.is_foreign(version, kind):
        hint = "run mlgen render - before mlgen verify -"
        yield Problem((), f"the {kind} is not rendered yet", "not-rendered", hint, place=place)


def _without_duplicates(parts: Sequence[_Part], collector: Collector) -> list[_Part]:
    """Return the first object with each identity. Report duplicates in a job."""
    unique: dict[Key, _Part] = {}
    for part in parts:
        (key,) = keys([part.data])
        first = unique.setdefault(key, part)
        job = part.job or first.job
        if first is not part and job:
            message = f"duplicate {title(part.data)}; first defined at {first.place()}"
            hint = "remove one of them"
            if part.job and first.job not in (part.job, None):
                message += f", by the job {first.job}"
                hint = "choose another name for one of the jobs, or its role"
            collector.add(part.problem(job, message, "name-collision", hint))
    return list(unique.values())


def _by_namespace(job: str, parts: Sequence[_Part], collector: Collector) -> Iterator[list[_Part]]:
    """Yield the objects of each job with this name.

    Every namespace with a deciding Job contains a job. Objects in other namespaces are reported,
    and counted with the first job.
    """
    namespaces: dict[str, list[_Part]] = {}
    for part in parts:
        namespaces.setdefault(part.namespace, []).append(part)
    with_job = [
        namespace
        for namespace, members in namespaces.items()
        if any(member.label(DECIDES) == "true" for member in members)
    ] or list(namespaces)[:1]
    own = namespaces[with_job[0]]
    for namespace, members in namespaces.items():
        if namespace not in with_job:
            message = f"{_whereabouts(members[0])}, but {_whereabouts(own[0])}"
            hint = HINTS["namespace"]
            collector.add(members[0].problem(job, message, "namespace", hint))
            own += members
    yield from (namespaces[namespace] for namespace in with_job)


def _whereabouts(part: _Part) -> str:
    """Return a clause with the namespace of an object."""
    where = f"the namespace {part.namespace}" if part.namespace else "no namespace"
    return f"{title(part.data)} is in {where}"


def _verified(
    name: str, parts: Sequence[_Part], kube_version: KubeVersion, collector: Collector
) -> str:
    """Return the line of one job, and report its problems.

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
        return ""
    job = Objects(name, objects)
    every = checks.located(job, kube_version)
    errors = (each for each in every if not each.problem.warning)
    located = dict.fromkeys(_located(name, part_of[id(error.item)], error) for error in errors)
    same = {(problem.place, problem.code) for problem in reported}
    collector.extend(item for item in located if (item.place, item.code) not in same)
    others = [_located(name, part_of[id(each.item)], each) for each in unknown(objects)]
    collector.extend(others)
    # The pods of the supervisor and TensorBoard have no subdomain.
    count = sum(pods.count or 0 for pods in job.pods if pods.subdomain[1])
    full = f"{parts[0].namespace}/{name}" if parts[0].namespace else name
    pods = f"{count} pod{'' if count == 1 else 's'}"
    ours = f", {OURS}" if any(map(program_path, objects)) and not others else ""
    return f"{full}: verified, {len(objects)} objects, {pods}{ours}"


def rejected_fields(objects: Iterable[Object], kube_version: KubeVersion) -> Iterator[Located]:
    """Yield the problems of objects whose kind is in the API's schema."""
    for item in (item for item in objects if has_kind(item["kind"])):
        for problem in broken_structure(item["kind"], item, kube_version):
            message = f"{title(item)}: {dotted(problem.path)}: {problem.message}"
            there = Problem(role_path(item), message, problem.code, problem.hint)
            yield Located(item, problem.path, there)


def _located(job: str, part: _Part, located: Located) -> Problem:
    """Return a problem with its place in the stream, the object's name and the hint of verify."""
    problem, name = located.problem, title(part.data)
    message = problem.message if name in problem.message else f"{name}: {problem.message}"
    hint = HINTS.get(problem.code, problem.hint)
    found = part.problem(job, message, problem.code, hint, located.path)
    return replace(found, warning=problem.warning)


def _malformed(job: str, part: _Part) -> Iterator[Problem]:
    """Yield at most one problem: the first field that does not have the rendered shape."""
    shape = EXPECTED["kinds"][part.data["kind"]] | {"metadata": "Metadata"}
    for path, reason in mismatches(part.data, shape):
        message = f"{title(part.data)} does not match what mlgen renders: {dotted(path)} {reason}"
        yield part.problem(job, message, "malformed", "keep this field as rendered", path)
        return


def mismatches(value: Any, shape: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Yield each path at which a value does not match a shape, with the reason.

    Args:
        value: any data.
        shape: a type, the name of a part in `schemas/checks/verify.json`, a list `[shape]`, or a
            mapping of shapes. A key that ends with `?` is an optional field. `*` is any field.
        path: the path of the value.
    """
    if isinstance(shape, str):
        shape = EXPECTED["parts"].get(shape, shape)
    kind = (
        "a mapping" if isinstance(shape, dict) else "a list" if isinstance(shape, list) else shape
    )
    if not isinstance(value, TYPES[kind]) or (kind == "an integer" and isinstance(value, bool)):
        yield path, f"is not {kind}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from mismatches(item, shape[0], (*path, number))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            name = key.removesuffix("?")
            for field in value if key == "*" else [name]:
                if field in value:
                    yield from mismatches(value[field], inner, (*path, field))
                elif key == name:
                    yield (*path, name), "is missing"
