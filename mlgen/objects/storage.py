"""Volumes: those of a topology, the short forms of the job file, and shared memory."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.quantity import half
from mlgen.objects.errors import template_error
from mlgen.objects.labels import JOB, config_name, metadata
from mlgen.objects.skeleton import filled
from mlgen.topology import ConfigFiles, Helper, Mount, Role, Scratch, SecretFiles, Topology

FETCH_TIMEOUT = 600
"""Seconds to keep trying to fetch code, unless the job file has `wait.timeoutSeconds`."""

SHM = "/dev/shm"  # noqa: S108 - a volume of the pod

GIT_KEYS = "/mlgen/git"
"""Where the helper that clones a repository finds the keys: see templates/scripts/sync-code.sh."""


def patch(
    job: TrainingJob, container: str, volumes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the pod template patch that mounts volumes into a container.

    Args:
        job: the job.
        container: the name of the container.
        volumes: short forms of the job file, by the name of the volume.
    """
    if not volumes:
        return {}
    mounts = [_volume_mount(name, short_form) for name, short_form in volumes.items()]
    # The helper that clones a Git repository brings the volume with it.
    pod_volumes = [
        _pod_volume(job, name, short_form)
        for name, short_form in volumes.items()
        if "git" not in short_form
    ]
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": mounts}],
            "volumes": pod_volumes,
        }
    }


def _volume_mount(name: str, short_form: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("mountPath", "subPath", "readOnly")
    return {"name": name, **{key: short_form[key] for key in keys if key in short_form}}


def _pod_volume(job: TrainingJob, name: str, short_form: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a pod's volumes."""
    if "pvc" in short_form:
        source: dict[str, Any] = {"persistentVolumeClaim": {"claimName": short_form["pvc"]}}
    elif "configMap" in short_form:
        source = {"configMap": {"name": short_form["configMap"]}}
    elif "files" in short_form:
        source = {"configMap": {"name": _config_map_name(job, name)}}
    elif "secret" in short_form:
        source = {"secret": {"secretName": short_form["secret"]}}
    elif "hostPath" in short_form:
        source = {"hostPath": {"path": short_form["hostPath"]}}
    else:
        source = {key: dict(short_form[key]) for key in ("nfs", "emptyDir") if key in short_form}
    return {"name": name, **source}


def _config_map_name(job: TrainingJob, volume: str) -> str:
    return f"{job.name}-{volume}"


def config_maps(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return a ConfigMap for each volume of `files`.

    Roles that have a volume of the same name share the ConfigMap; their files are equal.
    """
    volumes: dict[str, Mapping[str, str]] = {}
    for role in topology.roles:
        for name, short_form in role.spec.volumes.items():
            if "files" in short_form:
                volumes[name] = short_form["files"]
    job = topology.job
    for name, files in volumes.items():
        config_metadata = metadata(job, _config_map_name(job, name), "config")
        yield filled("configmap", metadata=config_metadata, data=dict(files) or None)


def claims(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return the PersistentVolumeClaims of the job file.

    They omit the job's own label: data remains when objects are deleted by that label.
    """
    job = topology.job
    for name, spec in job.claims.items():
        claim_metadata = metadata(job, name, "claim")
        claim_metadata["labels"].pop(JOB)
        yield filled("persistentvolumeclaim", metadata=claim_metadata, spec=dict(spec))


def sync_helpers(job: TrainingJob, role: Role) -> list[Helper]:
    """Return the helpers that clone Git repositories into a role's volumes."""
    return [
        _sync_helper(job, name, short_form)
        for name, short_form in role.spec.volumes.items()
        if "git" in short_form
    ]


def _sync_helper(job: TrainingJob, name: str, short_form: Mapping[str, Any]) -> Helper:
    git, path = short_form["git"], short_form["mountPath"]
    env = {
        "MLGEN_REPOSITORY": git["repository"],
        "MLGEN_REVISION": git.get("revision", "HEAD"),
        "MLGEN_FOLDER": path,
        "MLGEN_TIMEOUT": str(job.wait.timeout_seconds or FETCH_TIMEOUT),
    }
    mounts = [Mount(Scratch(name), path, read_only=False)]
    if "secret" in git:
        mounts.append(Mount(SecretFiles(f"{name}-secret", git["secret"], {}), GIT_KEYS))
    return Helper(f"sync-{name}", "sync-code.sh", "git", env, tuple(mounts))


def shared_memory(role: Role, container: Mapping[str, Any]) -> Mount | None:
    """Return the mount that enlarges /dev/shm of the training container.

    Container runtimes limit it to 64 MiB, which crashes PyTorch's data loaders with a bus error
    (pytorch/pytorch#16979). Its content counts against the memory limit, so the default size is
    half of that limit. Without a limit, a tmpfs may use half of the node's memory.

    Args:
        role: the role. Its `shm_size` overrides the default; "0" keeps that of the runtime.
        container: the training container, with the user's templates merged.

    Returns:
        None if the size is "0", or if the container mounts another volume at /dev/shm.

    Raises:
        MlgenError: the memory limit is not an amount.
    """
    mounts = container.get("volumeMounts") or []
    if role.spec.shm_size == "0" or any(mount.get("mountPath") == SHM for mount in mounts):
        return None
    size = role.spec.shm_size or _half_of_memory_limit(role, container)
    return Mount(Scratch("mlgen-shm", memory=True, size=size), SHM, read_only=False)


def _half_of_memory_limit(role: Role, container: Mapping[str, Any]) -> str | None:
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    try:
        return None if limit is None else half(limit)
    except ValueError as error:
        raise template_error(role, str(error), "bad-value") from None


RUN = 0o555
"""The file mode of scripts that other programs run."""


def volume_mount(mount: Mount) -> dict[str, Any]:
    """Return a mount as an item of a container's volumeMounts."""
    # Kubernetes mounts ConfigMaps and Secrets read-only anyway.
    read_only = {"readOnly": True} if mount.read_only and isinstance(mount.volume, Scratch) else {}
    return {"name": mount.volume.name, "mountPath": mount.path, **read_only}


def pod_volumes(job: TrainingJob, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return the volumes of mounts as items of a pod's volumes.

    Of mounts with the same volume name, the last one defines the volume.
    """
    volumes = {mount.volume.name: mount.volume for mount in mounts}
    return [_volume_of(job, volume) for volume in volumes.values()]


def _volume_of(job: TrainingJob, volume: Scratch | ConfigFiles | SecretFiles) -> dict[str, Any]:
    if isinstance(volume, Scratch):
        medium: dict[str, Any] = {"medium": "Memory"} if volume.memory else {}
        limit = {"sizeLimit": volume.size} if volume.size else {}
        return {"name": volume.name, "emptyDir": medium | limit}
    if isinstance(volume, ConfigFiles):
        config_map: dict[str, Any] = {"name": config_name(job)}
        if volume.files:
            config_map["items"] = [{"key": name, "path": name} for name in volume.files]
        if any(name.endswith(".sh") for name in volume.files):
            config_map["defaultMode"] = RUN
        return {"name": volume.name, "configMap": config_map}
    secret: dict[str, Any] = {"secretName": volume.secret}
    if volume.keys:
        secret["items"] = [{"key": key, "path": path} for key, path in volume.keys.items()]
    return {"name": volume.name, "secret": secret}
