"""Labels and annotations of operators that a pod reads → mlgen's labels with the same values.

A pod may read them by `fieldRef`, in a variable or in a volume. Those without an equal remain, and
`mlgen.checks.operators` reports them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.operators import FIELDS, OF_PODS, SELECTED
from mlgen.objects.labels import JOB, REPLICA_INDEX, ROLE, index_label
from mlgen.topology import Role

QUEUE = "default"
"""Volcano's queue for jobs that name none: pkg/webhooks/admission/jobs/mutate/mutate_job.go."""


def with_own_fields(job: TrainingJob, role: Role, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod template that reads mlgen's labels instead of an operator's.

    Args:
        job: the job.
        role: the role of the pods.
        template: with the labels and annotations that the pods have.
    """
    spec: dict[str, Any] = template["spec"]

    def own(item: dict[str, Any]) -> dict[str, Any]:
        return _with_own_path(job, role, template["metadata"], item)

    changed = {
        field: _each(spec[field], lambda each: _changed(each, "env", lambda env: _each(env, own)))
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    if spec.get("volumes"):
        changed["volumes"] = _each(spec["volumes"], lambda volume: _of_volume(volume, own))
    return spec | changed


Change = Callable[[dict[str, Any]], dict[str, Any]]


def _each(items: Iterable[dict[str, Any]], change: Change) -> list[dict[str, Any]]:
    return [change(item) for item in items]


def _changed(holder: dict[str, Any], field: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a mapping in which one field is changed, if it has a value."""
    return holder | {field: change(holder[field])} if holder.get(field) else holder


def _of_volume(volume: dict[str, Any], own: Change) -> dict[str, Any]:
    """Return a volume with changed items of the downward API, alone or in a projected volume."""

    def of_files(files: dict[str, Any]) -> dict[str, Any]:
        return _changed(files, "items", lambda items: _each(items, own))

    def of_source(source: dict[str, Any]) -> dict[str, Any]:
        return _changed(source, "downwardAPI", of_files)

    def of_projected(projected: dict[str, Any]) -> dict[str, Any]:
        return _changed(projected, "sources", lambda sources: _each(sources, of_source))

    return _changed(of_source(volume), "projected", of_projected)


def _with_own_path(
    job: TrainingJob, role: Role, metadata: Mapping[str, Any], item: dict[str, Any]
) -> dict[str, Any]:
    """Return a variable, or a file of a volume, with the equal of its label or annotation."""
    source = item.get("valueFrom") or item
    path = (source.get("fieldRef") or {}).get("fieldPath")
    match = OF_PODS.fullmatch(path) if isinstance(path, str) else None
    kind, key = match.groups() if match else ("", "")
    if key not in SELECTED or key in (metadata.get(kind) or {}):
        return item
    if FIELDS.get(key) == "queue" and "valueFrom" in item:
        return {"name": item["name"], "value": job.scheduling.queue or QUEUE}
    own = _own_path(role, metadata, key)
    if own is None:
        return item
    field = {"fieldRef": source["fieldRef"] | {"fieldPath": own}}
    return item | ({"valueFrom": field} if "valueFrom" in item else field)


def _own_path(role: Role, metadata: Mapping[str, Any], key: str) -> str | None:
    """Return the path of the field with the value of an operator's field; None if there is none."""
    for kind in ("labels", "annotations"):
        if key in (metadata.get(kind) or {}):
            return f"metadata.{kind}['{key}']"
    index = index_label(role) if role.index is None else REPLICA_INDEX
    labels = {"job": JOB, "role": ROLE, "index": index}
    meaning = FIELDS.get(key, "")
    if meaning == "namespace":
        return "metadata.namespace"
    return f"metadata.labels['{labels[meaning]}']" if meaning in labels else None
