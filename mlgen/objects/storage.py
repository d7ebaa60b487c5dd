"""Volumes: from the topology, from short forms in the job file, and for shared memory."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.jobfile.model import TrainingJob, is_below, own_files
from mlgen.kubernetes.objects import without_nulls
from mlgen.kubernetes.quantity import half
from mlgen.launch.line import Line
from mlgen.objects.labels import JOB, config_name, files_name, metadata
from mlgen.objects.skeleton import filled, template_error
from mlgen.topology import (
    ConfigFiles,
    Helper,
    Mount,
    PodFiles,
    Role,
    Scratch,
    SecretFiles,
    Topology,
)

FETCH_TIMEOUT = 600
"""Seconds to keep trying to fetch code, unless the job file sets `wait.timeoutSeconds`."""

SHM = "/dev/shm"  # noqa: S108 - a volume of the pod

GIT_KEYS = "/mlgen/git"
"""The folder with the keys for cloning a repository; see templates/scripts/sync-code.sh."""


def patch(
    job: TrainingJob,
    container: str,
    volumes: Mapping[str, Mapping[str, Any]],
    lines: Iterable[Line] = (),
) -> dict[str, Any]:
    """Return the pod template patch that mounts volumes into a container.

    Args:
        job: the job.
        container: the name of the container.
        volumes: short forms in the job file, by volume name.
        lines: the commands that the container runs.
    """
    if not volumes:
        return {}
    mounts = [
        {"name": name, **{key: short_form[key] for key in MOUNT_KEYS if key in short_form}}
        for name, short_form in volumes.items()
    ]
    # The helper that clones a Git repository defines its volume.
    sources = [
        {"name": name, **_source(job, name, short_form, lines)}
        for name, short_form in volumes.items()
        if "git" not in short_form
    ]
    containers = [{"name": container, "volumeMounts": mounts}]
    return {"spec": {"containers": containers, "volumes": sources}}


MOUNT_KEYS = ("mountPath", "subPath", "readOnly")

NOT_SOURCES = (*MOUNT_KEYS, "defaultMode")
"""The keys of a short form that are not the volume's source."""

NAMES = {
    "pvc": ("persistentVolumeClaim", "claimName"),
    "configMap": ("configMap", "name"),
    "secret": ("secret", "secretName"),
    "hostPath": ("hostPath", "path"),
}
"""A short form's key → the volume source, and the source's field for a value that is a string."""


WITH_MODE = ("configMap", "secret", "projected")
"""The volume sources whose files have a mode. By default, none of them can be run."""


def _source(
    job: TrainingJob, name: str, short_form: Mapping[str, Any], lines: Iterable[Line]
) -> dict[str, Any]:
    """Return the source of a volume, as in an item of a pod's volumes."""
    if "ephemeral" in short_form:
        claim = {"accessModes": ["ReadWriteOnce"]} | dict(short_form["ephemeral"])
        return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    key = next(key for key in short_form if key not in NOT_SOURCES)
    kind, field = NAMES.get(key, (key, ""))
    value = short_form[key]
    if key == "files":
        value, kind = {"name": files_name(job.name, name)}, "configMap"
    elif key == "projected":
        sources = [_projection(job, name, each) for each in value["sources"]]
        value = {**value, "sources": sources}
    source = dict(value) if isinstance(value, Mapping) else {field: value}
    if "defaultMode" in short_form:
        source["defaultMode"] = short_form["defaultMode"]
    elif kind in WITH_MODE and "defaultMode" not in source and _is_run(short_form, lines):
        source["defaultMode"] = RUN
    return {kind: source}


def _projection(job: TrainingJob, name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source of a projected volume, of which `files` is mlgen's own."""
    if "files" not in source:
        return dict(source)
    rest = {key: value for key, value in source.items() if key != "files"}
    return {"configMap": {"name": files_name(job.name, name), **rest}}


def _is_run(short_form: Mapping[str, Any], lines: Iterable[Line]) -> bool:
    """Return whether files of a volume are programs, rather than read by a program."""
    texts = (text for _, files in own_files(short_form) for text in files.values())
    path = short_form["mountPath"]
    return any(text.startswith("#!") for text in texts) or any(
        is_below(word, path) for line in lines for word in line.executables
    )


def config_maps(topology: Topology) -> Iterator[dict[str, Any]]:
    """Yield a ConfigMap for each volume with `files`.

    Roles that have a volume of the same name have equal files, and share the ConfigMap.
    """
    job = topology.job
    volumes: dict[str, dict[str, str]] = {}
    for role in topology.roles:
        for name, short_form in role.spec.volumes.items():
            for _, files in own_files(short_form):
                volumes.setdefault(name, {}).update(files)
    for name, files in volumes.items():
        config_metadata = metadata(job, files_name(job.name, name), "config")
        yield filled("configmap", metadata=config_metadata, data=files or None)


def claims(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return the PersistentVolumeClaims of the job file.

    They omit the job's own label, so deleting objects by this label does not delete data.
    """
    job = topology.job
    for name, spec in job.claims.items():
        claim_metadata = metadata(job, name, "claim")
        claim_metadata["labels"].pop(JOB)
        yield filled("persistentvolumeclaim", metadata=claim_metadata, spec=dict(spec))


def sync_helpers(job: TrainingJob, role: Role) -> Iterator[Helper]:
    """Return the helpers that clone Git repositories into a role's volumes."""
    for name, short_form in role.spec.volumes.items():
        if "git" not in short_form:
            continue
        git, path = short_form["git"], short_form["mountPath"]
        env = {
            "MLGEN_REPOSITORY": git["repository"],
            "MLGEN_REVISION": git.get("revision", "HEAD"),
            "MLGEN_FOLDER": path,
            "MLGEN_TIMEOUT": str(job.wait.timeout_seconds or FETCH_TIMEOUT),
        }
        for option in ("submodules", "lfs"):
            if git.get(option):
                env[f"MLGEN_{option.upper()}"] = "true"
        mounts = [Mount(Scratch(name), path, read_only=False)]
        if "secret" in git:
            mounts.append(Mount(SecretFiles(f"{name}-secret", git["secret"], {}), GIT_KEYS))
        yield Helper(f"sync-{name}", "sync-code.sh", "git", env, tuple(mounts))


def shared_memory(role: Role, container: Mapping[str, Any]) -> Mount | None:
    """Return the mount that enlarges /dev/shm of the training container.

    Container runtimes limit it to 64 MiB, which crashes PyTorch's data loaders with a bus error
    (pytorch/pytorch#16979). Its content counts against the memory limit, so the default size is
    half of that limit. Without a limit, a tmpfs may use half of the node's memory.

    Args:
        role: the role. Its `shm_size` overrides the default; "0" keeps the runtime's size.
        container: the training container, with the user's templates merged.

    Returns:
        None if the size is "0", or if the container mounts another volume at /dev/shm.

    Raises:
        MlgenError: the memory limit is not a valid amount.
    """
    mounts = container.get("volumeMounts") or []
    if role.spec.shm_size == "0" or any(mount.get("mountPath") == SHM for mount in mounts):
        return None
    size, limits = role.spec.shm_size, (container.get("resources") or {}).get("limits") or {}
    if not size and limits.get("memory") is not None:
        try:
            size = half(limits["memory"])
        except ValueError as error:
            raise template_error(role, str(error), "bad-value") from None
    return Mount(Scratch("mlgen-shm", memory=True, size=size), SHM, read_only=False)


RUN, READ = 0o555, 0o444
"""The file modes of scripts that other programs run, and of the files next to them."""


def volume_mount(mount: Mount) -> dict[str, Any]:
    """Return a mount as an item of a container's volumeMounts."""
    # Kubernetes mounts ConfigMaps and Secrets read-only anyway.
    read_only = {"readOnly": True} if mount.read_only and isinstance(mount.volume, Scratch) else {}
    file = {"subPath": mount.file} if mount.file else {}
    return {"name": mount.volume.name, "mountPath": mount.path, **file, **read_only}


def pod_volumes(job: TrainingJob, mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return the volumes of mounts as items of a pod's volumes.

    If several mounts have the same volume name, the last one defines the volume.
    """
    volumes = {mount.volume.name: mount.volume for mount in mounts}
    return [_volume_of(job, volume) for volume in volumes.values()]


def _volume_of(
    job: TrainingJob, volume: Scratch | ConfigFiles | SecretFiles | PodFiles
) -> dict[str, Any]:
    source: dict[str, Any]
    if isinstance(volume, Scratch):
        medium = "Memory" if volume.memory else None
        source = {"emptyDir": {"medium": medium, "sizeLimit": volume.size or None}}
    elif isinstance(volume, ConfigFiles):
        scripts = {name for name in volume.files if name.endswith(".sh")}
        mode = RUN if scripts else READ if volume.files else None
        items = [
            {"key": name, "path": name, "mode": READ if scripts and name not in scripts else None}
            for name in volume.files
        ]
        files = {"name": config_name(job.name), "items": items or None, "defaultMode": mode}
        source = {"configMap": files}
    elif isinstance(volume, PodFiles):
        fields = volume.fields.items()
        refs = [{"path": path, "fieldRef": {"fieldPath": each.path}} for path, each in fields]
        source = {"downwardAPI": {"items": refs}}
    else:
        items = [{"key": key, "path": path} for key, path in volume.keys.items()]
        source = {"secret": {"secretName": volume.secret, "items": items or None}}
    pod_volume: dict[str, Any] = without_nulls({"name": volume.name, **source})
    return pod_volume
