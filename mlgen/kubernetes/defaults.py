"""What the API server writes into an object where nobody says anything.

A field that is added with its default is no change, and one that is taken away goes back to it.
A tree has the form of the objects: what stands at a field is its default, or the tree of what is
in it, or a function of what stands around it. Read in the Go types and in `SetDefaults_*` of
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/apis (core/v1, batch/v1, apps/v1 and
rbac/v1, each in defaults.go). What the types call `omitempty`, and is no pointer, cannot be told
from its zero, which is why there are zeros here.
"""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


class Always(dict[str, Any]):
    """The tree of a structure that is there even where it is not written."""


def _pull_policy(container: Mapping[str, Any]) -> str:
    name, _, digest = str(container.get("image", "")).partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _completions(spec: Mapping[str, Any]) -> int | None:
    return None if "parallelism" in spec else 1


def _backoff_limit(spec: Mapping[str, Any]) -> int:
    return 6 if spec.get("backoffLimitPerIndex") is None else (1 << 31) - 1


def _replacement(spec: Mapping[str, Any]) -> str:
    return "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"


def _target_port(port: Mapping[str, Any]) -> Any:
    return port.get("port")


def _subject_group(subject: Mapping[str, Any]) -> str:
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
    "podReplacementPolicy": _replacement,
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
"""By API group and kind."""
