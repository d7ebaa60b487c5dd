"""`modelVersion` and `cacheBackend`: where a job saves its model, and from where it reads its data.

Source: kubedl-io/kubedl at b93a2b4, controllers/model and controllers/cache.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue

MODEL_PATH = "/kubedl-model"
"""Where training code saves a model by default."""

MODEL_PATH_ENV = "KUBEDL_MODEL_PATH"


def write_artifacts(builder: Builder) -> None:
    """Mount the storage of the model; report what KubeDL's other controllers do."""
    model, cache = builder.spec.get("modelVersion"), builder.spec.get("cacheBackend")
    if model:
        message = "KubeDL builds an image of the model after training; mlgen does not"
        hint = "build one in a step after training"
        if not _mount_model(builder, model.get("storage")):
            message = "this storage is not mounted, and no image of the model is built"
            hint = f"mount it in the templates, and set {MODEL_PATH_ENV} to its folder"
        builder.differs(model, message, hint)
    if cache:
        message = "KubeDL caches this data with Fluid and mounts it; here it is not mounted"
        path = cache.get("mountPath").value or "its folder"
        builder.differs(cache, message, f"mount a claim with the data at {path} in the templates")


def _mount_model(builder: Builder, storage: SourceValue) -> bool:
    """Mount the storage of a model in every role; return False if it is no folder."""
    kind = "nfs" if storage.get("nfs") else "localStorage"
    source = storage.get(kind)
    path, server = source.get("path").value, source.get("server").value
    if not path or (kind == "nfs" and not server):
        return False
    volume = (
        {"hostPath": path} if kind == "localStorage" else {"nfs": {"server": server, "path": path}}
    )
    mount_path = source.get("mountPath").value or MODEL_PATH
    for name, role in builder.roles.items():
        at = ("spec", "roles", name)
        builder.put((*at, "volumes", "modelvolume"), source, {"mountPath": mount_path} | volume)
        if MODEL_PATH_ENV not in role.get("env", {}):
            builder.put((*at, "env", MODEL_PATH_ENV), source, mount_path)
    return True
