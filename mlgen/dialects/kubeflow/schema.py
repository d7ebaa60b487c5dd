"""JSON Schemas of the `spec` of each kind of the training operator.

Read from kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1 (1.8 for MXJob), and for earlier
versions from pkg/apis of kubeflow/tf-operator, pytorch-operator and mxnet-operator.
"""

from typing import Any

from mlgen.dialects._kubeflow_common import (
    CLEAN_POD_POLICIES,
    INLINE,
    POLICIES,
    REPLICA,
    REPLICAS,
    Rules,
)
from mlgen.dialects._schemas import COUNT, PODS, SWITCH, TEXT, mapping
from mlgen.dialects.kubeflow.kinds import MXNET

TFJOB: dict[str, Any] = {
    "successPolicy": {"enum": ["", "AllWorkers"]},
    "enableDynamicWorker": SWITCH,
}

ELASTIC_SIZES: dict[str, Any] = {
    "minReplicas": PODS,
    "maxReplicas": PODS,
    "maxRestarts": COUNT,
    "metrics": {"type": "array"},
}
_PAIR = mapping({"key": TEXT, "value": TEXT}, "key", "value")
_TORCHRUN: dict[str, Any] = {
    "rdzvBackend": TEXT,
    "rdzvHost": TEXT,
    "rdzvPort": COUNT,
    "rdzvId": TEXT,
    "rdzvConf": {"type": "array", "items": _PAIR},
    "standalone": SWITCH,
    "nProcPerNode": COUNT,
}
PYTORCHJOB: dict[str, Any] = {
    "elasticPolicy": mapping(ELASTIC_SIZES | _TORCHRUN),
    "nprocPerNode": {"type": ["string", "integer"]},
}

PADDLEJOB: dict[str, Any] = {"elasticPolicy": mapping(ELASTIC_SIZES)}

MXJOB: dict[str, Any] = {
    "jobMode": {"enum": ["MXTrain", "MXTune"]},
    MXNET.field: REPLICAS
    | {"additionalProperties": mapping(REPLICA["properties"] | {"label": TEXT}, "template")},
}

_CLEANUP: dict[str, Any] = {"cleanupPodPolicy": {"enum": list(CLEAN_POD_POLICIES)}}
_TENSORBOARD = mapping(
    {
        "logDir": TEXT,
        "serviceType": TEXT,
        "volumes": {"type": "array"},
        "volumeMounts": {"type": "array"},
    },
    "logDir",
)
TFJOB_LIST: dict[str, Any] = {"tfImage": TEXT, "tensorboard": _TENSORBOARD} | _CLEANUP
PYTORCHJOB_LIST: dict[str, Any] = {
    "pytorchImage": TEXT,
    "backend": TEXT,
    "masterPort": {"type": ["string", "integer"], "pattern": "^[0-9]+$"},
}
MXJOB_LIST: dict[str, Any] = {"mxImage": TEXT, "jobMode": TEXT} | _CLEANUP
"""Fields of v1alpha1, besides those that every kind of that version has."""


def spec_schema(rules: Rules, **fields: Any) -> dict[str, Any]:
    """Return the JSON Schema of the `spec` of a kind, with its replica types and these fields."""
    return mapping(POLICIES | {rules.field: REPLICAS} | fields, rules.field)


def old_spec_schema(rules: Rules, **fields: Any) -> dict[str, Any]:
    """Return the same as `spec_schema` for v1alpha2 to v1beta2, which have no `runPolicy`."""
    policies = INLINE | {"ttlSecondsAfterFinishing": COUNT}
    return mapping(policies | {rules.field: REPLICAS} | fields, rules.field)
