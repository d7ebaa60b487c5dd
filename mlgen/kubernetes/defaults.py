"""The values that the API server sets for fields that a manifest omits.

Adding a field with its default changes nothing, and removing a field resets it to its default.

The defaults form a tree like that of an object. A field holds its default, the tree of its own
fields, or a function from the mapping that contains it to its default; a list holds the tree of
its items. Sources: the Go types, and the functions `SetDefaults_*` in
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/apis (defaults.go in core/v1, batch/v1,
apps/v1 and rbac/v1). A field with `omitempty` that is not a pointer has its zero value as default,
because the two are indistinguishable.
"""

from collections.abc import Mapping
from typing import Any


class Always(dict[str, Any]):
    """The tree of a structure that the API server creates even if a manifest omits it."""


def _pull_policy(container: Mapping[str, Any]) -> str:
    """Return Always for the tag `latest`, given or implied, else IfNotPresent."""
    name, _, digest = str(container.get("image", "")).partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _completions(spec: Mapping[str, Any]) -> int | None:
    """Return 1, or None for a Job with parallelism: a work queue."""
    return None if "parallelism" in spec else 1


def _backoff_limit(spec: Mapping[str, Any]) -> int:
    """Return 6, or the largest int32 for a Job with a limit per index."""
    return 6 if spec.get("backoffLimitPerIndex") is None else (1 << 31) - 1


def _pod_replacement_policy(spec: Mapping[str, Any]) -> str:
    """Return Failed for a Job with a pod failure policy, else TerminatingOrFailed."""
    return "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"


def _target_port(port: Mapping[str, Any]) -> Any:
    """Return the port of the Service itself."""
    return port.get("port")


def _subject_group(subject: Mapping[str, Any]) -> str:
    """Return the API group of a binding's subject: that of RBAC for a User or Group."""
    return "" if subject.get("kind") == "ServiceAccount" else RBAC


RBAC = "rbac.authorization.k8s.io"
MODE = 0o644

FIELD = {"apiVersion": "v1"}

ENV = {"value": "", "valueFrom": {"fieldRef": FIELD}}

HANDLER = {"httpGet": {"path": "/", "scheme": "HTTP"}, "grpc": {"service": ""}}

PROBE = {
    **HANDLER,
    "initialDelaySeconds": 0,
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}

CONTAINER = {
    "imagePullPolicy": _pull_policy,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "workingDir": "",
    "stdin": False,
    "stdinOnce": False,
    "tty": False,
    "resources": Always(),
    "env": [ENV],
    "ports": [{"protocol": "TCP", "name": "", "hostIP": ""}],
    "volumeMounts": [{"readOnly": False, "subPath": "", "subPathExpr": ""}],
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "lifecycle": {"postStart": HANDLER, "preStop": HANDLER},
}

PROJECTION = {
    "downwardAPI": {"items": [{"fieldRef": FIELD}]},
    "serviceAccountToken": {"expirationSeconds": 3600, "audience": ""},
}

CLAIM_SPEC = {"volumeMode": "Filesystem", "resources": Always(), "volumeName": ""}

VOLUME = {
    "configMap": {"defaultMode": MODE},
    "secret": {"defaultMode": MODE},
    "downwardAPI": {"defaultMode": MODE, "items": [{"fieldRef": FIELD}]},
    "projected": {"defaultMode": MODE, "sources": [PROJECTION]},
    "hostPath": {"type": ""},
    "nfs": {"readOnly": False},
    "persistentVolumeClaim": {"readOnly": False},
    "emptyDir": {"medium": ""},
    "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}},
}

POD = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": Always(),
    "serviceAccountName": "",
    "nodeName": "",
    "hostname": "",
    "subdomain": "",
    "priorityClassName": "",
    "hostNetwork": False,
    "hostPID": False,
    "hostIPC": False,
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": [VOLUME],
    "tolerations": [{"key": "", "operator": "", "value": "", "effect": ""}],
}

TEMPLATE = Always(metadata=Always(), spec=POD)

CLAIM = {"metadata": Always(), "spec": CLAIM_SPEC}

JOB = {
    "completions": _completions,
    "parallelism": 1,
    "backoffLimit": _backoff_limit,
    "completionMode": "NonIndexed",
    "suspend": False,
    "podReplacementPolicy": _pod_replacement_policy,
    "manualSelector": False,
    "podFailurePolicy": {"rules": [{"onPodConditions": [{"status": "True"}]}]},
    "template": TEMPLATE,
}

STATEFUL_SET = {
    "podManagementPolicy": "OrderedReady",
    "serviceName": "",
    "replicas": 1,
    "minReadySeconds": 0,
    "revisionHistoryLimit": 10,
    "updateStrategy": Always(type="RollingUpdate", rollingUpdate=Always(partition=0)),
    "persistentVolumeClaimRetentionPolicy": Always(whenDeleted="Retain", whenScaled="Retain"),
    "template": TEMPLATE,
    "volumeClaimTemplates": [CLAIM],
}

DEPLOYMENT = {
    "replicas": 1,
    "minReadySeconds": 0,
    "paused": False,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
    "strategy": Always(
        type="RollingUpdate", rollingUpdate=Always(maxUnavailable="25%", maxSurge="25%")
    ),
    "template": TEMPLATE,
}

SERVICE = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "publishNotReadyAddresses": False,
    "ports": [{"protocol": "TCP", "name": "", "targetPort": _target_port}],
}

BINDING = {
    "roleRef": {"apiGroup": RBAC},
    "subjects": [{"apiGroup": _subject_group, "namespace": ""}],
}

DEFAULTS: dict[tuple[str, str], Mapping[str, Any]] = {
    ("", "PersistentVolumeClaim"): {"spec": CLAIM_SPEC},
    ("", "Pod"): {"spec": {**POD, "enableServiceLinks": True}},
    ("", "Secret"): {"type": "Opaque"},
    ("", "Service"): {"spec": SERVICE},
    ("apps", "DaemonSet"): {"spec": {"revisionHistoryLimit": 10, "template": TEMPLATE}},
    ("apps", "Deployment"): {"spec": DEPLOYMENT},
    ("apps", "ReplicaSet"): {"spec": {"replicas": 1, "template": TEMPLATE}},
    ("apps", "StatefulSet"): {"spec": STATEFUL_SET},
    ("batch", "CronJob"): {
        "spec": {"concurrencyPolicy": "Allow", "suspend": False, "jobTemplate": {"spec": JOB}}
    },
    ("batch", "Job"): {"spec": JOB},
    (RBAC, "ClusterRoleBinding"): BINDING,
    (RBAC, "RoleBinding"): BINDING,
}
"""The defaults of an object, by API group and kind."""
