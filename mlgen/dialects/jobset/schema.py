"""The JSON Schemas of a JobSet's `spec`, by version.

Source: kubernetes-sigs/jobset, api/jobset/v1alpha2 and v1alpha1.
"""

from typing import Any

from mlgen.bounds import ROLES
from mlgen.dialects._schemas import COUNT, METADATA, PODS, SWITCH, TEMPLATE, TEXT, mapping


def _list(item: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a list of such items."""
    return {"type": "array", "items": item}


STRINGS = _list(TEXT)

POD_CONDITION = mapping({"type": TEXT, "status": TEXT}, "type")

EXIT_CODES = mapping(
    {"containerName": TEXT, "operator": {"enum": ["In", "NotIn"]}, "values": _list(COUNT)},
    "operator",
    "values",
)

POD_FAILURE_RULE = mapping(
    {
        "action": {"enum": ["FailJob", "FailIndex", "Ignore", "Count"]},
        "onExitCodes": EXIT_CODES,
        "onPodConditions": _list(POD_CONDITION),
    },
    "action",
)

JOB_SUCCESS_RULE = mapping({"succeededIndexes": TEXT, "succeededCount": COUNT})

JOB = mapping(
    {
        "template": TEMPLATE,
        "completions": PODS,
        "parallelism": PODS,
        "completionMode": {"enum": ["Indexed", "NonIndexed"]},
        "activeDeadlineSeconds": COUNT,
        "backoffLimit": COUNT,
        "backoffLimitPerIndex": COUNT,
        "maxFailedIndexes": COUNT,
        "podFailurePolicy": mapping({"rules": _list(POD_FAILURE_RULE)}, "rules"),
        "podReplacementPolicy": {"enum": ["TerminatingOrFailed", "Failed"]},
        "successPolicy": mapping({"rules": _list(JOB_SUCCESS_RULE)}, "rules"),
        "ttlSecondsAfterFinished": COUNT,
        "suspend": SWITCH,
        "managedBy": TEXT,
        "manualSelector": SWITCH,
        "selector": {"type": "object"},
    },
    "template",
)


def _replicated_jobs(**version_fields: Any) -> dict[str, Any]:
    """Return the JSON Schema of `replicatedJobs`, with the fields that only one version has."""
    fields = {
        "name": {**TEXT, "minLength": 1, "examples": ["worker"]},
        "replicas": PODS,
        "template": mapping({"metadata": METADATA, "spec": JOB}, "spec"),
    }
    items = mapping(fields | version_fields, "name", "template")
    return _list(items) | {"minItems": 1, "maxItems": ROLES}


SUCCESS_POLICY = mapping(
    {"operator": {"enum": ["All", "Any"]}, "targetReplicatedJobs": STRINGS}, "operator"
)

FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)

FAILURE_ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
    "RecreateJob",
)

FAILURE_RULE = mapping(
    {
        "name": TEXT,
        "action": {"enum": list(FAILURE_ACTIONS)},
        "onJobFailureReasons": _list({"enum": list(FAILURE_REASONS)}),
        "onJobFailureMessagePatterns": STRINGS,
        "targetReplicatedJobs": STRINGS,
    },
    "action",
)

FAILURE_POLICY = mapping(
    {
        "maxRestarts": COUNT,
        "restartStrategy": {"enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"]},
        "rules": _list(FAILURE_RULE),
    }
)

DEPENDS_ON = mapping({"name": TEXT, "status": {"enum": ["Ready", "Complete"]}}, "name", "status")

VOLUME_CLAIM = mapping(
    {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": METADATA,
        "spec": {"type": "object"},
        "status": {},
    },
    "metadata",
    "spec",
)

VOLUME_CLAIM_POLICY = mapping(
    {
        "templates": _list(VOLUME_CLAIM),
        "retentionPolicy": mapping({"whenDeleted": {"enum": ["Delete", "Retain"]}}),
    }
)

V1ALPHA2 = mapping(
    {
        "replicatedJobs": _replicated_jobs(groupName=TEXT, dependsOn=_list(DEPENDS_ON)),
        "network": mapping(
            {"enableDNSHostnames": SWITCH, "subdomain": TEXT, "publishNotReadyAddresses": SWITCH}
        ),
        "successPolicy": SUCCESS_POLICY,
        "failurePolicy": FAILURE_POLICY,
        "startupPolicy": mapping({"startupPolicyOrder": {"enum": ["AnyOrder", "InOrder"]}}),
        "suspend": SWITCH,
        "coordinator": mapping(
            {"replicatedJob": TEXT, "jobIndex": COUNT, "podIndex": COUNT}, "replicatedJob"
        ),
        "managedBy": TEXT,
        "ttlSecondsAfterFinished": COUNT,
        "activeDeadlineSeconds": COUNT,
        "volumeClaimPolicies": _list(VOLUME_CLAIM_POLICY),
        "scheduling": {"type": "object"},
    },
    "replicatedJobs",
)

V1ALPHA1 = mapping(
    {
        "replicatedJobs": _replicated_jobs(network=mapping({"enableDNSHostnames": SWITCH})),
        "successPolicy": SUCCESS_POLICY,
        "failurePolicy": mapping({"maxRestarts": COUNT}),
        "suspend": SWITCH,
    },
    "replicatedJobs",
)
