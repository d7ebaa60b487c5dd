"""A name that changes with what runs under it: `metadata.nameSuffix: hash`.

The template of a Job cannot change (https://kubernetes.io/docs/concepts/workloads/controllers/job/),
so what is applied anew must be another Job. kustomize gives single objects such suffixes; here the
whole set has one, as a replica's address holds the names of its Job and of the Service.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.immutability import MUTABLE_SPEC
from mlgen.objects.labels import INDEX_FORMS, config_name, workload_name
from mlgen.topology import Topology

Object = dict[str, Any]

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes, as in the names of pods (k8s.io/apimachinery, util/rand)."""

LENGTH = 8


def renamed(topology: Topology, objects: Sequence[Object]) -> TrainingJob:
    """Return a job under a name that follows from what its pods are.

    Args:
        topology: of the job under its plain name.
        objects: all that is made of it.
    """
    job = topology.job
    name = f"{job.name}-{digest(topology, objects)}"
    return replace(job, name=name, name_suffix=None, part_of=job.name)


def digest(topology: Topology, objects: Sequence[Object]) -> str:
    """Return `LENGTH` letters that follow from what the pods of a job are.

    Args:
        topology: of the job.
        objects: all that is made of it.
    """
    parts = list(_matters(topology, objects))
    number = int.from_bytes(sha256(json.dumps(parts, sort_keys=True).encode()).digest(), "big")
    letters = []
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


def _matters(topology: Topology, objects: Sequence[Object]) -> Iterator[Any]:
    """What the replicas see of the objects; the supervisor and TensorBoard are none of them."""
    job = topology.job
    workloads = {workload_name(job, role) for role in topology.roles}
    for item in objects:
        kind, name = item["kind"], item["metadata"]["name"]
        mutable = MUTABLE_SPEC.get(group_kind(item))
        if mutable and name in workloads:
            # The template of a StatefulSet may change, but then its pods are others.
            kept = {k: v for k, v in item["spec"].items() if k == "template" or k not in mutable}
            yield kind, name, kept
        elif kind == "ConfigMap" and name != config_name(job) and "data" in item:
            yield kind, name, item["data"]
    # Without the scripts: a new version of mlgen may bring others, and what runs is the same.
    yield dict(topology.files)


def in_addresses(topology: Topology, objects: Sequence[Object]) -> list[Object]:
    """Return the objects with the suffix in the addresses that the user wrote by the plain name."""
    job = topology.job
    plain = re.escape(job.part_of or job.name)
    roles = "|".join(sorted({re.escape(role.name) for role in topology.roles}))
    address = re.compile(
        rf"(?<![\w.-]){plain}(-(?:{roles})(?:-\d+)?-(?:{INDEX_FORMS})\.){plain}(?![\w-])"
    )
    whole = rf"{job.name}\g<1>{job.name}"

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return address.sub(whole, value)
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        return value

    return [renamed(item) for item in objects]
