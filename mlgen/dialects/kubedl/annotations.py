"""Fields that KubeDL derives from annotations `kubedl.io/…` and from artifacts in `spec`.

Some annotations hold a configuration as JSON. Annotations that become fields of the TrainingJob are
removed from its metadata. Sources: kubedl-io/kubedl at b93a2b4, pkg/code_sync, pkg/tensorboard,
controllers/model and controllers/cache.
"""

import json
import posixpath
from shlex import quote

from mlgen.bounds import DEPTH
from mlgen.dialects._builder import NOTHING, Builder, SourceValue, remove
from mlgen.dialects._schemas import read
from mlgen.documents.document import is_too_deep
from mlgen.problems import ValuePath, choice, dotted

NETWORK_MODE = "kubedl.io/network-mode"
ELASTIC_TRAINING = "kubedl.io/enable-elastic-training"

GIT_SYNC = "kubedl.io/git-sync-config"
TENSORBOARD = "kubedl.io/tensorboard-config"

TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "boolean": (bool, "a boolean"),
    "integer": (int, "an integer"),
    "number": (float, "a number"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}
"""The Python type and its name in messages, by type in JSON Schema."""


def annotation(builder: Builder, name: str) -> SourceValue:
    """Return an annotation of the custom resource."""
    return builder.resource.get("metadata", "annotations", name)


def on_host_network(builder: Builder) -> bool:
    """Return True if the pods use the network of their nodes."""
    return bool(annotation(builder, NETWORK_MODE).value == "host")


def remove_annotation(builder: Builder, name: str) -> None:
    """Remove an annotation from the TrainingJob."""
    remove(builder.data["metadata"], "annotations", name)


def read_json(builder: Builder, name: str) -> SourceValue:
    """Return the JSON object in an annotation, and remove the annotation from the TrainingJob.

    Args:
        builder: collects the problems of an invalid annotation.
        name: of the annotation. Its schema is in `schemas/resources/kubedl.json`.

    Returns:
        The object without null fields; an unset value if the annotation is missing or invalid.
    """
    source = annotation(builder, name)
    if not source:
        return source
    remove_annotation(builder, name)
    schema = read("kubedl.json")["annotations"][name]
    hint = f"for example {json.dumps(schema['examples'][0])}"
    try:
        content = json.loads(source.value)
        json.dumps(content, ensure_ascii=False).encode()  # rejects half of a surrogate pair
        if is_too_deep(content):
            raise RecursionError(f"nested more than {DEPTH} levels deep")
    except (ValueError, RecursionError) as error:
        builder.refuse(source, f"invalid JSON: {error}", hint)
        return NOTHING
    if not isinstance(content, dict):
        builder.refuse(source, "expected a JSON object", hint)
        return NOTHING
    config = SourceValue({k: v for k, v in content.items() if v is not None}, source.path)
    known, wrong = schema["properties"], False
    for field_name, field in config.fields():
        kind, expected = TYPES[known[field_name]["type"]] if field_name in known else (object, "")
        if not isinstance(field.value, kind):
            wrong = True
            got = dict(TYPES.values())[type(field.value)]
            builder.refuse(field, f"expected {expected}, got {got}", hint)
    for field_name, field in config.fields():
        if field_name not in known:
            suggestion = choice(field_name, list(known))
            builder.warn(field, f'unknown field "{field_name}"; KubeDL also ignores it', suggestion)
    (required,) = schema["required"]
    if not wrong and not config.get(required).value:
        builder.refuse(config, f'field "{required}" is missing', hint)
        wrong = True
    return NOTHING if wrong else config


CREDENTIALS = ("ssh", "sshFile", "user", "password")


def write_code_sync(builder: Builder) -> None:
    """Write the repository as a volume, mounted below the working directory of each role."""
    config = read_json(builder, GIT_SYNC)
    if not config:
        return
    git = {"repository": config.get("source").value}
    revision = config.get("revision").value or config.get("branch").value
    if revision:
        git["revision"] = revision
    paths = _mount_paths(builder, config)
    same = len(set(paths.values())) == 1
    owners: list[ValuePath] = [("spec",)] if same else [("spec", "roles", role) for role in paths]
    volumes = [(*owner, "volumes", "git-sync") for owner in owners]
    for volume, path in zip(volumes, paths.values(), strict=False):
        builder.put(volume, config, {"mountPath": path, "git": git})
    if any(config.get(name).value for name in CREDENTIALS):  # readable by all readers of the job
        settings = " ".join(f"--set {dotted(volume)}.git.secret=NAME" for volume in volumes)
        builder.warn(
            config,
            "credentials in an annotation are not secret, and mlgen does not use them",
            "create a Secret with ssh-privatekey and known_hosts, or with username and password, "
            f"and pass {settings}",
        )
    for name in ("image", "envs"):
        if config.get(name).value:
            builder.warn(
                config.get(name),
                f"{name} applies to KubeDL's own container; mlgen runs git in another image",
                "to choose the image, pass --set spec.helpers.gitImage=IMAGE",
            )


def _mount_paths(builder: Builder, config: SourceValue) -> dict[str, str]:
    """Return the absolute path of the repository in the containers of each role.

    KubeDL joins the working directory and the folder. Relative paths start at `/`.
    """
    name = config.get("source").value.strip("/").rpartition("/")[2].removesuffix(".git")
    folder = config.get("destPath").value or name
    joined = {
        role: posixpath.normpath(f"/{fields.get('workingDir', '')}/{folder}")
        for role, fields in builder.roles.items()
    }
    return {role: f"/{path.lstrip('/')}" for role, path in joined.items()}


LEADERS = ("chief", "master", "worker")
"""The roles that can be the leader, the preferred first. TensorBoard reads the leader's volumes."""

SHAREABLE = ("pvc", "nfs", "hostPath")
"""Volumes that pods can share."""


def write_tensorboard(builder: Builder) -> None:
    """Write `spec.tensorboard`, with the leader's volume that contains the logs."""
    config = read_json(builder, TENSORBOARD)
    leader = next((role for role in LEADERS if role in builder.roles), None)
    if not config or leader is None:
        return
    log_dir = config.get("logDir")
    if "://" not in log_dir.value and not _share_volume(builder, leader, log_dir):
        builder.warn(
            log_dir,
            f"TensorBoard is not rendered, because {log_dir.value} is not on a volume that it can "
            "share",
            "mount a PersistentVolumeClaim or an NFS volume at this path, only in the training "
            f"container of the {leader}",
        )
        return
    image = config.get("image").value or builder.roles[leader]["image"]
    builder.put(("spec", "tensorboard", "logDir"), log_dir)
    builder.put(("spec", "tensorboard", "image"), config.get("image"), image)
    name = f"{builder.name}-tensorboard"
    # These fields are not rendered.
    seconds, ingress = config.get("ttlSecondsAfterJobFinished"), config.get("ingressSpec")
    builder.warn(
        seconds,
        f"KubeDL deletes TensorBoard {seconds.value} s after training; mlgen keeps it",
        f"to delete it, run kubectl delete deployment,service {quote(name)}",
    )
    builder.warn(
        ingress,
        "KubeDL creates an Ingress for TensorBoard; mlgen does not",
        f"create one for the Service {name}, port 6006",
    )


def _share_volume(builder: Builder, leader: str, log_dir: SourceValue) -> bool:
    """Move the leader's volume that contains the logs to the volumes of all roles.

    TensorBoard mounts the volumes of all roles. Return False if there is no such volume.
    """
    mounted = {
        name: volume
        for name, volume in builder.roles[leader].get("volumes", {}).items()
        if set(SHAREABLE) & set(volume)
        and f"{log_dir.value}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    }
    if not mounted:
        return False
    name = max(mounted, key=lambda name: len(mounted[name]["mountPath"]))
    volume = mounted[name]
    without = [role for role in builder.roles if name not in builder.roles[role].get("volumes", {})]
    if without:
        roles = ", ".join(without)
        builder.warn(log_dir, f"mlgen mounts the volume {name} of TensorBoard also in {roles}")
    path = builder.origins["spec", "roles", leader, "volumes", name]
    builder.put(("spec", "volumes", name), SourceValue(volume, path))
    for role in builder.roles.values():
        if role.get("volumes", {}).get(name) == volume:  # not another volume of this name
            remove(role, "volumes", name)
    return True


MODEL_PATH = "/kubedl-model"
"""The folder in which training code saves a model by default."""

MODEL_PATH_ENV = "KUBEDL_MODEL_PATH"


def write_artifacts(builder: Builder) -> None:
    """Mount the storage of the model, and report fields for KubeDL's other controllers."""
    model, cache = builder.spec.get("modelVersion"), builder.spec.get("cacheBackend")
    if model and _mount_model(builder, model.get("storage")):
        builder.warn(
            model,
            "KubeDL builds an image of the model after training; mlgen does not",
            "build the image in a later step",
        )
    else:
        builder.warn(
            model,
            "KubeDL mounts this storage and builds an image of the model; mlgen does neither",
            f"mount the storage in the templates, and set {MODEL_PATH_ENV} to the mount path",
        )
    path = cache.get("mountPath").value or "its folder"
    builder.warn(
        cache,
        "KubeDL caches this data with Fluid and mounts it; mlgen does not",
        f"mount a PersistentVolumeClaim with the data at {path} in the templates",
    )


def _mount_model(builder: Builder, storage: SourceValue) -> bool:
    """Mount the storage of a model in every role. Return False if it is not a folder."""
    kind = "nfs" if storage.get("nfs") else "localStorage"
    source = storage.get(kind)
    path, server = source.get("path").value, source.get("server").value
    if not path or (kind == "nfs" and not server):
        return False
    mount_path = source.get("mountPath").value or MODEL_PATH
    volume = {"mountPath": mount_path, "hostPath": path}
    if kind == "nfs":
        volume = {"mountPath": mount_path, "nfs": {"server": server, "path": path}}
    for name, role in builder.roles.items():
        at = ("spec", "roles", name)
        builder.put((*at, "volumes", "modelvolume"), source, volume)
        if MODEL_PATH_ENV not in role.get("env", {}):
            builder.put((*at, "env", MODEL_PATH_ENV), source, mount_path)
    return True
