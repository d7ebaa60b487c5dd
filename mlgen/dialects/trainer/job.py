"""A TrainJob, its runtime, and the JobSet that they are merged to.

Every value has its file and line. The runtime is from the input, from --runtime, or published by
Trainer.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from shlex import quote
from typing import Any, NamedTuple

from mlgen.dialects._builder import namespace_option
from mlgen.documents.document import UNWRITTEN, Document, Mark
from mlgen.documents.files import Text
from mlgen.kubernetes.values import KEYS, merge_key, merged, value_at
from mlgen.problems import Collector, MlgenError, Place, Problem, choice, did_you_mean
from mlgen.resources import table


class Written(NamedTuple):
    """A value with its mark. It is false if the value is None (unset).

    Attributes:
        value: the value.
        mark: its place, and as `origin` its path in its file.
        around: the mark of the nearest value around it that is in a file.
    """

    value: Any
    mark: Mark = UNWRITTEN
    around: Mark = UNWRITTEN

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "Written":
        """Return a value within this one. Its `value` is None if it does not exist."""
        value, mark, around = self
        for step in steps:
            value, mark = value_at(value, (step,)), _below(mark, step)
            around = mark if mark.place else around
        return Written(value, mark, around)

    @property
    def name(self) -> str:
        """The field `name` of a mapping."""
        return str(self.get("name").value)

    def items(self) -> "Iterator[Written]":
        """Yield the items of a list. None counts as empty."""
        return (self.get(i) for i in range(len(self.value or [])))

    def as_value(self, value: Any) -> "Written":
        """Return another value with this one as its origin."""
        mark = self.around
        return Written(value, Mark(mark.place, mark.key, None, mark.origin))

    def problem(self, message: str, hint: str, *, warning: bool = False) -> Problem:
        """Return a problem of this value: Trainer rejects it, or a difference as a warning."""
        path, place = self.around.origin or (), self.around.place
        return Problem(path, message, "differs" if warning else "refused", hint, warning, place)


def _below(mark: Mark, step: str | int) -> Mark:
    """Return the mark of an inner value, with its path in the file as origin."""
    inner = mark.inner.get(step, UNWRITTEN)
    if inner.origin is not None or not inner.place or mark.origin is None:
        return inner
    return Mark(inner.place, inner.key, inner.text, (*mark.origin, step), inner.inner)


def written(document: Document) -> Written:
    """Return the data of a document."""
    marks = document.marks
    root = Mark(marks.place, marks.key, marks.text, (), marks.inner)
    return Written(document.data, root, root)


def tree(node: Any) -> Written:
    """Return a value that is put together from others.

    Args:
        node: mappings, lists and plain values, which are not in a file, and `Written` values.
    """
    if isinstance(node, Written):
        return node
    if isinstance(node, dict):
        parts: dict[Any, Written] = {key: tree(value) for key, value in node.items()}
        data: Any = {key: part.value for key, part in parts.items()}
    elif isinstance(node, list):
        parts = dict(enumerate(map(tree, node)))
        data = [part.value for part in parts.values()]
    else:
        return Written(node)
    return Written(data, Mark(inner={key: part.mark for key, part in parts.items()}))


def patched(base: Written, patch: Written) -> Written:
    """Return a value with a strategic merge patch applied. Does not change the arguments."""
    value = merged(base.value, patch.value)
    mark = _mark(value, [patch, base])
    return Written(value, mark, mark if mark.place else base.around)


def _mark(value: Any, sources: list[Written], name: str = "") -> Mark:
    """Return the marks of a merged value.

    Args:
        value: the value.
        sources: the values that it was merged from, the one that takes precedence first.
        name: the name of the field that holds it.
    """
    inner: dict[str | int, Mark] = {}
    holder = next(iter(sources), Written(None)).mark
    if isinstance(value, dict):
        for key, item in value.items():
            having = [s.get(key) for s in sources if isinstance(s.value, dict) and key in s.value]
            inner[key] = _mark(item, having, key)
    elif isinstance(value, list) and name in KEYS:
        items = _items(sources, KEYS[name])
        inner = {i: _mark(item, items(item)) for i, item in enumerate(value)}
    elif isinstance(value, list):
        inner = {i: _mark(item, [sources[0].get(i)]) for i, item in enumerate(value)}
    if isinstance(value, dict | list):
        holder = next((s.mark for s in reversed(sources) if s.mark.place), UNWRITTEN)
    return Mark(holder.place, holder.key, holder.text, holder.origin, inner)


def _items(sources: list[Written], name: str) -> Callable[[Any], list[Written]]:
    """Return a function that returns the items that the next item of a list was merged from.

    The items of a patch with one merge key, of which the last takes precedence, are merged into
    the first item of the base with this key. Further items of the base are unchanged.
    """
    *patches, base = [_by_key(source, name) for source in sources] or [{}]

    def items(item: Any) -> list[Written]:
        key = merge_key(item, name)
        of_patches = [each for patch in patches for each in reversed(patch.pop(key, []))]
        of_base = base.get(key)
        return [*of_patches, of_base.pop(0)] if of_base else of_patches

    return items


def _by_key(source: Written, name: str) -> dict[Any, list[Written]]:
    """Return the items of a list by their merge key."""
    found: dict[Any, list[Written]] = {}
    for item in source.items() if isinstance(source.value, list) else ():
        found.setdefault(merge_key(item.value, name), []).append(item)
    return found


STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a replicated Job that shows which part of the TrainJob configures it."""

TRAINER = "trainer"
"""The value of `STEP` for the Jobs that `spec.trainer` configures."""

NODE, LAUNCHER = "node", "launcher"
"""The replicated Jobs with the nodes of MPI and with mpirun. The first is also the container that
`spec.trainer` configures."""

INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
"""The value of `STEP`, the Job and the container, by field of `spec.initializer`."""

POD = ("template", "spec", "template", "spec")
"""The path of the pods of a replicated Job."""

CONTAINERS = ("containers", "initContainers")


class TrainJob:
    """A TrainJob that is merged with its runtime.

    Attributes:
        job: the TrainJob.
        runtime: its runtime.
        jobset: the `spec` of the JobSet.
        collector: collects problems.
        counts: the number of pods of each replicated Job.
        hostfile: of mpirun, for which a JobSet has no field; "" for none.
    """

    def __init__(self, job: Written, runtime: Written, collector: Collector) -> None:
        self.job, self.runtime, self.collector = job, runtime, collector
        self.spec, self.trainer = job.get("spec"), job.get("spec", "trainer")
        self.policy = runtime.get("spec", "mlPolicy")
        self.jobset = runtime.get("spec", "template", "spec")
        metadata = job.value["metadata"]
        self.name = metadata.get("name") or metadata.get("generateName", "").rstrip("-.")
        self.counts: dict[str, Written] = {}
        self.hostfile = ""

    def refuse(self, source: Written, message: str, hint: str = "") -> None:
        """Report an error about a value, unless it is not set; see `Builder.refuse`."""
        if source:
            self.collector.add(source.problem(message, hint))

    def warn(self, source: Written, message: str, hint: str = "") -> None:
        """Report a difference from Trainer, unless the value is not set; see `Builder.warn`."""
        if source:
            self.collector.add(source.problem(message, hint, warning=True))

    def refuse_container(self, source: Written, job: object) -> None:
        """Report the name of a container that a replicated Job does not have."""
        self.refuse(
            source,
            f'the Job {job} of the runtime has no container named "{source.value}"',
            "Trainer changes existing containers only",
        )

    def jobs(self, part: str = "") -> list[Written]:
        """Return the replicated Jobs, or only those that a part of the TrainJob configures."""
        jobs = self.jobset.get("replicatedJobs").items()
        return [job for job in jobs if not part or step(job) == part]

    def patches(self) -> Iterator[Written]:
        """Yield the replicated Jobs in `runtimePatches`."""
        for patch in self.spec.get("runtimePatches").items():
            yield from patch.get(
                "trainingRuntimeSpec", "template", "spec", "replicatedJobs"
            ).items()

    def patch(self, job: str, template: Any) -> None:
        """Merge a patch of the template of a replicated Job."""
        node = tree({"replicatedJobs": [{"name": job, "template": template}]})
        self.jobset = patched(self.jobset, node)

    def patch_pod(self, job: str, spec: Any) -> None:
        """Merge a patch of the pods of a replicated Job."""
        self.patch(job, {"spec": {"template": {"spec": spec}}})

    def patch_container(self, job: str, name: str, fields: Any, kind: str = "containers") -> None:
        """Merge a patch of a container of a replicated Job, if the container exists."""
        if container(self.find(job), name, kind):
            self.patch_pod(job, {kind: [{"name": name, **fields}]})

    def with_fields(self, fields: dict[str, Any]) -> Written:
        """Return the `spec` of the JobSet with further fields."""
        return patched(self.jobset, tree(fields))

    def find(self, name: str) -> Written:
        """Return a replicated Job by its name."""
        return next((job for job in self.jobs() if job.name == name), Written(None))

    def require(self, name: Written) -> bool:
        """Return True if the runtime has a replicated Job of this name; else report it."""
        names = [each.name for each in self.jobs()]
        if name.value not in names:
            self.refuse(
                name,
                f'the {self.title} has no Job named "{name.value}"',
                choice(str(name.value), names),
            )
        return name.value in names

    def is_policy(self, name: str) -> bool:
        """Return True if the runtime has this ML policy."""
        return bool(self.policy.get(name))

    @property
    def leader(self) -> str:
        """The address of the first node."""
        return f"{self.name}-{NODE}-0-0.{self.subdomain}"

    @property
    def subdomain(self) -> str:
        """The subdomain of the pods."""
        return str(self.jobset.get("network", "subdomain").value or self.name)

    @property
    def title(self) -> str:
        """The kind and name of the runtime."""
        return f"{self.runtime.value['kind']} {self.runtime.value['metadata'].get('name')}"

    @property
    def resources(self) -> dict[str, Any]:
        """The resources of a node, from which Trainer computes the number of processes."""
        given = self.trainer.get("resourcesPerNode").value
        if given is not None:
            return dict(given)
        for each in self.jobs():
            if each.name == NODE or step(each) == TRAINER:
                resources = container(each, NODE).get("resources").value
                if resources is not None:
                    return dict(resources)
        return {}

    @property
    def has_launcher_as_node(self) -> bool:
        """True if mpirun also starts processes in the launcher."""
        return bool(self.policy.get("mpi", "runLauncherAsNode").value)

    def trained(self) -> list[str]:
        """Return the replicated Jobs that `trainer` configures."""
        names = [job.name for job in self.jobs(TRAINER)]
        return [*names, *([NODE] if self.has_launcher_as_node and NODE not in names else [])]


def step(job: Written) -> str:
    """Return the part of the TrainJob that configures a replicated Job."""
    return str(job.get("template", "metadata", "labels", STEP).value or "")


def container(job: Written, name: str, kind: str = "containers") -> Written:
    """Return a container of a replicated Job by its name."""
    items = job.get(*POD, kind).items()
    return next((item for item in items if item.name == name), Written(None))


def variables(env: Written) -> list[dict[str, Any]]:
    """Return variables as a patch that replaces variables of the same name."""
    empty = {"value": None, "valueFrom": None}
    return [empty | {field: item.get(field) for field in item.value} for item in env.items()]


VERSION = "trainer.kubeflow.org/v1alpha1"

CLUSTER = "ClusterTrainingRuntime"
"""The default of `runtimeRef.kind`."""

KINDS = (CLUSTER, "TrainingRuntime")

COPY = "{name} of Trainer {version}"
"""The file name in messages about a runtime that Trainer publishes."""


def find(document: Document, runtimes: Iterable[Document], collector: Collector) -> Document:
    """Return the runtime of a TrainJob.

    The first one of its kind and name is used: from the input, from --runtime, or the copy of a
    runtime that Trainer publishes, which is reported.

    Raises:
        MlgenError: it is unknown.
    """
    reference = written(document).get("spec", "runtimeRef")
    kind, name = reference.get("kind").value or CLUSTER, reference.get("name")
    namespace = document.data["metadata"].get("namespace")
    known = [each for each in runtimes if each.data["kind"] == kind]
    for runtime in known:
        other = namespace if kind == CLUSTER else _metadata(runtime, "namespace") or namespace
        if _metadata(runtime, "name") == name.value and other == (namespace or other):
            return _marked(runtime)
    newest = versions()[0]
    copies = {_metadata(each, "name"): each for each in published(newest)}
    copies = copies if kind == CLUSTER else {}
    if name.value in copies:
        message = (
            f"the runtime is not in the input; mlgen uses the one that Trainer {newest} publishes"
        )
        hint = (
            "pass the runtime of your cluster with --runtime FILE, or the version of Trainer "
            f"with --runtime {newest}"
        )
        collector.add(name.problem(message, hint, warning=True))
        return copies[name.value]
    names = [str(_metadata(each, "name")) for each in known]
    elsewhere = [each for each in known if _metadata(each, "name") == name.value]
    option = namespace_option(namespace) if kind != CLUSTER else ""
    command = f"kubectl get {kind.lower()} {quote(str(name.value))}{option} -o yaml > runtime.yaml"
    similar = did_you_mean(str(name.value), [*names, *copies])
    hint = f"{similar and f'{similar} If not, '}pass --runtime runtime.yaml, from: {command}"
    if elsewhere:
        hint = f"the one in the input is in the namespace {_metadata(elsewhere[0], 'namespace')}"
    where = f", and not among the runtimes of Trainer {newest}" if kind == CLUSTER else ""
    message = f'unknown {kind} "{name.value}": it is not in the input or in --runtime FILE{where}'
    raise MlgenError([*collector.problems, name.problem(message, hint)])


def _marked(runtime: Document) -> Document:
    """Return a runtime; for a copy of a published one, without line numbers."""
    place, data, name = runtime.place(()), runtime.data, _metadata(runtime, "name")
    if place.file in [COPY.format(name=name, version=full) for full in _every().values()]:
        return replace(runtime, marks=_uniform(data, place._replace(line=0)))
    return runtime


def _metadata(runtime: Document, field: str) -> Any:
    """Return a field of the metadata of a runtime, which may be invalid; None if it has none."""
    return value_at(runtime.data, ("metadata", field))


def _every() -> dict[str, str]:
    """Return the full version of each version of Trainer whose runtimes are known."""
    known: dict[str, str] = table("trainer/runtimes")["versions"]
    return known


def versions() -> list[str]:
    """Return the versions of Trainer whose runtimes are known, the newest first."""
    return list(_every())


def published(version: str) -> list[Document]:
    """Return the copies of the runtimes that a version of Trainer publishes, such as `2.3`."""
    full, found = _every()[version], []
    for row in table("trainer/runtimes")["runtimes"]:
        if version in row["versions"]:
            spec = json.loads(json.dumps(row["spec"]).replace("{version}", full))
            data = {"apiVersion": VERSION, "kind": CLUSTER, "metadata": {"name": row["name"]}}
            place = Place(COPY.format(name=row["name"], version=full), 0)
            found.append(Document({**data, "spec": spec}, _uniform({**data, "spec": spec}, place)))
    return found


def version_of(runtime: Written) -> str:
    """Return the version of Trainer that publishes a runtime, such as `2.3`; "" if unknown."""
    name, place = runtime.get("metadata", "name").value, runtime.mark.place
    file = place.file if place else ""
    known = (own for own, full in _every().items() if file == COPY.format(name=name, version=full))
    return next(known, "")


def published_texts(name: str) -> list[Text]:
    """Return the runtimes of a version of Trainer, such as `2.2` or `v2.2.0`; [] for other names.

    Only the first two numbers count.
    """
    match = re.fullmatch(r"v?(\d+\.\d+)(?:\.\d+)?", name)
    known = published(match[1]) if match and match[1] in versions() else []
    return [Text(each.place(()).file, json.dumps(each.data)) for each in known]


def _uniform(value: Any, place: Place) -> Mark:
    """Return marks with the same place for all values."""
    items: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    items = value.items() if isinstance(value, dict) else items
    return Mark(place, place, inner={step: _uniform(item, place) for step, item in items})
