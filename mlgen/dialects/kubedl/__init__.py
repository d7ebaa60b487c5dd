"""KubeDL: the jobs of training.kubedl.io, and what their annotations ask for.

Read off KubeDL's own sources, kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and
defaults, controllers and pkg/job_controller for what it does, pkg/code_sync and pkg/tensorboard for
the annotations. It has no webhook; what is refused here, it would never run.
"""

import json
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mlgen.dialects import kubeflow
from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._kubeflow_common import (
    INLINE,
    REPLICA,
    Rules,
    main_container,
    policy,
    roles,
    run_policy,
    wait_by_name,
)
from mlgen.dialects._schemas import COUNT, SWITCH, TEMPLATE, TEXT, TEXTS, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.problems import ValuePath, did_you_mean, dotted

TF = replace(kubeflow.TF, restart="ExitCode")
PYTORCH = replace(kubeflow.PYTORCH, roles=("AIMaster", "Master", "Worker"))
XGBOOST = replace(kubeflow.OLD_XGBOOST, restart="Always")
XDL = Rules(
    framework="xdl",
    field="xdlReplicaSpecs",
    roles=("PS", "Scheduler", "Worker", "ExtendRole"),
    container="xdl",
    port="xdljob-port",
)
MARS = Rules(
    framework="mars",
    field="marsReplicaSpecs",
    roles=("Scheduler", "WebService", "Worker"),
    container="mars",
    port="mars-port",
)
ELASTICDL = Rules(
    framework="elasticdl",
    field="elasticdlReplicaSpecs",
    roles=("Master",),
    container="elasticdl",
    port="elasticdl-port",
    restart="Always",
)

MPI = Rules(
    framework="mpi",
    field="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    container="mpi",
    port="mpi-port",
)

UNDIALLED = (ELASTICDL, MPI)
"""Kinds for which KubeDL makes no Service, and so asks for no container of a name."""

RESTARTS = {
    ("pytorch", "master"): "ExitCode",
    ("mars", "webservice"): "Always",
    ("mars", "worker"): "ExitCode",
}
"""By framework and role: a restart policy by default that is not the one of the kind."""


def _tfjob(builder: Builder) -> None:
    found = _roles(builder, TF)
    success = builder.spec.get("successPolicy")
    leaders = [name for name in ("chief", "master") if name in found]
    if success.value == "AllWorkers" and leaders:
        message = f"KubeDL waits for all workers too; here the {leaders[0]} alone decides"
        hint = "--set spec.successPolicy.role=worker --set spec.successPolicy.replicas=All"
        builder.differs(success, message, f"to let the workers decide: {hint}")
    elif success.value == "AllWorkers" and _on_host(builder):
        builder.differs(success, FIRST_DECIDES, f"leave {NETWORK} out")
    elif success.value == "AllWorkers":
        builder.put(("spec", "successPolicy", "role"), success, "worker")
        builder.put(("spec", "successPolicy", "replicas"), success, "All")
    _artifacts(builder)
    _policies(builder, found, "Running")
    _tensorboard(builder)


def _pytorchjob(builder: Builder) -> None:
    found = _roles(builder, PYTORCH)
    master = found.get("master")
    if not master:
        message = "a PyTorchJob of KubeDL needs a Master"
        builder.refuse(
            builder.spec.get(PYTORCH.field), message, "make one of the workers the Master"
        )
    elif master.get("replicas").value not in (None, 1):
        builder.refuse(master.get("replicas"), "there can be one Master only", "write replicas: 1")
    elif not _on_host(builder):
        builder.put(("spec", "successPolicy", "replicas"), master, "All")
    elastic = _note(builder, ELASTIC)
    if elastic.value == "true":
        message = "KubeDL starts replicas again with another WORLD_SIZE when their number changes"
        hint = "use torchrun, and options.elasticPolicy in a job file"
        builder.differs(elastic, f"{message}; here it is fixed", hint)
    _artifacts(builder)
    _policies(builder, found)


def _xgboostjob(builder: Builder) -> None:
    found = _roles(builder, XGBOOST)
    wait_by_name(builder)
    _policies(builder, found)
    if not policy(builder.spec, "ttlSecondsAfterFinished"):
        builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), builder.spec, 100)


def _xdljob(builder: Builder) -> None:
    found = _roles(builder, XDL)
    for role in builder.roles.values():
        address = role.get("env", {}).get("ZK_ADDR")
        if isinstance(address, str):
            role["env"]["ZK_ADDR"] = f"{address.rstrip('/')}/{builder.name}"
    rate = builder.spec.get("minFinishWorkRate")
    builder.put(("spec", "options", "minFinishWorkRate"), rate)
    if not rate:
        builder.put(("spec", "options", "minFinishWorkNum"), builder.spec.get("minFinishWorkNum"))
    if _on_host(builder):
        builder.differs(_note(builder, NETWORK), FIRST_DECIDES, "leave it out")
    if "extendrole" in found:
        message = "KubeDL counts these replicas among those that must succeed"
        builder.differs(found["extendrole"], f"{message}; here only workers count", "")
    _policies(builder, found, "Running")
    if not policy(builder.spec, "backoffLimit"):
        builder.put(("spec", "runPolicy", "backoffLimit"), builder.spec, 20)


def _marsjob(builder: Builder) -> None:
    found = _roles(builder, MARS)
    at, memory = (
        ("spec", "options", "workerMemoryTuningPolicy"),
        builder.spec.get("workerMemoryTuningPolicy"),
    )
    for name in ("plasmaStore", "lockFreeFileIO", "spillDirs"):
        builder.put((*at, name), memory.get(name))
    size, part = memory.get("workerCacheSize"), memory.get("workerCachePercentage")
    if size:
        builder.put((*at, "workerCacheSize"), size, str(size.value))
    elif part.value:
        builder.put((*at, "workerCachePercentage"), part, min(100, part.value))
    host = builder.spec.get("webHost")
    if host:
        message = f"KubeDL leads {host.value} to the web services by an Ingress; none is rendered"
        builder.differs(host, message, f"write one to the Service {builder.name}")
    _policies(builder, found)


def _elasticdljob(builder: Builder) -> None:
    found = _roles(builder, ELASTICDL)
    master = builder.roles.get("master", {})
    if master and not master.get("command") and not master.get("args"):
        message = "KubeDL runs what the image runs by itself; here ElasticDL's master is started"
        hint = "write command, unless that is the same"
        builder.differs(found["master"].get("template", "spec", "containers"), message, hint)
    _policies(builder, found)


def _mpijob(builder: Builder) -> None:
    found = _roles(builder, MPI)
    _refuse_of_mpi(builder, found)
    if "worker" in found:
        _mpi_options(builder, found.get("launcher", builder.spec))
        _mpi_workers(builder, found["worker"].get("restartPolicy"))
    else:
        builder.put(("spec", "framework"), builder.given.get("kind"), "generic")
    _policies(builder, found, "Running")


def _refuse_of_mpi(builder: Builder, found: Mapping[str, SourceValue]) -> None:
    """Refuse what leads to no job that runs."""
    spec, launcher, worker = builder.spec, found.get("launcher"), found.get("worker")
    for name in ("gpus", "processingUnits", "replicas"):
        if spec.get(name):
            message = "of a job of v1alpha1, KubeDL makes workers that run mpirun themselves"
            builder.refuse(spec.get(name), message, "write mpiReplicaSpecs and slotsPerWorker")
    if not launcher:
        builder.refuse(spec.get(MPI.field), "there is no Launcher to run mpirun", "add one")
    elif launcher.get("replicas").value not in (None, 1):
        hint = "write replicas: 1"
        builder.refuse(launcher.get("replicas"), "there can be one Launcher only", hint)
    if worker and not worker.get("replicas"):
        builder.refuse(worker, "a Worker must say how many replicas it has", "write replicas")


def _mpi_options(builder: Builder, launcher: SourceValue) -> None:
    """Write how mpirun starts processes: in the launcher too, as KubeDL's flag for it is on."""
    distribution = builder.spec.get("mpiDistribution")
    name = "Intel" if distribution.value == "IntelMPI" else distribution.value
    builder.put(("spec", "options", "slotsPerWorker"), builder.spec.get("slotsPerWorker"))
    builder.put(("spec", "options", "implementation"), distribution, name)
    if _on_host(builder):
        message = "on the network of its node mpirun does not know the launcher by its name"
        hint = "start fewer processes, as KubeDL starts some there"
        builder.differs(_note(builder, NETWORK), f"{message}; it gets no processes", hint)
    else:
        builder.put(("spec", "options", "runLauncherAsWorker"), launcher, value=True)


def _mpi_workers(builder: Builder, restart: SourceValue) -> None:
    """Leave it to the framework when workers are started again."""
    for word in ("restartPolicy", "retryableExitCodes"):
        builder.roles.get("worker", {}).pop(word, None)
    if restart.value not in (None, "Always"):
        message = "kubectl exec needs pods of fixed names, which a StatefulSet always restarts"
        hint = "leave it out; when mpirun loses a worker, the launcher fails, and so does the job"
        builder.differs(restart, message, hint)


def _roles(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Write every role with KubeDL's defaults; return the replica types by role."""
    builder.put(("spec", "framework"), builder.given.get("kind"), rules.framework)
    found = roles(builder, rules)
    policies = builder.spec.get("runPolicy")
    if policies and rules is not MPI:
        message = "KubeDL has what stands here in spec itself, and overlooks a runPolicy"
        builder.refuse(policies, message, "move its fields up")
    steering = found.pop("aimaster", None)
    if steering:
        message = "an AIMaster steers the job by this resource, which is not in the cluster here"
        builder.differs(steering, f"{message}; it is left out", "")
    for role, given in found.items():
        template = given.get("template")
        main = _main(builder, template, rules)
        if main:
            builder.role(role, template, main, None if rules in UNDIALLED else rules.port)
            _restart(builder, role, given, RESTARTS.get((rules.framework, role), rules.restart))
            _spot(builder, role, given)
    return found


def _main(builder: Builder, template: SourceValue, rules: Rules) -> SourceValue | None:
    """Return the training container, which may have any name where nobody dials its port."""
    there = [container["name"] for container in template.get("spec", "containers").value]
    names = (builder.spec.get("mainContainer").value, rules.container, there[0])
    if rules in UNDIALLED:
        return main_container(builder, template, next(name for name in names if name in there))
    return main_container(builder, template, rules.container)


def _restart(builder: Builder, role: str, given: SourceValue, default: str) -> None:
    """Write how many replicas there are, and when one is started again."""
    builder.put(("spec", "roles", role, "replicas"), given.get("replicas"))
    restart = given.get("restartPolicy")
    builder.put(("spec", "roles", role, "restartPolicy"), restart, restart.value or default)
    if (restart.value or default) == "ExitCode":
        builder.put(("spec", "roles", role, "retryableExitCodes"), restart, kubeflow.RETRYABLE)


def _spot(builder: Builder, role: str, given: SourceValue) -> None:
    """Write what makes all replicas spot pods; the last of several cannot differ from the rest."""
    spot, at = given.get("spotReplicaSpec"), ("spec", "roles", role, "template")
    number, replicas = spot.get("spotReplicaNumber"), builder.roles[role].get("replicas", 1)
    if not number.value:
        return
    if number.value < replicas:
        message = f"only the last {number.value} of {replicas} replicas would be spot pods"
        hint = "write priorityClassName and labels into the template, for all of them"
        builder.differs(spot, f"{message}; here all are alike", hint)
        return
    builder.put((*at, "spec", "priorityClassName"), spot.get("priorityClassName"))
    labels = builder.roles[role].get("template", {}).get("metadata", {}).get("labels", {})
    added = spot.get("labels")
    builder.put((*at, "metadata", "labels"), added, labels | (added.value or {}))


def _policies(builder: Builder, found: Mapping[str, SourceValue], clean: str = "") -> None:
    """Write what holds for the whole job, by its policies and annotations."""
    restarts = {role.get("restartPolicy", "Never") for role in builder.roles.values()}
    run_policy(builder, found, "", clean, endless=restarts != {"Never"})
    cron = policy(builder.spec, "cronPolicy")
    if cron:
        message = "KubeDL starts the job again by this schedule; nothing does so here"
        hint = "let a CronJob or an Argo CronWorkflow apply the manifests"
        builder.differs(cron, message, hint)
    priority = policy(builder.spec, "schedulingPolicy").get("priority")
    if priority:
        message = "KubeDL's queue starts jobs of high priority first; here there is no queue"
        builder.differs(priority, message, "write priorityClassName in the templates")
    if _on_host(builder):
        builder.put(("spec", "network", "host"), _note(builder, NETWORK), value=True)
        _forget(builder, NETWORK)
    _code(builder)
    builder.share_templates()


def _artifacts(builder: Builder) -> None:
    """Write where a model goes; say what KubeDL's controllers of models and of caches do."""
    model, cache = builder.spec.get("modelVersion"), builder.spec.get("cacheBackend")
    if model:
        mounted = _model(builder, model.get("storage"))
        message = "KubeDL makes an image of the model at the end; nothing does so here"
        hint = "build one in a step after training"
        if not mounted:
            message = "neither is this storage mounted here, nor an image made of it at the end"
            hint = "mount it in the templates, and name its folder in KUBEDL_MODEL_PATH"
        builder.differs(model, message, hint)
    if cache:
        message = "KubeDL has Fluid cache this data and mounts it; it is not mounted here"
        hint = f"mount a claim with the data at {cache.get('mountPath').value} in the templates"
        builder.differs(cache, message, hint)


def _model(builder: Builder, storage: SourceValue) -> bool:
    """Mount the storage of a model in every role, where it is a folder; return whether it is."""
    kind = "nfs" if storage.get("nfs") else "localStorage"
    given = storage.get(kind)
    source = {k: given.value[k] for k in ("server", "path") if k in (given.value or {})}
    if not source.get("path") or (kind == "nfs" and not source.get("server")):
        return False
    folder = given.get("mountPath").value or MODEL_PATH
    volume = {"nfs": source} if kind == "nfs" else {"hostPath": source["path"]}
    for name, role in builder.roles.items():
        builder.put(
            ("spec", "roles", name, "volumes", "modelvolume"), given, {"mountPath": folder} | volume
        )
        if "KUBEDL_MODEL_PATH" not in role.get("env", {}):
            builder.put(("spec", "roles", name, "env", "KUBEDL_MODEL_PATH"), given, folder)
    return True


FIRST_DECIDES = "on the network of the nodes workers are one Job each, and the first decides"

MODEL_PATH = "/kubedl-model"
"""Where training code leaves a model if the resource does not say."""

NETWORK = "kubedl.io/network-mode"
ELASTIC = "kubedl.io/enable-elastic-training"
GIT = "kubedl.io/git-sync-config"
BOARD = "kubedl.io/tensorboard-config"


def _on_host(builder: Builder) -> bool:
    return bool(_note(builder, NETWORK).value == "host")


def _note(builder: Builder, name: str) -> SourceValue:
    return builder.given.get("metadata", "annotations", name)


def _forget(builder: Builder, name: str) -> None:
    """Take away an annotation whose meaning stands elsewhere now."""
    notes = builder.data["metadata"]["annotations"]
    del notes[name]
    if not notes:
        del builder.data["metadata"]["annotations"]


def _json(builder: Builder, name: str, known: Mapping[str, type]) -> SourceValue:
    """Return what an annotation says in JSON; nothing where there is none or it makes no sense."""
    note = _note(builder, name)
    if not note:
        return note
    _forget(builder, name)
    try:
        found = json.loads(note.value)
        json.dumps(found, ensure_ascii=False).encode()  # half of a character fits in no file
    except (ValueError, RecursionError) as error:
        builder.refuse(note, f"this is not JSON: {error}", EXAMPLES[name])
        return SourceValue(None)
    if not isinstance(found, dict):
        builder.refuse(note, "this is not a mapping in JSON", EXAMPLES[name])
        return SourceValue(None)
    given = SourceValue({k: v for k, v in found.items() if v is not None}, note.path)
    wrong = [
        (field, known[word])
        for word, field in given.fields()
        if word in known and not isinstance(field.value, known[word])
    ]
    for field, wanted in wrong:
        builder.refuse(field, f"{field.path[-1]} must be {TYPES[wanted]}", EXAMPLES[name])
    for word, field in given.fields():
        if word not in known:
            hint = did_you_mean(word, known) or f"known are: {', '.join(known)}"
            builder.differs(field, f'KubeDL knows no "{word}" here, and neither does mlgen', hint)
    return SourceValue(None) if wrong else given


TYPES = {str: "a text", bool: "true or false", int: "a number", dict: "a mapping", list: "a list"}

GIT_FIELDS = {
    "source": str,
    "image": str,
    "rootPath": str,
    "destPath": str,
    "envs": list,
    "branch": str,
    "revision": str,
    "depth": str,
    "maxFailures": int,
    "ssh": bool,
    "sshFile": str,
    "user": str,
    "password": str,
}

BOARD_FIELDS = {
    "logDir": str,
    "ttlSecondsAfterJobFinished": int,
    "updateTimestamp": str,
    "image": str,
    "ingressSpec": dict,
}

EXAMPLES = {
    GIT: 'for example {"source": "https://git.example/mnist.git", "branch": "main"}',
    BOARD: 'for example {"logDir": "/logs"}',
}


def _code(builder: Builder) -> None:
    """Write the repository as a volume of every role, in its folder under the working directory."""
    git = _json(builder, GIT, GIT_FIELDS)
    if not git:
        return
    source = git.get("source").value
    if not source:
        builder.refuse(git, "there is no source to fetch", EXAMPLES[GIT])
        return
    code = {"repository": source}
    revision = git.get("revision").value or git.get("branch").value
    if revision:
        code["revision"] = revision
    folder = git.get("destPath").value or source.strip("/").rpartition("/")[2].removesuffix(".git")
    folders = {n: _folder(role.get("workingDir", ""), folder) for n, role in builder.roles.items()}
    alike = len(set(folders.values())) == 1
    roles: list[ValuePath] = [("spec", "roles", name) for name in folders]
    targets = [(*role, "volumes", "git-sync") for role in ([("spec",)] if alike else roles)]
    for target, path in zip(targets, folders.values(), strict=False):
        builder.put(target, git, {"mountPath": path, "git": code})
    if any(git.get(word).value for word in ("ssh", "sshFile", "user", "password")):
        message = "mlgen takes no keys and passwords from an annotation, which everybody can read"
        places = " and ".join(f"{dotted(target)}.git.secret" for target in targets)
        hint = (
            "make a Secret with ssh-privatekey and known_hosts, or with username and password, and"
            f" --set {places} to its name"
        )
        builder.differs(git, message, hint)
    for word in [word for word in ("image", "envs") if git.get(word).value]:
        message = f"{word} is for KubeDL's own container; here git is run by another image"
        builder.differs(git.get(word), message, "--set spec.helpers.gitImage to an image with git")


def _folder(working: str, folder: str) -> str:
    """Return where KubeDL mounts a folder: a path that is not absolute begins at the root."""
    return f"/{posixpath.normpath(f'/{working}/{folder}').lstrip('/')}"


def _tensorboard(builder: Builder) -> None:
    """Write the TensorBoard, which sees the volumes of the role that leads training."""
    board = _json(builder, BOARD, BOARD_FIELDS)
    if not board:
        return
    folder = board.get("logDir")
    if not folder.value:
        builder.refuse(board, "there is no logDir to look into", EXAMPLES[BOARD])
        return
    leader = next((role for role in ("chief", "master", "worker") if role in builder.roles), None)
    if leader is None:
        return
    if not _shared(builder, leader, folder):
        message = f"over {folder.value} is no volume that pods can share and no sidecar mounts"
        hint = f"mount a persistentVolumeClaim or nfs there in the container of the {leader}"
        builder.differs(folder, f"{message}, so no TensorBoard is rendered", hint)
        return
    image = board.get("image").value or builder.roles[leader]["image"]
    builder.put(("spec", "tensorboard", "logDir"), folder)
    builder.put(("spec", "tensorboard", "image"), board.get("image"), image)
    seconds, ingress = board.get("ttlSecondsAfterJobFinished"), board.get("ingressSpec")
    if seconds:
        message = f"KubeDL deletes TensorBoard {seconds.value} s after training; here it stays"
        hint = f"then run: kubectl delete deployment,service {builder.name}-tensorboard"
        builder.differs(seconds, message, hint)
    if ingress:
        hint = f"write one to the Service {builder.name}-tensorboard, port 6006"
        builder.differs(ingress, "no Ingress is rendered for TensorBoard", hint)


def _shared(builder: Builder, leader: str, folder: SourceValue) -> bool:
    """Give all roles the leader's volume over a folder: TensorBoard sees those of all roles."""
    if "://" in folder.value:
        return True
    over = {
        name: volume
        for name, volume in builder.roles[leader].get("volumes", {}).items()
        if {"pvc", "nfs", "hostPath"} & set(volume)
        and f"{folder.value}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    }
    if not over:
        return False
    name, volume = max(over.items(), key=lambda item: len(item[1]["mountPath"]))
    without = [role for role in builder.roles if name not in builder.roles[role].get("volumes", {})]
    if without:
        message = f"TensorBoard sees volumes of all roles, so {name} is mounted in"
        builder.differs(folder, f"{message} {', '.join(without)} too", "")
    path = builder.origins["spec", "roles", leader, "volumes", name]
    builder.put(("spec", "volumes", name), SourceValue(volume, path))
    for role in builder.roles.values():
        if role.get("volumes", {}).get(name) == volume:
            del role["volumes"][name]
            if not role["volumes"]:
                del role["volumes"]
    return True


SCHEDULING = mapping(
    {
        "minAvailable": COUNT,
        "priority": {"type": "integer"},
        "priorityClassName": TEXT,
        "queue": TEXT,
    }
)
CRON = mapping(
    {
        "schedule": TEXT,
        "concurrencyPolicy": {"enum": ["", "Allow", "Forbid", "Replace"]},
        "suspend": SWITCH,
        "deadline": TEXT,
        "historyLimit": COUNT,
    },
    "schedule",
)
POLICIES = INLINE | {"schedulingPolicy": SCHEDULING, "cronPolicy": CRON}
RUN_POLICY = mapping(POLICIES)

SPOT = mapping({"spotReplicaNumber": COUNT, "priorityClassName": TEXT, "labels": TEXTS})
REPLICAS = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": mapping(REPLICA["properties"] | {"spotReplicaSpec": SPOT}, "template"),
}

FOLDER = {"path": TEXT, "mountPath": TEXT}
MODEL = mapping(
    {
        "modelName": TEXT,
        "createdBy": TEXT,
        "imageRepo": TEXT,
        "imageTag": TEXT,
        "storage": mapping(
            {
                "localStorage": mapping(FOLDER | {"nodeName": TEXT}),
                "nfs": mapping(FOLDER | {"server": TEXT}),
                "AWSEfs": mapping({"volumeHandle": TEXT, "attributes": TEXTS}),
            }
        ),
    }
)
TIER = mapping({"cachePath": TEXT, "quota": TEXT, "mediumType": TEXT})
ALLUXIO = mapping({"replicas": COUNT, "tieredStorage": {"type": "array", "items": TIER}})
SOURCE = mapping({"location": TEXT, "subDirName": TEXT})
CACHE = mapping(
    {
        "name": TEXT,
        "mountPath": TEXT,
        "dataset": mapping({"dataSources": {"type": "array", "items": SOURCE}}),
        "cacheEngine": mapping({"fluid": mapping({"alluxioRuntime": ALLUXIO})}),
        "options": mapping({"idleTime": COUNT}),
    }
)
ARTIFACTS = {"modelVersion": MODEL, "cacheBackend": CACHE}

MEMORY = mapping(
    {
        "plasmaStore": TEXT,
        "lockFreeFileIO": SWITCH,
        "spillDirs": {"type": "array", "items": TEXT},
        "workerCachePercentage": COUNT,
        "workerCacheSize": {"$ref": "#/definitions/quantity"},
    }
)

VERSION = "training.kubedl.io/v1alpha1"


def _kind(rules: Rules, convert: Callable[[Builder], None], **fields: Any) -> Kind:
    common = POLICIES | {"runPolicy": RUN_POLICY, rules.field: REPLICAS}
    return Kind(mapping(common | fields, rules.field), convert)


MPI_FIELDS = {
    "slotsPerWorker": COUNT,
    "mainContainer": TEXT,
    "mpiDistribution": {"enum": ["OpenMPI", "IntelMPI", "MPICH"]},
    "gpus": COUNT,
    "gpusPerNode": COUNT,
    "processingUnits": COUNT,
    "processingUnitsPerNode": COUNT,
    "processingResourceType": TEXT,
    "launcherOnMaster": SWITCH,
    "replicas": COUNT,
    "template": TEMPLATE,
}

DIALECT = Dialect(
    groups=(
        "training.kubedl.io",
        "apps.kubedl.io",
        "cache.kubedl.io",
        "inference.kubedl.io",
        "model.kubedl.io",
        "notebook.kubedl.io",
        "serving.kubedl.io",
    ),
    kinds={
        (VERSION, "TFJob"): _kind(
            TF, _tfjob, successPolicy={"enum": ["", "AllWorkers"]}, **ARTIFACTS
        ),
        (VERSION, "PyTorchJob"): _kind(PYTORCH, _pytorchjob, **ARTIFACTS),
        (VERSION, "XGBoostJob"): _kind(XGBOOST, _xgboostjob),
        (VERSION, "XDLJob"): _kind(XDL, _xdljob, minFinishWorkNum=COUNT, minFinishWorkRate=COUNT),
        (VERSION, "MarsJob"): _kind(MARS, _marsjob, workerMemoryTuningPolicy=MEMORY, webHost=TEXT),
        (VERSION, "MPIJob"): _kind(MPI, _mpijob, **MPI_FIELDS),
        (VERSION, "ElasticDLJob"): _kind(ELASTICDL, _elasticdljob),
    },
)
