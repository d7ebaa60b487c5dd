"""The runtimes of TrainJobs: from the input, from --runtime, or published by Trainer."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from shlex import quote
from typing import Any

from mlgen.dialects._builder import namespace_option
from mlgen.dialects.trainer.job import Written, written
from mlgen.documents.document import Document, Mark
from mlgen.documents.files import Text
from mlgen.kubernetes.values import value_at
from mlgen.problems import Collector, MlgenError, Place, did_you_mean
from mlgen.resources import table

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
