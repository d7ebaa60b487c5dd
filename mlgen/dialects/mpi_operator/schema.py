"""JSON Schemas of the `spec` of an MPIJob, by version."""

from collections.abc import Mapping
from typing import Any

from mlgen.dialects._kubeflow_common import INLINE, REPLICA, RUN_POLICY, SCHEDULING
from mlgen.dialects._schemas import COUNT, PODS, SWITCH, TEMPLATE, TEXT, mapping
from mlgen.jobfile.patterns import SSH_FOLDER

DISTRIBUTIONS = {
    "OpenMPI": "OpenMPI",
    "IntelMPI": "Intel",
    "MPICH": "MPICH",
    "open_mpi": "OpenMPI",
    "intel_mpi": "Intel",
    "mpich": "MPICH",
}
"""The job file's `implementation`, by `mpiDistribution`; the names in lower case are older."""

_SLOTS = {"type": "integer", "minimum": 1}


def _replica_specs(replica: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of `mpiReplicaSpecs`."""
    return mapping({"Launcher": replica, "Worker": replica}, "Launcher")


V1 = mapping(
    {
        "slotsPerWorker": _SLOTS,
        "mainContainer": TEXT,
        "mpiReplicaSpecs": _replica_specs(REPLICA),
        "runPolicy": RUN_POLICY,
        **{name: INLINE[name] for name in INLINE if name != "ttlSecondsAfterFinished"},
    },
    "mpiReplicaSpecs",
)

V1ALPHA2 = mapping(
    V1["properties"] | {"mpiDistribution": {"enum": list(DISTRIBUTIONS)}}, "mpiReplicaSpecs"
)

V1ALPHA1 = mapping(
    {
        "gpus": _SLOTS,
        "gpusPerNode": _SLOTS,
        "processingUnits": _SLOTS,
        "processingUnitsPerNode": _SLOTS,
        "processingResourceType": {"enum": ["", "nvidia.com/gpu", "cpu"]},
        "slotsPerWorker": _SLOTS,
        "launcherOnMaster": SWITCH,
        "backoffLimit": COUNT,
        "activeDeadlineSeconds": COUNT,
        "replicas": PODS,
        "template": TEMPLATE,
    },
    "template",
)

_RESTART_POLICY = {"restartPolicy": {"enum": ["Never", "OnFailure"]}}
_RUN_POLICY = {
    "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
    "schedulingPolicy": SCHEDULING,
}

V2BETA1 = mapping(
    {
        "slotsPerWorker": _SLOTS,
        "runLauncherAsWorker": SWITCH,
        "mpiReplicaSpecs": _replica_specs(
            mapping(REPLICA["properties"] | _RESTART_POLICY, "template")
        ),
        "runPolicy": mapping(RUN_POLICY["properties"] | _RUN_POLICY),
        "sshAuthMountPath": {"type": "string", "pattern": SSH_FOLDER},
        "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
        "waitForWorkers": SWITCH,
        "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
    },
    "mpiReplicaSpecs",
)
