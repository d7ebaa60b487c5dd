"""The volumes of a pod in the job file's short forms, and the memory that processes share."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.quantity import half
from mlgen.objects.labels import metadata
from mlgen.objects.skeleton import filled
from mlgen.problems import MlgenError, Problem
from mlgen.topology import Helper, Mount, Role, Scratch, SecretFiles, Topology

SHM = "/dev/shm"  # noqa: S108 - a mount of the pod's own


def patch(
    job: TrainingJob, container: str, volumes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the part of a pod template with volumes in short form.

    Args:
        job: the job.
        container: the name of the one that sees them.
        volumes: by name, as in the job file.
    """
    if not volumes:
        return {}
    # What a helper fills is a volume of the helper's already.
    sources = [_volume(job, name, given) for name, given in volumes.items() if "git" not in given]
    mounts = [_mount(name, given) for name, given in volumes.items()]
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": mounts}],
            "volumes": sources,
        }
    }


def _mount(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: given[key] for key in ("mountPath", "subPath", "readOnly") if key in given}
    return {"name": name, **fields}


def _volume(job: TrainingJob, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A volume as Kubernetes writes it."""
    if "pvc" in given:
        source: dict[str, Any] = {"persistentVolumeClaim": {"claimName": given["pvc"]}}
    elif "configMap" in given:
        source = {"configMap": {"name": given["configMap"]}}
    elif "files" in given:
        source = {"configMap": {"name": _files_name(job, name)}}
    elif "secret" in given:
        source = {"secret": {"secretName": given["secret"]}}
    elif "hostPath" in given:
        source = {"hostPath": {"path": given["hostPath"]}}
    else:
        source = {key: dict(given[key]) for key in ("nfs", "emptyDir") if key in given}
    return {"name": name, **source}


def _files_name(job: TrainingJob, volume: str) -> str:
    return f"{job.name}-{volume}"


def files(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return a ConfigMap for each volume of files, in which roles do not differ."""
    found: dict[str, Mapping[str, str]] = {}
    for role in topology.roles:
        for name, given in role.spec.volumes.items():
            if "files" in given:
                found[name] = given["files"]
    job = topology.job
    for name, texts in found.items():
        meta = metadata(job, _files_name(job, name), "config")
        yield filled("configmap", metadata=meta, data=dict(texts))


def helpers(job: TrainingJob, role: Role) -> list[Helper]:
    """Return the helpers that fill volumes with code before training starts."""
    return [_sync(job, name, given) for name, given in role.spec.volumes.items() if "git" in given]


def _sync(job: TrainingJob, name: str, given: Mapping[str, Any]) -> Helper:
    git, path = given["git"], given["mountPath"]
    env = {
        "MLGEN_REPOSITORY": git["repository"],
        "MLGEN_REVISION": git.get("revision", "HEAD"),
        "MLGEN_FOLDER": path,
        "MLGEN_TIMEOUT": str(job.wait.timeout_seconds),
    }
    mounts = [Mount(Scratch(name), path, read_only=False)]
    if "secret" in git:
        mounts.append(Mount(SecretFiles(f"{name}-secret", git["secret"], {}), "/mlgen/git"))
    return Helper(f"sync-{name}", "sync-code.sh", "git", env, tuple(mounts))


def shared_memory(role: Role, main: Mapping[str, Any]) -> Mount | None:
    """Return what gives a training container enough of /dev/shm, unless it has a volume there.

    Container runtimes give 64 MiB, and PyTorch's data loaders die of a bus error beyond it
    (pytorch/pytorch#16979). What is written there counts against the memory limit, so half of
    the limit is the default; without a limit, half of the node's memory is what a tmpfs may have.

    Args:
        role: says the size, or "0" for leaving it to the runtime.
        main: the training container, with all that templates say of it.

    Raises:
        MlgenError: the memory limit of a template is no amount.
    """
    taken = any(mount.get("mountPath") == SHM for mount in main.get("volumeMounts") or [])
    if role.spec.shm_size == "0" or taken:
        return None
    size = role.spec.shm_size or _half_of_memory(role, main)
    return Mount(Scratch("mlgen-shm", memory=True, size=size), SHM, read_only=False)


def _half_of_memory(role: Role, main: Mapping[str, Any]) -> str | None:
    limit = ((main.get("resources") or {}).get("limits") or {}).get("memory")
    try:
        return None if limit is None else half(limit)
    except ValueError as error:
        path = ("spec", "roles", role.spec.name, "template")
        raise MlgenError([Problem(path, str(error), "bad-value")]) from None
