"""`metadata.nameSuffix: hash`: adds a hash of everything that its pods run to a job's name.

The template of a Job is immutable (https://kubernetes.io/docs/concepts/workloads/controllers/job/),
so a changed job must have another name. kustomize adds a hash to single objects. Here, all objects
of the job share one hash, because the address of a replica contains the names of its Job and of the
Service.
"""

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.names import TEXTS, host_pattern, names_service
from mlgen.kubernetes.objects import Object, group_kind
from mlgen.kubernetes.updates import mutable_spec
from mlgen.objects.labels import INDEX_FORMS, config_name, status_name, workload_name
from mlgen.objects.supervisor import program_name
from mlgen.topology import Topology

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters without vowels and look-alikes, as in pod names (k8s.io/apimachinery, util/rand)."""

LENGTH = 8


def renamed(job: TrainingJob, topology: Topology, manifests: Sequence[Object]) -> TrainingJob:
    """Return the job with the hash in its name, and with all its policies.

    Args:
        job: the job, as the user has written it.
        topology: of the job under its plain name, possibly without some policies.
        manifests: all objects of that topology.
    """
    name = f"{job.name}-{digest(topology, manifests)}"
    return job._replace(name=name, name_suffix=None, part_of=job.written_name, hashed=True)


def digest(topology: Topology, manifests: Sequence[Object]) -> str:
    """Return `LENGTH` letters of `ALPHABET`, a hash of everything that the job's pods run and read.

    Args:
        topology: of the job.
        manifests: all objects of that topology.
    """
    return letters(list(_hashed(topology, manifests)))


def letters(value: Any) -> str:
    """Return `LENGTH` letters of `ALPHABET`, a hash of plain data."""
    number = int.from_bytes(sha256(json.dumps(value, sort_keys=True).encode()).digest(), "big")
    chosen = []
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        chosen.append(ALPHABET[letter])
    return "".join(chosen)


def _hashed(topology: Topology, manifests: Sequence[Object]) -> Iterator[Any]:
    """Yield the parts of the manifests that replicas run or read.

    The supervisor with its program and plan, TensorBoard, and fields that can change while the pods
    run are omitted.
    """
    job = topology.job
    workloads = {workload_name(job, role) for role in topology.roles}
    not_read = {config_name(job.name), program_name(job), status_name(job.name)}
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        mutable = mutable_spec(*group_kind(manifest))
        if mutable and name in workloads:
            # The template of a StatefulSet is also mutable, but a change replaces the pods.
            spec = {
                field: value
                for field, value in manifest["spec"].items()
                if field == "template" or field not in mutable
            }
            yield kind, name, spec
        elif kind == "ConfigMap" and name not in not_read and "data" in manifest:
            yield kind, name, manifest["data"]
    # The hash covers only the user's files in the job's own ConfigMap. Its scripts, like the
    # supervisor's program, may change with the version of mlgen.
    yield dict(topology.files)


CONFIG_MAPS = ("configMap", "configMapRef", "configMapKeyRef")
"""The fields of a pod that refer to a ConfigMap by name."""


def in_addresses(topology: Topology, manifests: Sequence[Object]) -> list[Object]:
    """Return the manifests with the job's plain name replaced by its final name.

    It is replaced in addresses of replicas and names of ConfigMaps that the user has written. In a
    JobSet, these addresses also get the index of the Job.

    Args:
        topology: of the job, with the name that includes the hash or the values of a combination.
        manifests: all objects of that topology.
    """
    job = topology.job
    plain = job.written_name
    roles = "|".join(sorted({re.escape(role.name) for role in topology.roles}))
    address = re.compile(
        rf"(?<![\w.-]){re.escape(plain)}-(?P<role>{roles})(?P<job>-\d+)?-(?P<index>{INDEX_FORMS})\."
        rf"{re.escape(job.network.subdomain or plain)}(?![\w-])"
    )
    separate = {role.name for role in topology.roles if role.index is not None}

    def final_address(match: re.Match[str]) -> str:
        role, index = match["role"], f"{match['job'] or ''}-{match['index']}"
        if job.jobset and not match["job"]:
            index = f"{index}-0-0" if role in separate else f"-0{index}"
        return f"{job.name}-{role}{index}.{job.subdomain}"

    service = host_pattern(_operator_names(topology, plain))
    names = [item["metadata"]["name"] for item in manifests if item.get("kind") == "ConfigMap"]
    config_maps = {f"{plain}{name.removeprefix(job.name)}": name for name in names}

    def with_hash(value: Any, *, dialled: bool = False) -> Any:
        if isinstance(value, str):
            value = address.sub(final_address, value)
            return service.sub(service_name, value) if dialled else value
        if isinstance(value, list):
            return [with_hash(item, dialled=dialled) for item in value]
        if isinstance(value, dict):
            return {
                key: {**item, "name": config_maps[item["name"]]}
                if key in CONFIG_MAPS and item.get("name") in config_maps
                else with_hash(item, dialled=dialled or key in (*TEXTS, "data"))
                for key, item in value.items()
            }
        return value

    def service_name(match: re.Match[str]) -> str:
        if not names_service(match, plain, job.namespace):
            return match[0]
        return f"{job.name}{match[0].removeprefix(plain)}"

    # The supervisor's program is not the user's text, and its plan contains the final names.
    own = ("ConfigMap", program_name(job))
    return [item if _identity(item) == own else with_hash(item) for item in manifests]


def _identity(manifest: Object) -> tuple[Any, Any]:
    return manifest.get("kind"), manifest.get("metadata", {}).get("name")


def _operator_names(topology: Topology, job: str) -> set[str]:
    """Return the names of the replicas' Services, without the index, for a job with this name."""
    merged = (name for role in topology.roles for name in role.merged)
    return {f"{job}-{name}" for name in (*(role.name for role in topology.roles), *merged)}
