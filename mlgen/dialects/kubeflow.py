"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

Read off the operator's own sources, release 1.9: pkg/apis/kubeflow.org/v1 for fields and defaults,
pkg/webhooks for what it refuses, pkg/controller.v1 for what it does; release 1.8 for MXJob. The
versions before v1 are those of kubeflow/tf-operator 0.3 and 0.5, kubeflow/pytorch-operator,
kubeflow/mxnet-operator and kubeflow/xgboost-operator: pkg/apis, pkg/trainer and pkg/util/train.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mlgen.draft import COUNT, SWITCH, TEXT, Draft, Given, Kind, mapping
from mlgen.kubeflow_common import (
    CLEANING,
    INLINE,
    POLICIES,
    REPLICA,
    REPLICAS,
    Rules,
    named_peers,
    overwrite,
    replicas,
    run_policy,
    wait_by_name,
)
from mlgen.kubeflow_old import Listed, write_list

GROUPS = ("xgboostjob.kubeflow.org",)

MANAGER = "kubeflow.org/training-operator"

TF = Rules(
    framework="tensorflow",
    field="tfReplicaSpecs",
    roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
    container="tensorflow",
    port="tfjob-port",
)
PYTORCH = Rules(
    framework="pytorch",
    field="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    container="pytorch",
    port="pytorchjob-port",
    restart="OnFailure",
)
XGBOOST = Rules(
    framework="xgboost",
    field="xgbReplicaSpecs",
    roles=("Master", "Worker"),
    container="xgboost",
    port="xgboostjob-port",
)
PADDLE = Rules(
    framework="paddle",
    field="paddleReplicaSpecs",
    roles=("Master", "Worker"),
    container="paddle",
    port="master",
    restart="OnFailure",
)
JAX = Rules(
    framework="jax",
    field="jaxReplicaSpecs",
    roles=("Worker",),
    container="jax",
    port="jaxjob-port",
)
MXNET = Rules(
    framework="mxnet",
    field="mxReplicaSpecs",
    roles=("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"),
    container="mxnet",
    port="mxjob-port",
)

RANK_ENV = ("MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK")
PET_ENV = ("PET_NPROC_PER_NODE", "PET_NNODES")
PYTORCH_ENV = (*RANK_ENV, "PET_MASTER_PORT", "PET_MASTER_ADDR", "PET_NODE_RANK", *PET_ENV)
ELASTIC_ENV = ("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", *PET_ENV)
XGBOOST_ENV = (*RANK_ENV, "WORKER_PORT", "WORKER_ADDRS")
PADDLE_ENV = (
    "PADDLE_JOB_ID",
    "PADDLE_NNODES",
    "PADDLE_MASTER",
    "PADDLE_SERVER_NUM",
    "PADDLE_TRAINER_NUM",
)
JAX_ENV = ("COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID")
MXNET_ENV = (
    "MX_CONFIG",
    "DMLC_PS_ROOT_PORT",
    "DMLC_PS_ROOT_URI",
    "DMLC_NUM_SERVER",
    "DMLC_NUM_WORKER",
    "DMLC_ROLE",
    "DMLC_USE_KUBERNETES",
)
"""Variables that the operator writes after the user's, so that its own count."""

RETRYABLE = [130, 137, 138, 143]
"""The exit codes after which ExitCode starts a replica again: before v1, and in KubeDL."""

TUNER_KEY = "tuner-server-key"

PYTORCH_PORT = 23456


def _size(draft: Draft) -> int:
    return sum(role.get("replicas", 1) for role in draft.roles.values())


def _one_master(draft: Draft, rules: Rules, found: dict[str, Given], *, said: bool) -> None:
    """Refuse a Master of other than one replica, or, where it must be said, of an unsaid number."""
    master = found.get("master")
    if master is None:
        message = "there is no Master, and a job of this kind and version needs one"
        draft.refuse(draft.spec.get(rules.field), message, "make one of the workers the Master")
    elif master.get("replicas").value not in ((1,) if said else (None, 1)):
        message = "there is one Master" + (", which must be said" if said else " only")
        draft.refuse(master.get("replicas") or master, message, "write replicas: 1")


def _metrics(draft: Draft, elastic: Given) -> None:
    if elastic.get("metrics"):
        message = "the operator adds a HorizontalPodAutoscaler; a Job has no such scale"
        draft.differs(elastic.get("metrics"), message, "scale it as the README says")


def _tfjob(draft: Draft, clean: str = "") -> None:
    found = replicas(draft, TF)
    leaders = [name for name in ("chief", "master") if name in found]
    if len(leaders) > 1:
        message = "there can be a Chief or a Master, not both"
        draft.refuse(found["master"], message, "keep one of the two")
    policy = draft.spec.get("successPolicy")
    if policy.value == "AllWorkers" and not leaders and "worker" in found:
        draft.put("spec.successPolicy.role", policy, "worker")
        draft.put("spec.successPolicy.replicas", policy, "All")
    draft.put("spec.options.enableDynamicWorker", draft.spec.get("enableDynamicWorker"))
    if _size(draft) > 1:
        overwrite(draft, ("TF_CONFIG",))
    run_policy(draft, found, MANAGER, clean)


def _pytorchjob(draft: Draft) -> None:
    found = replicas(draft, PYTORCH)
    spec, elastic = draft.spec, draft.spec.get("elasticPolicy")
    if "master" in found:
        _one_master(draft, PYTORCH, found, said=True)
    processes = spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(draft, elastic, found) or processes
    else:
        # Without a Master the operator gives no ranks, so the user's own are as good as ours.
        overwrite(draft, PYTORCH_ENV if "master" in found else PET_ENV)
    if processes:
        count = str(processes.value)
        value = int(count) if count.isdecimal() else count
        draft.put("spec.options.nprocPerNode", processes, value)
    run_policy(draft, found, MANAGER)


def _elastic(draft: Draft, elastic: Given, found: dict[str, Given]) -> Given | None:
    """Write what torchrun meets by; return the processes of each replica, if they stand here."""
    if "worker" not in found:
        draft.refuse(elastic, "an elasticPolicy needs a Worker", "add one, or leave it out")
        return None
    processes = elastic.get("nProcPerNode")
    if processes and draft.spec.get("nprocPerNode"):
        message = "nProcPerNode and spec.nprocPerNode are the same"
        draft.refuse(processes, message, "keep spec.nprocPerNode")
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "rdzvId"):
        draft.put(f"spec.options.elasticPolicy.{name}", elastic.get(name))
    pairs = {item.value["key"]: item.value["value"] for item in elastic.get("rdzvConf").items()}
    draft.put("spec.options.elasticPolicy.rdzvConf", elastic.get("rdzvConf"), pairs)
    if "worker" in draft.roles:
        _rendezvous(draft, elastic)
    _metrics(draft, elastic)
    return processes or None


def _rendezvous(draft: Draft, elastic: Given) -> None:
    """Write where torchrun meets, if that is not at worker 0 by its own backend."""
    worker = draft.roles["worker"]
    if not draft.data["spec"].get("options"):
        at = "spec.options.elasticPolicy.maxReplicas"
        draft.put(at, elastic, worker.get("replicas", 1))
    overwrite(draft, ELASTIC_ENV)
    backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
    own = f"{draft.name}-worker-0"
    elsewhere = bool(host) and str(host.value).partition(".")[0] != own
    at = "spec.roles.worker.env"
    if elsewhere:
        number = port.value or worker.get("port", PYTORCH_PORT)
        draft.put(f"{at}.PET_RDZV_ENDPOINT", host, f"{host.value}:{number}")
    else:
        draft.put("spec.roles.worker.port", port)
    foreign = backend.value not in (None, "", "c10d")
    if foreign:
        draft.put(f"{at}.PET_RDZV_BACKEND", backend)
    alone = elastic.get("standalone")
    if alone.value:
        draft.put(f"{at}.PET_STANDALONE", alone, "1")
    if elsewhere or foreign or alone.value:
        wait_by_name(draft)


def _xgboostjob(draft: Draft, rules: Rules, *, said: bool = True) -> None:
    found = replicas(draft, rules)
    _one_master(draft, rules, found, said=said)
    overwrite(draft, XGBOOST_ENV)
    # XGBoost's tracker before 2.1 dies of a connection that is closed at once, LightGBM's workers
    # all dial each other, and nothing in the resource tells which of them the image has.
    wait_by_name(draft)
    run_policy(draft, found, MANAGER)


def _paddlejob(draft: Draft) -> None:
    found = replicas(draft, PADDLE)
    overwrite(draft, PADDLE_ENV)
    _metrics(draft, draft.spec.get("elasticPolicy"))
    run_policy(draft, found, MANAGER)


def _jaxjob(draft: Draft) -> None:
    found = replicas(draft, JAX)
    overwrite(draft, JAX_ENV)
    run_policy(draft, found, MANAGER)


def _mxjob(draft: Draft, clean: str = "", *, labels: bool = False) -> None:
    """Write an MXJob; before v1 the tuner's keys were `label` of a replica type."""
    found = replicas(draft, MXNET)
    overwrite(draft, MXNET_ENV)
    for role, given in found.items():
        note = given.get("template", "metadata", "annotations", TUNER_KEY)
        label = given.get("label")
        draft.put(f"spec.options.tunerServerKeys.{role}", label if labels else note)
        if label and not labels:
            cure = f"write the annotation {TUNER_KEY} into the template's metadata"
            draft.differs(label, "the operator does not read this since v1", cure)
    run_policy(draft, found, MANAGER, clean)


def _old_tfjob(draft: Draft) -> None:
    _tfjob(draft, "Running")
    _old(draft)


def _old_pytorchjob(draft: Draft) -> None:
    found = replicas(draft, PYTORCH)
    _one_master(draft, PYTORCH, found, said=False)
    overwrite(draft, RANK_ENV)
    run_policy(draft, found, MANAGER)
    _old(draft)


def _old_mxjob(draft: Draft, clean: str) -> None:
    _mxjob(draft, clean, labels=True)
    _old(draft)


def _old(draft: Draft) -> None:
    """Write what v1 has otherwise: the exit codes, and a field's name."""
    for name, role in draft.roles.items():
        if role.get("restartPolicy") == "ExitCode":
            at = f"spec.roles.{name}.retryableExitCodes"
            draft.put(at, draft.given.get("apiVersion"), RETRYABLE)
    seconds = draft.spec.get("ttlSecondsAfterFinishing")
    draft.put("spec.runPolicy.ttlSecondsAfterFinished", seconds)


def _grpc_server(draft: Draft) -> dict[str, Any]:
    """What grpc_tensorflow_server.py did, which the first operator put into a PS of tfImage."""
    image = draft.spec.get("tfImage").value or "tensorflow/tensorflow:1.3.0"
    server = (
        "import json, os; from tensorflow.python.training import server_lib;"
        " config = json.loads(os.environ['TF_CONFIG']); task = config['task'];"
        " server_lib.Server(config['cluster'], task['type'], task['index']).join()"
    )
    return {"name": TF.container, "image": image, "command": ["python", "-c", server]}


TF_LIST = Listed(
    TF,
    types=("MASTER", "PS", "WORKER"),
    default="MASTER",
    type=("tfReplicaType",),
    port="tfPort",
    server=_grpc_server,
)
PYTORCH_LIST = Listed(
    PYTORCH,
    types=("MASTER", "WORKER"),
    default="MASTER",
    type=("replicaType", "ReplicaType", "pytorchReplicaType"),
    port="masterPort",
    decider="master",
    index="replicaRank",
    judges=False,
)
MXNET_LIST = Listed(
    MXNET,
    types=("SCHEDULER", "SERVER", "WORKER"),
    default="WORKER",
    type=("mxReplicaType",),
    port="PsRootPort",
)


def _write(draft: Draft, convert: Callable[[Draft], None]) -> None:
    convert(draft)
    elastic = "elasticPolicy" in draft.data["spec"].get("options", {})
    named_peers(draft, [f"{draft.name}-worker-0"] if elastic else [])


def _kind(rules: Rules, convert: Callable[[Draft], None], **fields: Any) -> Kind:
    words = mapping(POLICIES | {rules.field: REPLICAS} | fields, rules.field)
    return Kind(words, partial(_write, convert=convert))


def _old_kind(rules: Rules, convert: Callable[[Draft], None], **fields: Any) -> Kind:
    inline = INLINE | {"ttlSecondsAfterFinishing": COUNT}
    words = mapping(inline | {rules.field: REPLICAS} | fields, rules.field)
    return Kind(words, partial(_write, convert=convert))


def _list_kind(form: Listed, **fields: Any) -> Kind:
    return Kind(form.spec(**fields), partial(write_list, form=form))


TFJOB = {
    "successPolicy": {"enum": ["", "AllWorkers"]},
    "enableDynamicWorker": SWITCH,
}

PAIR = mapping({"key": TEXT, "value": TEXT}, "key", "value")
SIZES = {
    "minReplicas": COUNT,
    "maxReplicas": COUNT,
    "maxRestarts": COUNT,
    "metrics": {"type": "array"},
}
ELASTIC = mapping(
    SIZES
    | {
        "rdzvBackend": TEXT,
        "rdzvHost": TEXT,
        "rdzvPort": COUNT,
        "rdzvId": TEXT,
        "rdzvConf": {"type": "array", "items": PAIR},
        "standalone": SWITCH,
        "nProcPerNode": COUNT,
    }
)
PYTORCHJOB = {"elasticPolicy": ELASTIC, "nprocPerNode": {"type": ["string", "integer"]}}

MXJOB = {
    "jobMode": {"enum": ["MXTrain", "MXTune"]},
    MXNET.field: REPLICAS
    | {"additionalProperties": mapping(REPLICA["properties"] | {"label": TEXT}, "template")},
}

CLEANUP = {"cleanupPodPolicy": {"enum": list(CLEANING)}}
BOARD = mapping(
    {
        "logDir": TEXT,
        "serviceType": TEXT,
        "volumes": {"type": "array"},
        "volumeMounts": {"type": "array"},
    },
    "logDir",
)
PYTORCH_LIST_FIELDS = {
    "pytorchImage": TEXT,
    "backend": TEXT,
    "masterPort": {"type": ["string", "integer"], "pattern": "^[0-9]+$"},
}

OLD_XGBOOST = replace(XGBOOST, container="xgboostjob")
_old_xgboostjob = partial(_xgboostjob, rules=OLD_XGBOOST, said=False)

KINDS = {
    ("kubeflow.org/v1", "TFJob"): _kind(TF, _tfjob, **TFJOB),
    ("kubeflow.org/v1", "PyTorchJob"): _kind(PYTORCH, _pytorchjob, **PYTORCHJOB),
    ("kubeflow.org/v1", "XGBoostJob"): _kind(XGBOOST, partial(_xgboostjob, rules=XGBOOST)),
    ("kubeflow.org/v1", "PaddleJob"): _kind(PADDLE, _paddlejob, elasticPolicy=mapping(SIZES)),
    ("kubeflow.org/v1", "JAXJob"): _kind(JAX, _jaxjob),
    ("kubeflow.org/v1", "MXJob"): _kind(MXNET, _mxjob, **MXJOB),
    ("kubeflow.org/v1beta2", "TFJob"): _old_kind(TF, _old_tfjob),
    ("kubeflow.org/v1beta1", "TFJob"): _old_kind(TF, _old_tfjob),
    ("kubeflow.org/v1alpha2", "TFJob"): _old_kind(TF, _old_tfjob),
    ("kubeflow.org/v1alpha1", "TFJob"): _list_kind(
        TF_LIST, tfImage=TEXT, tensorboard=BOARD, **CLEANUP
    ),
    ("kubeflow.org/v1beta2", "PyTorchJob"): _old_kind(PYTORCH, _old_pytorchjob),
    ("kubeflow.org/v1beta1", "PyTorchJob"): _old_kind(PYTORCH, _old_pytorchjob),
    ("kubeflow.org/v1alpha2", "PyTorchJob"): _old_kind(PYTORCH, _old_pytorchjob),
    ("kubeflow.org/v1alpha1", "PyTorchJob"): _list_kind(PYTORCH_LIST, **PYTORCH_LIST_FIELDS),
    ("kubeflow.org/v1beta1", "MXJob"): _old_kind(MXNET, partial(_old_mxjob, clean="All"), **MXJOB),
    ("kubeflow.org/v1alpha2", "MXJob"): _old_kind(
        MXNET, partial(_old_mxjob, clean="Running"), **MXJOB
    ),
    ("kubeflow.org/v1alpha1", "MXJob"): _list_kind(
        MXNET_LIST, mxImage=TEXT, jobMode=TEXT, **CLEANUP
    ),
    ("xgboostjob.kubeflow.org/v1", "XGBoostJob"): _kind(OLD_XGBOOST, _old_xgboostjob),
    ("xgboostjob.kubeflow.org/v1alpha1", "XGBoostJob"): _kind(OLD_XGBOOST, _old_xgboostjob),
}
