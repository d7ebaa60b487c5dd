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

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._kubeflow_common import (
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
from mlgen.dialects._schemas import COUNT, SWITCH, TEXT, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubeflow.v1alpha1 import ListForm, write_list

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


def _size(builder: Builder) -> int:
    return sum(role.get("replicas", 1) for role in builder.roles.values())


def _one_master(
    builder: Builder, rules: Rules, found: dict[str, SourceValue], *, said: bool
) -> None:
    """Refuse a Master of other than one replica, or, where it must be said, of an unsaid number."""
    master = found.get("master")
    if master is None:
        message = "there is no Master, and a job of this kind and version needs one"
        builder.refuse(builder.spec.get(rules.field), message, "make one of the workers the Master")
    elif master.get("replicas").value not in ((1,) if said else (None, 1)):
        message = "there is one Master" + (", which must be said" if said else " only")
        builder.refuse(master.get("replicas") or master, message, "write replicas: 1")


def _metrics(builder: Builder, elastic: SourceValue) -> None:
    if elastic.get("metrics"):
        message = "the operator adds a HorizontalPodAutoscaler; a Job has no such scale"
        builder.differs(elastic.get("metrics"), message, "scale it as the README says")


def _tfjob(builder: Builder, clean: str = "") -> None:
    found = replicas(builder, TF)
    leaders = [name for name in ("chief", "master") if name in found]
    if len(leaders) > 1:
        message = "there can be a Chief or a Master, not both"
        builder.refuse(found["master"], message, "keep one of the two")
    policy = builder.spec.get("successPolicy")
    if policy.value == "AllWorkers" and not leaders and "worker" in found:
        builder.put(("spec", "successPolicy", "role"), policy, "worker")
        builder.put(("spec", "successPolicy", "replicas"), policy, "All")
    builder.put(("spec", "options", "enableDynamicWorker"), builder.spec.get("enableDynamicWorker"))
    if _size(builder) > 1:
        overwrite(builder, ("TF_CONFIG",))
    run_policy(builder, found, MANAGER, clean)


def _pytorchjob(builder: Builder) -> None:
    found = replicas(builder, PYTORCH)
    spec, elastic = builder.spec, builder.spec.get("elasticPolicy")
    if "master" in found:
        _one_master(builder, PYTORCH, found, said=True)
    processes = spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(builder, elastic, found) or processes
    else:
        # Without a Master the operator gives no ranks, so the user's own are as good as ours.
        overwrite(builder, PYTORCH_ENV if "master" in found else PET_ENV)
    if processes:
        count = str(processes.value)
        value = int(count) if count.isdecimal() else count
        builder.put(("spec", "options", "nprocPerNode"), processes, value)
    run_policy(builder, found, MANAGER)


def _elastic(
    builder: Builder, elastic: SourceValue, found: dict[str, SourceValue]
) -> SourceValue | None:
    """Write what torchrun meets by; return the processes of each replica, if they stand here."""
    if "worker" not in found:
        builder.refuse(elastic, "an elasticPolicy needs a Worker", "add one, or leave it out")
        return None
    processes = elastic.get("nProcPerNode")
    if processes and builder.spec.get("nprocPerNode"):
        message = "nProcPerNode and spec.nprocPerNode are the same"
        builder.refuse(processes, message, "keep spec.nprocPerNode")
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "rdzvId"):
        builder.put(("spec", "options", "elasticPolicy", name), elastic.get(name))
    pairs = {item.value["key"]: item.value["value"] for item in elastic.get("rdzvConf").items()}
    builder.put(("spec", "options", "elasticPolicy", "rdzvConf"), elastic.get("rdzvConf"), pairs)
    if "worker" in builder.roles:
        _rendezvous(builder, elastic)
    _metrics(builder, elastic)
    return processes or None


def _rendezvous(builder: Builder, elastic: SourceValue) -> None:
    """Write where torchrun meets, if that is not at worker 0 by its own backend."""
    worker = builder.roles["worker"]
    if not builder.data["spec"].get("options"):
        at = ("spec", "options", "elasticPolicy", "maxReplicas")
        builder.put(at, elastic, worker.get("replicas", 1))
    overwrite(builder, ELASTIC_ENV)
    backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
    own = f"{builder.name}-worker-0"
    elsewhere = bool(host) and str(host.value).partition(".")[0] != own
    at = ("spec", "roles", "worker", "env")
    if elsewhere:
        number = port.value or worker.get("port", PYTORCH_PORT)
        builder.put((*at, "PET_RDZV_ENDPOINT"), host, f"{host.value}:{number}")
    else:
        builder.put(("spec", "roles", "worker", "port"), port)
    foreign = backend.value not in (None, "", "c10d")
    if foreign:
        builder.put((*at, "PET_RDZV_BACKEND"), backend)
    alone = elastic.get("standalone")
    if alone.value:
        builder.put((*at, "PET_STANDALONE"), alone, "1")
    if elsewhere or foreign or alone.value:
        wait_by_name(builder)


def _xgboostjob(builder: Builder, rules: Rules, *, said: bool = True) -> None:
    found = replicas(builder, rules)
    _one_master(builder, rules, found, said=said)
    overwrite(builder, XGBOOST_ENV)
    # XGBoost's tracker before 2.1 dies of a connection that is closed at once, LightGBM's workers
    # all dial each other, and nothing in the resource tells which of them the image has.
    wait_by_name(builder)
    run_policy(builder, found, MANAGER)


def _paddlejob(builder: Builder) -> None:
    found = replicas(builder, PADDLE)
    overwrite(builder, PADDLE_ENV)
    _metrics(builder, builder.spec.get("elasticPolicy"))
    run_policy(builder, found, MANAGER)


def _jaxjob(builder: Builder) -> None:
    found = replicas(builder, JAX)
    overwrite(builder, JAX_ENV)
    run_policy(builder, found, MANAGER)


def _mxjob(builder: Builder, clean: str = "", *, labels: bool = False) -> None:
    """Write an MXJob; before v1 the tuner's keys were `label` of a replica type."""
    found = replicas(builder, MXNET)
    overwrite(builder, MXNET_ENV)
    for role, given in found.items():
        note = given.get("template", "metadata", "annotations", TUNER_KEY)
        label = given.get("label")
        builder.put(("spec", "options", "tunerServerKeys", role), label if labels else note)
        if label and not labels:
            hint = f"write the annotation {TUNER_KEY} into the template's metadata"
            builder.differs(label, "the operator does not read this since v1", hint)
    run_policy(builder, found, MANAGER, clean)


def _old_tfjob(builder: Builder) -> None:
    _tfjob(builder, "Running")
    _old(builder)


def _old_pytorchjob(builder: Builder) -> None:
    found = replicas(builder, PYTORCH)
    _one_master(builder, PYTORCH, found, said=False)
    overwrite(builder, RANK_ENV)
    run_policy(builder, found, MANAGER)
    _old(builder)


def _old_mxjob(builder: Builder, clean: str) -> None:
    _mxjob(builder, clean, labels=True)
    _old(builder)


def _old(builder: Builder) -> None:
    """Write what v1 has otherwise: the exit codes, and a field's name."""
    for name, role in builder.roles.items():
        if role.get("restartPolicy") == "ExitCode":
            at = ("spec", "roles", name, "retryableExitCodes")
            builder.put(at, builder.given.get("apiVersion"), RETRYABLE)
    seconds = builder.spec.get("ttlSecondsAfterFinishing")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), seconds)


def _grpc_server(builder: Builder) -> dict[str, Any]:
    """What grpc_tensorflow_server.py did, which the first operator put into a PS of tfImage."""
    image = builder.spec.get("tfImage").value or "tensorflow/tensorflow:1.3.0"
    server = (
        "import json, os; from tensorflow.python.training import server_lib;"
        " config = json.loads(os.environ['TF_CONFIG']); task = config['task'];"
        " server_lib.Server(config['cluster'], task['type'], task['index']).join()"
    )
    return {"name": TF.container, "image": image, "command": ["python", "-c", server]}


TF_LIST = ListForm(
    TF,
    types=("MASTER", "PS", "WORKER"),
    default="MASTER",
    type=("tfReplicaType",),
    port="tfPort",
    server=_grpc_server,
)
PYTORCH_LIST = ListForm(
    PYTORCH,
    types=("MASTER", "WORKER"),
    default="MASTER",
    type=("replicaType", "ReplicaType", "pytorchReplicaType"),
    port="masterPort",
    decider="master",
    index="replicaRank",
    judges=False,
)
MXNET_LIST = ListForm(
    MXNET,
    types=("SCHEDULER", "SERVER", "WORKER"),
    default="WORKER",
    type=("mxReplicaType",),
    port="PsRootPort",
)


def _write(builder: Builder, convert: Callable[[Builder], None]) -> None:
    convert(builder)
    elastic = "elasticPolicy" in builder.data["spec"].get("options", {})
    named_peers(builder, [f"{builder.name}-worker-0"] if elastic else [])


def _kind(rules: Rules, convert: Callable[[Builder], None], **fields: Any) -> Kind:
    words = mapping(POLICIES | {rules.field: REPLICAS} | fields, rules.field)
    return Kind(words, partial(_write, convert=convert))


def _old_kind(rules: Rules, convert: Callable[[Builder], None], **fields: Any) -> Kind:
    inline = INLINE | {"ttlSecondsAfterFinishing": COUNT}
    words = mapping(inline | {rules.field: REPLICAS} | fields, rules.field)
    return Kind(words, partial(_write, convert=convert))


def _list_kind(form: ListForm, **fields: Any) -> Kind:
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

DIALECT = Dialect(
    groups=("xgboostjob.kubeflow.org",),
    kinds={
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
        ("kubeflow.org/v1beta1", "MXJob"): _old_kind(
            MXNET, partial(_old_mxjob, clean="All"), **MXJOB
        ),
        ("kubeflow.org/v1alpha2", "MXJob"): _old_kind(
            MXNET, partial(_old_mxjob, clean="Running"), **MXJOB
        ),
        ("kubeflow.org/v1alpha1", "MXJob"): _list_kind(
            MXNET_LIST, mxImage=TEXT, jobMode=TEXT, **CLEANUP
        ),
        ("xgboostjob.kubeflow.org/v1", "XGBoostJob"): _kind(OLD_XGBOOST, _old_xgboostjob),
        ("xgboostjob.kubeflow.org/v1alpha1", "XGBoostJob"): _kind(OLD_XGBOOST, _old_xgboostjob),
    },
)
