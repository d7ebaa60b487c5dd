"""Old and new objects → which object each new one updates, and which jobs come and go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.objects import Key, Object
from mlgen.objects.labels import INSTANCE, JOB, MANAGED_BY

JobKey = tuple[str, str]
"""The namespace and the name of a job. Either is "" if there is none."""


@dataclass(frozen=True)
class Pairing:
    """What happens to each object.

    Attributes:
        pairs: each new object with the old one that it updates, None if it is created.
        removed: old objects without a new one.
        new_jobs: the created objects of every job that has no old object.
        removed_jobs: the removed objects of every job that has no new object.
    """

    pairs: tuple[tuple[Object | None, Object], ...]
    removed: tuple[Object, ...]
    new_jobs: Mapping[JobKey, Sequence[Object]]
    removed_jobs: Mapping[JobKey, Sequence[Object]]

    @cached_property
    def updated(self) -> list[Object]:
        """The new objects that exist already."""
        return [new for old, new in self.pairs if old is not None]


def pair(before: Sequence[Object], after: Sequence[Object]) -> Pairing:
    """Return which old object each new object updates."""
    pairs = tuple(_pairs(before, after))
    matched = [old for old, _ in pairs if old is not None]
    matched_ids = {id(old) for old in matched}
    removed = tuple(old for old in before if id(old) not in matched_ids)
    return Pairing(
        pairs,
        removed,
        _jobs_without(matched, (new for old, new in pairs if old is None)),
        _jobs_without(after, removed),
    )


def job_name(item: Object) -> str:
    """Return the name of the job that an object belongs to; "" if it belongs to none.

    The ConfigMap of a job's status is kept after a cleanup by label, so it lacks the job's label
    and is recognised by its recommended labels.
    """
    labels = mapping_at(item["metadata"], "labels")
    is_ours = labels.get(MANAGED_BY) == "mlgen"
    return str(labels.get(JOB) or (is_ours and labels.get(INSTANCE)) or "")


def job_key(item: Object) -> JobKey:
    """Return the namespace and the job of an object."""
    return item["metadata"].get("namespace") or "", job_name(item)


def mapping_at(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that should be a mapping; an empty mapping if it is missing or malformed."""
    field = value.get(name)
    return field if isinstance(field, Mapping) else {}


def _pairs(
    before: Sequence[Object], after: Sequence[Object]
) -> Iterator[tuple[Object | None, Object]]:
    """Return each new object with the old one of the same identity.

    Objects read from a cluster always have their namespace, manifests need not: a missing
    namespace matches any if one of the two was read from a cluster.
    """
    by_key = {_key(item): item for item in before}
    live = {_key(item, namespace=False): item for item in before if "uid" in item["metadata"]}
    for new in after:
        candidate = live.get(_key(new, namespace=False))
        namespaces = [item["metadata"].get("namespace") for item in (candidate, new) if item]
        yield by_key.get(_key(new)) or (None if all(namespaces) else candidate), new


def _key(item: Object, *, namespace: bool = True) -> Key:
    """Return the identity of an object in a cluster, with or without its namespace."""
    metadata = item["metadata"]
    return (*group_kind(item), (namespace and metadata.get("namespace")) or "", metadata["name"])


def _jobs_without(
    others: Iterable[Object], objects: Iterable[Object]
) -> dict[JobKey, list[Object]]:
    """Return the objects, by job, of those jobs that none of the other objects belong to."""
    other_jobs = {job_key(item) for item in others}
    jobs: dict[JobKey, list[Object]] = {}
    for item in objects:
        if job_name(item) and job_key(item) not in other_jobs:
            jobs.setdefault(job_key(item), []).append(item)
    return jobs
