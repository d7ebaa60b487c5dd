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
from mlgen.draft import COUNT, SWITCH, TEMPLATE, TEXT, TEXTS, Draft, Given, Kind, mapping
from mlgen.kubeflow_common import (
    INLINE,
    REPLICA,
    Rules,
    main_container,
    policy,
    roles,
    run_policy,
    wait_by_name,
)
from mlgen.problems import did_you_mean

GROUPS = (
    "training.kubedl.io",
    "apps.kubedl.io",
    "cache.kubedl.io",
    "inference.kubedl.io",
    "model.kubedl.io",
    "notebook.kubedl.io",
    "serving.kubedl.io",
)

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


def _tfjob(draft: Draft) -> None:
    found = _roles(draft, TF)
    success = draft.spec.get("successPolicy")
    leaders = [name for name in ("chief", "master") if name in found]
    if success.value == "AllWorkers" and leaders:
        message = f"KubeDL waits for all workers too; here the {leaders[0]} alone decides"
        cure = "--set spec.successPolicy.role=worker --set spec.successPolicy.replicas=All"
        draft.differs(success, message, f"to let the workers decide: {cure}")
    elif success.value == "AllWorkers" and _on_host(draft):
        draft.differs(success, FIRST_DECIDES, f"leave {NETWORK} out")
    elif success.value == "AllWorkers":
        draft.put("spec.successPolicy.role", success, "worker")
        draft.put("spec.successPolicy.replicas", success, "All")
    _artifacts(draft)
    _policies(draft, found, "Running")
    _tensorboard(draft)


def _pytorchjob(draft: Draft) -> None:
    found = _roles(draft, PYTORCH)
    master = found.get("master")
    if not master:
        message = "a PyTorchJob of KubeDL needs a Master"
        draft.refuse(draft.spec.get(PYTORCH.field), message, "make one of the workers the Master")
    elif master.get("replicas").value not in (None, 1):
        draft.refuse(master.get("replicas"), "there can be one Master only", "write replicas: 1")
    elif not _on_host(draft):
        draft.put("spec.successPolicy.replicas", master, "All")
    elastic = _note(draft, ELASTIC)
    if elastic.value == "true":
        message = "KubeDL starts replicas again with another WORLD_SIZE when their number changes"
        cure = "use torchrun, and options.elasticPolicy in a job file"
        draft.differs(elastic, f"{message}; here it is fixed", cure)
    _artifacts(draft)
    _policies(draft, found)


def _xgboostjob(draft: Draft) -> None:
    found = _roles(draft, XGBOOST)
    wait_by_name(draft)
    _policies(draft, found)
    if not policy(draft.spec, "ttlSecondsAfterFinished"):
        draft.put("spec.runPolicy.ttlSecondsAfterFinished", draft.spec, 100)


def _xdljob(draft: Draft) -> None:
    found = _roles(draft, XDL)
    for role in draft.roles.values():
        address = role.get("env", {}).get("ZK_ADDR")
        if isinstance(address, str):
            role["env"]["ZK_ADDR"] = f"{address.rstrip('/')}/{draft.name}"
    rate = draft.spec.get("minFinishWorkRate")
    draft.put("spec.options.minFinishWorkRate", rate)
    if not rate:
        draft.put("spec.options.minFinishWorkNum", draft.spec.get("minFinishWorkNum"))
    if _on_host(draft):
        draft.differs(_note(draft, NETWORK), FIRST_DECIDES, "leave it out")
    if "extendrole" in found:
        message = "KubeDL counts these replicas among those that must succeed"
        draft.differs(found["extendrole"], f"{message}; here only workers count", "")
    _policies(draft, found, "Running")
    if not policy(draft.spec, "backoffLimit"):
        draft.put("spec.runPolicy.backoffLimit", draft.spec, 20)


def _marsjob(draft: Draft) -> None:
    found = _roles(draft, MARS)
    at, memory = "spec.options.workerMemoryTuningPolicy", draft.spec.get("workerMemoryTuningPolicy")
    for name in ("plasmaStore", "lockFreeFileIO", "spillDirs"):
        draft.put(f"{at}.{name}", memory.get(name))
    size, part = memory.get("workerCacheSize"), memory.get("workerCachePercentage")
    if size:
        draft.put(f"{at}.workerCacheSize", size, str(size.value))
    elif part.value:
        draft.put(f"{at}.workerCachePercentage", part, min(100, part.value))
    host = draft.spec.get("webHost")
    if host:
        message = f"KubeDL leads {host.value} to the web services by an Ingress; none is rendered"
        draft.differs(host, message, f"write one to the Service {draft.name}")
    _policies(draft, found)


def _elasticdljob(draft: Draft) -> None:
    found = _roles(draft, ELASTICDL)
    master = draft.roles.get("master", {})
    if master and not master.get("command") and not master.get("args"):
        message = "KubeDL runs what the image runs by itself; here ElasticDL's master is started"
        cure = "write command, unless that is the same"
        draft.differs(found["master"].get("template", "spec", "containers"), message, cure)
    _policies(draft, found)


def _mpijob(draft: Draft) -> None:
    found = _roles(draft, MPI)
    _refuse_of_mpi(draft, found)
    if "worker" in found:
        _mpi_options(draft, found.get("launcher", draft.spec))
        _mpi_workers(draft, found["worker"].get("restartPolicy"))
    else:
        draft.put("spec.framework", draft.given.get("kind"), "generic")
    _policies(draft, found, "Running")


def _refuse_of_mpi(draft: Draft, found: Mapping[str, Given]) -> None:
    """Refuse what leads to no job that runs."""
    spec, launcher, worker = draft.spec, found.get("launcher"), found.get("worker")
    for name in ("gpus", "processingUnits", "replicas"):
        if spec.get(name):
            message = "of a job of v1alpha1, KubeDL makes workers that run mpirun themselves"
            draft.refuse(spec.get(name), message, "write mpiReplicaSpecs and slotsPerWorker")
    if not launcher:
        draft.refuse(spec.get(MPI.field), "there is no Launcher to run mpirun", "add one")
    elif launcher.get("replicas").value not in (None, 1):
        cure = "write replicas: 1"
        draft.refuse(launcher.get("replicas"), "there can be one Launcher only", cure)
    if worker and not worker.get("replicas"):
        draft.refuse(worker, "a Worker must say how many replicas it has", "write replicas")


def _mpi_options(draft: Draft, launcher: Given) -> None:
    """Write how mpirun starts processes: in the launcher too, as KubeDL's flag for it is on."""
    distribution = draft.spec.get("mpiDistribution")
    name = "Intel" if distribution.value == "IntelMPI" else distribution.value
    draft.put("spec.options.slotsPerWorker", draft.spec.get("slotsPerWorker"))
    draft.put("spec.options.implementation", distribution, name)
    if _on_host(draft):
        message = "on the network of its node mpirun does not know the launcher by its name"
        cure = "start fewer processes, as KubeDL starts some there"
        draft.differs(_note(draft, NETWORK), f"{message}; it gets no processes", cure)
    else:
        draft.put("spec.options.runLauncherAsWorker", launcher, value=True)


def _mpi_workers(draft: Draft, restart: Given) -> None:
    """Leave it to the framework when workers are started again."""
    for word in ("restartPolicy", "retryableExitCodes"):
        draft.roles.get("worker", {}).pop(word, None)
    if restart.value not in (None, "Always"):
        message = "kubectl exec needs pods of fixed names, which a StatefulSet always restarts"
        cure = "leave it out; when mpirun loses a worker, the launcher fails, and so does the job"
        draft.differs(restart, message, cure)


def _roles(draft: Draft, rules: Rules) -> dict[str, Given]:
    """Write every role with KubeDL's defaults; return the replica types by role."""
    draft.put("spec.framework", draft.given.get("kind"), rules.framework)
    found = roles(draft, rules)
    policies = draft.spec.get("runPolicy")
    if policies and rules is not MPI:
        message = "KubeDL has what stands here in spec itself, and overlooks a runPolicy"
        draft.refuse(policies, message, "move its fields up")
    steering = found.pop("aimaster", None)
    if steering:
        message = "an AIMaster steers the job by this resource, which is not in the cluster here"
        draft.differs(steering, f"{message}; it is left out", "")
    for role, given in found.items():
        template = given.get("template")
        main = _main(draft, template, rules)
        if main:
            draft.role(role, template, main, None if rules in UNDIALLED else rules.port)
            _restart(draft, role, given, RESTARTS.get((rules.framework, role), rules.restart))
            _spot(draft, role, given)
    return found


def _main(draft: Draft, template: Given, rules: Rules) -> Given | None:
    """Return the training container, which may have any name where nobody dials its port."""
    there = [container["name"] for container in template.get("spec", "containers").value]
    names = (draft.spec.get("mainContainer").value, rules.container, there[0])
    if rules in UNDIALLED:
        return main_container(draft, template, next(name for name in names if name in there))
    return main_container(draft, template, rules.container)


def _restart(draft: Draft, role: str, given: Given, default: str) -> None:
    """Write how many replicas there are, and when one is started again."""
    draft.put(f"spec.roles.{role}.replicas", given.get("replicas"))
    restart = given.get("restartPolicy")
    draft.put(f"spec.roles.{role}.restartPolicy", restart, restart.value or default)
    if (restart.value or default) == "ExitCode":
        draft.put(f"spec.roles.{role}.retryableExitCodes", restart, kubeflow.RETRYABLE)


def _spot(draft: Draft, role: str, given: Given) -> None:
    """Write what makes all replicas spot pods; the last of several cannot differ from the rest."""
    spot, at = given.get("spotReplicaSpec"), f"spec.roles.{role}.template"
    number, replicas = spot.get("spotReplicaNumber"), draft.roles[role].get("replicas", 1)
    if not number.value:
        return
    if number.value < replicas:
        message = f"only the last {number.value} of {replicas} replicas would be spot pods"
        cure = "write priorityClassName and labels into the template, for all of them"
        draft.differs(spot, f"{message}; here all are alike", cure)
        return
    draft.put(f"{at}.spec.priorityClassName", spot.get("priorityClassName"))
    labels = draft.roles[role].get("template", {}).get("metadata", {}).get("labels", {})
    added = spot.get("labels")
    draft.put(f"{at}.metadata.labels", added, labels | (added.value or {}))


def _policies(draft: Draft, found: Mapping[str, Given], clean: str = "") -> None:
    """Write what holds for the whole job, by its policies and annotations."""
    restarts = {role.get("restartPolicy", "Never") for role in draft.roles.values()}
    run_policy(draft, found, "", clean, endless=restarts != {"Never"})
    cron = policy(draft.spec, "cronPolicy")
    if cron:
        message = "KubeDL starts the job again by this schedule; nothing does so here"
        cure = "let a CronJob or an Argo CronWorkflow apply the manifests"
        draft.differs(cron, message, cure)
    priority = policy(draft.spec, "schedulingPolicy").get("priority")
    if priority:
        message = "KubeDL's queue starts jobs of high priority first; here there is no queue"
        draft.differs(priority, message, "write priorityClassName in the templates")
    if _on_host(draft):
        draft.put("spec.network.host", _note(draft, NETWORK), value=True)
        _forget(draft, NETWORK)
    _code(draft)
    draft.share_templates()


def _artifacts(draft: Draft) -> None:
    """Write where a model goes; say what KubeDL's controllers of models and of caches do."""
    model, cache = draft.spec.get("modelVersion"), draft.spec.get("cacheBackend")
    if model:
        mounted = _model(draft, model.get("storage"))
        message = "KubeDL makes an image of the model at the end; nothing does so here"
        cure = "build one in a step after training"
        if not mounted:
            message = "neither is this storage mounted here, nor an image made of it at the end"
            cure = "mount it in the templates, and name its folder in KUBEDL_MODEL_PATH"
        draft.differs(model, message, cure)
    if cache:
        message = "KubeDL has Fluid cache this data and mounts it; it is not mounted here"
        cure = f"mount a claim with the data at {cache.get('mountPath').value} in the templates"
        draft.differs(cache, message, cure)


def _model(draft: Draft, storage: Given) -> bool:
    """Mount the storage of a model in every role, where it is a folder; return whether it is."""
    kind = "nfs" if storage.get("nfs") else "localStorage"
    given = storage.get(kind)
    source = {k: given.value[k] for k in ("server", "path") if k in (given.value or {})}
    if not source.get("path") or (kind == "nfs" and not source.get("server")):
        return False
    folder = given.get("mountPath").value or MODEL_PATH
    volume = {"nfs": source} if kind == "nfs" else {"hostPath": source["path"]}
    for name, role in draft.roles.items():
        draft.put(f"spec.roles.{name}.volumes.modelvolume", given, {"mountPath": folder} | volume)
        if "KUBEDL_MODEL_PATH" not in role.get("env", {}):
            draft.put(f"spec.roles.{name}.env.KUBEDL_MODEL_PATH", given, folder)
    return True


FIRST_DECIDES = "on the network of the nodes workers are one Job each, and the first decides"

MODEL_PATH = "/kubedl-model"
"""Where training code leaves a model if the resource does not say."""

NETWORK = "kubedl.io/network-mode"
ELASTIC = "kubedl.io/enable-elastic-training"
GIT = "kubedl.io/git-sync-config"
BOARD = "kubedl.io/tensorboard-config"


def _on_host(draft: Draft) -> bool:
    return bool(_note(draft, NETWORK).value == "host")


def _note(draft: Draft, name: str) -> Given:
    return draft.given.get("metadata", "annotations", name)


def _forget(draft: Draft, name: str) -> None:
    """Take away an annotation whose meaning stands elsewhere now."""
    notes = draft.data["metadata"]["annotations"]
    del notes[name]
    if not notes:
        del draft.data["metadata"]["annotations"]


def _json(draft: Draft, name: str, known: Mapping[str, type]) -> Given:
    """Return what an annotation says in JSON; nothing where there is none or it makes no sense."""
    note = _note(draft, name)
    if not note:
        return note
    _forget(draft, name)
    try:
        found = json.loads(note.value)
        json.dumps(found, ensure_ascii=False).encode()  # half of a character fits in no file
    except (ValueError, RecursionError) as error:
        draft.refuse(note, f"this is not JSON: {error}", EXAMPLES[name])
        return Given(None)
    if not isinstance(found, dict):
        draft.refuse(note, "this is not a mapping in JSON", EXAMPLES[name])
        return Given(None)
    given = Given({k: v for k, v in found.items() if v is not None}, note.path)
    wrong = [
        (field, known[word])
        for word, field in given.fields()
        if word in known and not isinstance(field.value, known[word])
    ]
    for field, wanted in wrong:
        draft.refuse(field, f"{field.path[-1]} must be {TYPES[wanted]}", EXAMPLES[name])
    for word, field in given.fields():
        if word not in known:
            cure = did_you_mean(word, known) or f"known are: {', '.join(known)}"
            draft.differs(field, f'KubeDL knows no "{word}" here, and neither does mlgen', cure)
    return Given(None) if wrong else given


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


def _code(draft: Draft) -> None:
    """Write the repository as a volume of every role, in its folder under the working directory."""
    git = _json(draft, GIT, GIT_FIELDS)
    if not git:
        return
    source = git.get("source").value
    if not source:
        draft.refuse(git, "there is no source to fetch", EXAMPLES[GIT])
        return
    code = {"repository": source}
    revision = git.get("revision").value or git.get("branch").value
    if revision:
        code["revision"] = revision
    folder = git.get("destPath").value or source.strip("/").rpartition("/")[2].removesuffix(".git")
    folders = {n: _folder(role.get("workingDir", ""), folder) for n, role in draft.roles.items()}
    alike = len(set(folders.values())) == 1
    at = ["spec.volumes"] if alike else [f"spec.roles.{name}.volumes" for name in folders]
    for place, path in zip(at, folders.values(), strict=False):
        draft.put(f"{place}.git-sync", git, {"mountPath": path, "git": code})
    if any(git.get(word).value for word in ("ssh", "sshFile", "user", "password")):
        message = "mlgen takes no keys and passwords from an annotation, which everybody can read"
        places = " and ".join(f"{place}.git-sync.git.secret" for place in at)
        cure = (
            "make a Secret with ssh-privatekey and known_hosts, or with username and password, and"
            f" --set {places} to its name"
        )
        draft.differs(git, message, cure)
    for word in [word for word in ("image", "envs") if git.get(word).value]:
        message = f"{word} is for KubeDL's own container; here git is run by another image"
        draft.differs(git.get(word), message, "--set spec.helpers.gitImage to an image with git")


def _folder(working: str, folder: str) -> str:
    """Return where KubeDL mounts a folder: a path that is not absolute begins at the root."""
    return f"/{posixpath.normpath(f'/{working}/{folder}').lstrip('/')}"


def _tensorboard(draft: Draft) -> None:
    """Write the TensorBoard, which sees the volumes of the role that leads training."""
    board = _json(draft, BOARD, BOARD_FIELDS)
    if not board:
        return
    folder = board.get("logDir")
    if not folder.value:
        draft.refuse(board, "there is no logDir to look into", EXAMPLES[BOARD])
        return
    leader = next((role for role in ("chief", "master", "worker") if role in draft.roles), None)
    if leader is None:
        return
    if not _shared(draft, leader, folder):
        message = f"over {folder.value} is no volume that pods can share and no sidecar mounts"
        cure = f"mount a persistentVolumeClaim or nfs there in the container of the {leader}"
        draft.differs(folder, f"{message}, so no TensorBoard is rendered", cure)
        return
    image = board.get("image").value or draft.roles[leader]["image"]
    draft.put("spec.tensorboard.logDir", folder)
    draft.put("spec.tensorboard.image", board.get("image"), image)
    seconds, ingress = board.get("ttlSecondsAfterJobFinished"), board.get("ingressSpec")
    if seconds:
        message = f"KubeDL deletes TensorBoard {seconds.value} s after training; here it stays"
        cure = f"then run: kubectl delete deployment,service {draft.name}-tensorboard"
        draft.differs(seconds, message, cure)
    if ingress:
        cure = f"write one to the Service {draft.name}-tensorboard, port 6006"
        draft.differs(ingress, "no Ingress is rendered for TensorBoard", cure)


def _shared(draft: Draft, leader: str, folder: Given) -> bool:
    """Give all roles the leader's volume over a folder: TensorBoard sees those of all roles."""
    if "://" in folder.value:
        return True
    over = {
        name: volume
        for name, volume in draft.roles[leader].get("volumes", {}).items()
        if {"pvc", "nfs", "hostPath"} & set(volume)
        and f"{folder.value}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    }
    if not over:
        return False
    name, volume = max(over.items(), key=lambda item: len(item[1]["mountPath"]))
    without = [role for role in draft.roles if name not in draft.roles[role].get("volumes", {})]
    if without:
        message = f"TensorBoard sees volumes of all roles, so {name} is mounted in"
        draft.differs(folder, f"{message} {', '.join(without)} too", "")
    path = draft.origins["spec", "roles", leader, "volumes", name]
    draft.put(f"spec.volumes.{name}", Given(volume, path))
    for role in draft.roles.values():
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


def _kind(rules: Rules, convert: Callable[[Draft], None], **fields: Any) -> Kind:
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

KINDS = {
    (VERSION, "TFJob"): _kind(TF, _tfjob, successPolicy={"enum": ["", "AllWorkers"]}, **ARTIFACTS),
    (VERSION, "PyTorchJob"): _kind(PYTORCH, _pytorchjob, **ARTIFACTS),
    (VERSION, "XGBoostJob"): _kind(XGBOOST, _xgboostjob),
    (VERSION, "XDLJob"): _kind(XDL, _xdljob, minFinishWorkNum=COUNT, minFinishWorkRate=COUNT),
    (VERSION, "MarsJob"): _kind(MARS, _marsjob, workerMemoryTuningPolicy=MEMORY, webHost=TEXT),
    (VERSION, "MPIJob"): _kind(MPI, _mpijob, **MPI_FIELDS),
    (VERSION, "ElasticDLJob"): _kind(ELASTICDL, _elasticdljob),
}
