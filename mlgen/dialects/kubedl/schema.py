"""JSON Schemas of the `spec` of KubeDL's kinds.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1, apis/model/v1alpha1,
apis/cache/v1alpha1 and pkg/job_controller/api/v1.
"""

from typing import Any

from mlgen.dialects._kubeflow_common import INLINE, REPLICA, Rules
from mlgen.dialects._schemas import COUNT, PODS, SWITCH, TEMPLATE, TEXT, TEXTS, mapping

_SCHEDULING_POLICY = mapping(
    {
        "minAvailable": COUNT,
        "priority": {"type": "integer"},
        "priorityClassName": TEXT,
        "queue": TEXT,
    }
)
_CRON_POLICY = mapping(
    {
        "schedule": TEXT,
        "concurrencyPolicy": {"enum": ["", "Allow", "Forbid", "Replace"]},
        "suspend": SWITCH,
        "deadline": TEXT,
        "historyLimit": COUNT,
    },
    "schedule",
)
_POLICIES = INLINE | {"schedulingPolicy": _SCHEDULING_POLICY, "cronPolicy": _CRON_POLICY}

_SPOT_REPLICAS = mapping({"spotReplicaNumber": COUNT, "priorityClassName": TEXT, "labels": TEXTS})
_REPLICA_TYPES = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": mapping(
        REPLICA["properties"] | {"spotReplicaSpec": _SPOT_REPLICAS}, "template"
    ),
}

_FOLDER = {"path": TEXT, "mountPath": TEXT}
_MODEL_VERSION = mapping(
    {
        "modelName": TEXT,
        "createdBy": TEXT,
        "imageRepo": TEXT,
        "imageTag": TEXT,
        "storage": mapping(
            {
                "localStorage": mapping(_FOLDER | {"nodeName": TEXT}),
                "nfs": mapping(_FOLDER | {"server": TEXT}),
                "AWSEfs": mapping({"volumeHandle": TEXT, "attributes": TEXTS}),
            }
        ),
    }
)

_CACHE_TIER = mapping({"cachePath": TEXT, "quota": TEXT, "mediumType": TEXT})
_ALLUXIO = mapping({"replicas": COUNT, "tieredStorage": {"type": "array", "items": _CACHE_TIER}})
_DATA_SOURCE = mapping({"location": TEXT, "subDirName": TEXT})
_CACHE_BACKEND = mapping(
    {
        "name": TEXT,
        "mountPath": TEXT,
        "dataset": mapping({"dataSources": {"type": "array", "items": _DATA_SOURCE}}),
        "cacheEngine": mapping({"fluid": mapping({"alluxioRuntime": _ALLUXIO})}),
        "options": mapping({"idleTime": COUNT}),
    }
)

PYTORCHJOB: dict[str, Any] = {"modelVersion": _MODEL_VERSION, "cacheBackend": _CACHE_BACKEND}
"""Fields of a PyTorchJob besides those of all kinds; the same for the next ones."""

TFJOB: dict[str, Any] = {"successPolicy": {"enum": ["", "AllWorkers"]}} | PYTORCHJOB

XDLJOB: dict[str, Any] = {"minFinishWorkNum": COUNT, "minFinishWorkRate": COUNT}

_WORKER_MEMORY = mapping(
    {
        "plasmaStore": TEXT,
        "lockFreeFileIO": SWITCH,
        "spillDirs": {"type": "array", "items": TEXT},
        "workerCachePercentage": COUNT,
        "workerCacheSize": {"$ref": "#/definitions/quantity"},
    }
)
MARSJOB: dict[str, Any] = {"workerMemoryTuningPolicy": _WORKER_MEMORY, "webHost": TEXT}

MPIJOB: dict[str, Any] = {
    "slotsPerWorker": COUNT,
    "mainContainer": TEXT,
    "mpiDistribution": {"enum": ["OpenMPI", "IntelMPI", "MPICH"]},
    "gpus": COUNT,
    "gpusPerNode": COUNT,
    "processingUnits": COUNT,
    "processingUnitsPerNode": COUNT,
    "processingResourceType": TEXT,
    "launcherOnMaster": SWITCH,
    "replicas": PODS,
    "template": TEMPLATE,
}


def spec_schema(rules: Rules, **fields: Any) -> dict[str, Any]:
    """Return the JSON Schema of the `spec` of a kind, with these fields of its own."""
    common = _POLICIES | {"runPolicy": mapping(_POLICIES), rules.field: _REPLICA_TYPES}
    return mapping(common | fields, rules.field)
