"""The kinds of the training operator as data: names, defaults, and the variables that it sets.

Read from kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1 and pkg/controller.v1 (1.8 for
MXJob), and from kubeflow/xgboost-operator.
"""

from dataclasses import replace

from mlgen.dialects._kubeflow_common import Rules

MANAGER = "kubeflow.org/training-operator"
"""The training operator's name for itself in `managedBy`."""

TF = Rules(
    framework="tensorflow",
    replica_field="tfReplicaSpecs",
    roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
    container="tensorflow",
    port="tfjob-port",
    servers=("ps",),
)
PYTORCH = Rules(
    framework="pytorch",
    replica_field="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    container="pytorch",
    port="pytorchjob-port",
    restart="OnFailure",
)
XGBOOST = Rules(
    framework="xgboost",
    replica_field="xgbReplicaSpecs",
    roles=("Master", "Worker"),
    container="xgboost",
    port="xgboostjob-port",
)
PADDLE = Rules(
    framework="paddle",
    replica_field="paddleReplicaSpecs",
    roles=("Master", "Worker"),
    container="paddle",
    port="master",
    restart="OnFailure",
)
JAX = Rules(
    framework="jax",
    replica_field="jaxReplicaSpecs",
    roles=("Worker",),
    container="jax",
    port="jaxjob-port",
)
MXNET = Rules(
    framework="mxnet",
    replica_field="mxReplicaSpecs",
    roles=("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"),
    container="mxnet",
    port="mxjob-port",
    servers=("tunertracker", "tunerserver"),
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
"""Variables that the operator appends to the user's, so that its own values take effect."""

TUNER_KEY = "tuner-server-key"
"""The annotation of a pod template that holds the key of a tuner server."""

PYTORCH_PORT = 23456
"""The port that a PyTorchJob uses by default (pytorch_types.go, DefaultPort)."""

OLD_XGBOOST = replace(XGBOOST, container="xgboostjob")
"""XGBoostJobs of kubeflow/xgboost-operator, of the group xgboostjob.kubeflow.org."""
