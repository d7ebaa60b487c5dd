"""The JSON Schema of a Volcano job's `spec`.

Source: volcano-sh/volcano, staging/src/volcano.sh/apis/pkg/apis/batch/v1alpha1/job.go.
"""

from typing import Any

from mlgen.bounds import ROLES
from mlgen.dialects._schemas import COUNT, PODS, TEMPLATE, TEXT, mapping
from mlgen.dialects.volcano.policies import ACTIONS, ANY, EVENTS

POSITIVE = COUNT | {"minimum": 1}
NAMES: dict[str, Any] = {"type": "array", "items": TEXT}

POLICY: dict[str, Any] = mapping(
    {
        "action": {"enum": list(ACTIONS)},
        "event": {"enum": ["", ANY, *EVENTS]},
        "events": {"type": "array", "items": {"enum": [ANY, *EVENTS]}},
        "exitCode": {"type": "integer"},
        "timeout": TEXT,
    },
    "action",
)
POLICIES: dict[str, Any] = {"type": "array", "items": POLICY}

NETWORK_TOPOLOGY = mapping(
    {"mode": {"enum": ["hard", "soft"]}, "highestTierAllowed": COUNT, "highestTierName": TEXT}
)
PARTITIONS = mapping(
    {
        "totalPartitions": POSITIVE,
        "partitionSize": POSITIVE,
        "networkTopology": NETWORK_TOPOLOGY,
        "minPartitions": COUNT,
    },
    "totalPartitions",
    "partitionSize",
)
TASK = mapping(
    {
        "name": TEXT,
        "replicas": PODS,
        "minAvailable": COUNT,
        "template": TEMPLATE,
        "policies": POLICIES,
        "topologyPolicy": {"enum": ["none", "best-effort", "restricted", "single-numa-node"]},
        "maxRetry": {"type": "integer", "minimum": -1},
        "dependsOn": mapping({"name": NAMES, "iteration": {"enum": ["any", "all"]}}),
        "partitionPolicy": PARTITIONS,
    },
    "template",
)
VOLUME = mapping(
    {
        "mountPath": TEXT,
        "volumeClaimName": TEXT,
        "volumeClaim": {"type": "object"},
        "generateName": TEXT,
    },
    "mountPath",
)
SPEC = mapping(
    {
        "schedulerName": TEXT,
        "minAvailable": COUNT,
        "volumes": {"type": "array", "items": VOLUME},
        "tasks": {"type": "array", "minItems": 1, "maxItems": ROLES, "items": TASK},
        "policies": POLICIES,
        "plugins": {"type": "object", "additionalProperties": NAMES},
        "runningEstimate": TEXT,
        "queue": TEXT,
        "maxRetry": COUNT,
        "ttlSecondsAfterFinished": COUNT,
        "priorityClassName": TEXT,
        "minSuccess": POSITIVE,
        "networkTopology": NETWORK_TOPOLOGY,
    },
    "tasks",
)
