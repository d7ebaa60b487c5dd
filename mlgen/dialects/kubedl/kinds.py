"""The kinds of training.kubedl.io as data: names and defaults.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 and controllers.
"""

from dataclasses import replace

from mlgen.dialects._kubeflow_common import Rules
from mlgen.dialects.kubeflow import kinds as kubeflow

TF = replace(kubeflow.TF, restart="ExitCode")
PYTORCH = replace(kubeflow.PYTORCH, roles=("AIMaster", "Master", "Worker"))
XGBOOST = replace(kubeflow.OLD_XGBOOST, restart="Always")
XDL = Rules(
    framework="xdl",
    field="xdlReplicaSpecs",
    roles=("PS", "Scheduler", "Worker", "ExtendRole"),
    container="xdl",
    port="xdljob-port",
    servers=("ps", "scheduler"),
)
MARS = Rules(
    framework="mars",
    field="marsReplicaSpecs",
    roles=("Scheduler", "WebService", "Worker"),
    container="mars",
    port="mars-port",
    servers=("webservice",),
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

WITHOUT_SERVICES = (ELASTICDL, MPI)
"""Kinds for which KubeDL creates no Services. Their training container may have any name."""

ROLE_RESTARTS = {
    ("pytorch", "master"): "ExitCode",
    ("mars", "webservice"): "Always",
    ("mars", "worker"): "ExitCode",
}
"""Default restart policies of a framework and role that differ from the default of the kind."""
