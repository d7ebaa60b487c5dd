"""Objects, edits of them, and the results of `mlgen diff` and an API server for each edit."""

import copy

UNSCHEDULABLE = {"mlgen.test/no-such-node": "true"}
"""Node selector of pods that are never scheduled, and so use no resources."""


def pod(restart="Never"):
    main = {"name": "main", "image": "busybox:1.36", "command": ["true"], "env": [{"name": "A"}]}
    return {"restartPolicy": restart, "nodeSelector": dict(UNSCHEDULABLE), "containers": [main]}


def template(name, restart="Never"):
    return {"metadata": {"labels": {"app": name}}, "spec": pod(restart)}


def build(version, kind, name, **content):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


def job(name, **spec):
    return build("batch/v1", "Job", name, spec={"template": template(name), **spec})


def apps(kind, name, **spec):
    selector = {"matchLabels": {"app": name}}
    spec = {"selector": selector, "template": template(name, "Always"), "replicas": 0, **spec}
    return build("apps/v1", kind, name, spec=spec)


def service(name, **spec):
    ports = [{"name": "http", "port": 80}]
    return build("v1", "Service", name, spec={"selector": {"app": "x"}, "ports": ports, **spec})


RBAC = "rbac.authorization.k8s.io/v1"
EXIT_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "none",
    "resources": {"requests": {"storage": "1Gi"}},
}

OBJECTS = [
    job("plain", completions=2, parallelism=2, backoffLimit=1),
    job("indexed", completionMode="Indexed", completions=2, parallelism=2),
    job(
        "rules",  # suspended, as its unscheduled pods would block the deletion of their namespace
        suspend=True,
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        backoffLimitPerIndex=1,
        maxFailedIndexes=1,
        podFailurePolicy={"rules": [EXIT_42]},
        successPolicy={"rules": [{"succeededIndexes": "0"}]},
    ),
    job("bare"),
    job("waiting", suspend=True),
    apps("StatefulSet", "set", serviceName="set", podManagementPolicy="Parallel"),
    apps("Deployment", "board"),
    build("apps/v1", "DaemonSet", "agent")
    | {
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", "Always"),
        }
    },
    apps("ReplicaSet", "copies"),
    service("headless", clusterIP="None", publishNotReadyAddresses=True),
    service("address"),
    build("v1", "ConfigMap", "open", data={"a": "1"}),
    build("v1", "ConfigMap", "locked", data={"a": "1"}, immutable=True),
    build("v1", "Secret", "key", stringData={"a": "1"}),
    build("v1", "Secret", "locked", stringData={"a": "1"}, immutable=True),
    build("v1", "PersistentVolumeClaim", "claim", spec=CLAIM),
    build("v1", "PersistentVolumeClaim", "any")
    | {"spec": {name: CLAIM[name] for name in ("accessModes", "resources")}},
    build("v1", "ServiceAccount", "account"),
    build(RBAC, "Role", "role")
    | {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    build(RBAC, "RoleBinding", "binding")
    | {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role"},
        "subjects": [{"kind": "ServiceAccount", "name": "account", "namespace": "x"}],
    },
    build("v1", "Pod", "pod") | {"spec": pod()},
]

LABEL = {"metadata.labels": {"a": "b"}}
SPEC = "spec.template.spec"
MAIN = f"{SPEC}.containers.0"
RESOURCES = {f"{MAIN}.resources": {"requests": {"cpu": "1m"}}}
NODES = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    }
}
PODS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    ]
}

ACCEPTED = [
    ("Job plain", LABEL),
    ("Job plain", {"metadata.annotations": {"a": "b"}}),
    ("Job plain", {"spec.parallelism": 1}),
    ("Job plain", {"spec.suspend": True}),
    ("Job plain", {"spec.activeDeadlineSeconds": 60}),
    ("Job plain", {"spec.backoffLimit": None}),
    ("Job plain", {"spec.ttlSecondsAfterFinished": 60}),
    ("Job plain", {"spec.podReplacementPolicy": "Failed"}),
    ("Job bare", {"spec.parallelism": 2}),
    ("Job indexed", {"spec.completions": 3, "spec.parallelism": 3}),
    ("Job indexed", {"spec.parallelism": 1}),
    ("Job rules", {"spec.maxFailedIndexes": 2}),
    ("Job waiting", {"spec.suspend": False}),
    ("StatefulSet set", {"spec.replicas": 1}),
    ("StatefulSet set", {"spec.ordinals": {"start": 1}}),
    ("StatefulSet set", {f"{MAIN}.image": "busybox:1.37"}),
    (
        "StatefulSet set",
        {"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": None}},
    ),
    ("StatefulSet set", {"spec.revisionHistoryLimit": 2}),
    ("StatefulSet set", {"spec.minReadySeconds": 5}),
    (
        "StatefulSet set",
        {"spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
    ),
    ("Deployment board", {f"{MAIN}.image": "busybox:1.37", "spec.replicas": 1}),
    ("DaemonSet agent", {f"{MAIN}.image": "busybox:1.37"}),
    ("Service headless", {"spec.clusterIP": None}),
    ("Service headless", {"spec.type": "ExternalName", "spec.externalName": "a.example"}),
    (
        "Service headless",
        {"spec.selector": {"app": "other"}, "spec.publishNotReadyAddresses": False},
    ),
    ("Service address", {"spec.type": "NodePort"}),
    ("Service address", {"spec.ports": [{"name": "http", "port": 81}]}),
    ("ConfigMap open", {"data": {"a": "2", "b": "3"}}),
    ("ConfigMap open", {"data": {"a": "2"}, "immutable": True}),
    ("ConfigMap locked", LABEL),
    ("Secret key", {"stringData": {"a": "2"}}),
    ("ServiceAccount account", {"automountServiceAccountToken": False}),
    ("Role role", {"rules.0.verbs": ["get", "list"]}),
    ("RoleBinding binding", {"subjects.0.name": "other"}),
    ("PersistentVolumeClaim claim", LABEL),
    ("Pod pod", {"spec.containers.0.image": "busybox:1.37"}),
]

REJECTED = [
    ("Job plain", {f"{MAIN}.image": "busybox:1.37"}, "spec.template"),
    ("Job plain", {f"{MAIN}.env.0.value": "x"}, "spec.template"),
    ("Job plain", {"spec.template.metadata.labels.extra": "x"}, "spec.template"),
    ("Job plain", {"spec.template.metadata.annotations": {"a": "b"}}, "spec.template"),
    ("Job plain", {f"{SPEC}.restartPolicy": "OnFailure"}, "spec.template"),
    ("Job plain", {f"{SPEC}.hostNetwork": True}, "spec.template"),
    ("Job plain", {f"{SPEC}.tolerations": [{"operator": "Exists"}]}, "spec.template"),
    ("Job plain", {f"{SPEC}.containers.1": {"name": "b", "image": "b"}}, "spec.template"),
    ("Job plain", RESOURCES, "spec.template"),
    ("Job plain", {f"{MAIN}.imagePullPolicy": "Always"}, "spec.template"),
    ("Job plain", {"spec.completions": 3}, "spec.completions"),
    ("Job bare", {"spec.completions": 2}, "spec.completions"),
    ("Job plain", {"spec.completions": None}, "spec.completions"),
    ("Job plain", {"spec.completionMode": "Indexed"}, "spec.completionMode"),
    ("Job plain", {"spec.managedBy": "example.org/other"}, "spec.managedBy"),
    ("Job plain", {"spec.podFailurePolicy": {"rules": [EXIT_42]}}, "spec.podFailurePolicy"),
    ("Job indexed", {"spec.completions": 3}, "spec.completions"),
    ("Job rules", {"spec.backoffLimitPerIndex": 2}, "spec.backoffLimitPerIndex"),
    ("Job rules", {"spec.podFailurePolicy": None}, "spec.podFailurePolicy"),
    (
        "Job rules",
        {"spec.podFailurePolicy.rules.0.onExitCodes.values": [42, 43]},
        "spec.podFailurePolicy",
    ),
    ("Job rules", {"spec.successPolicy": None}, "spec.successPolicy"),
    (
        "Job rules",
        {"spec.successPolicy.rules.0": {"succeededCount": 1}},
        "spec.successPolicy",
    ),
    ("Job waiting", {f"{MAIN}.image": "busybox:1.37"}, "spec.template"),
    ("Job waiting", {f"{SPEC}.affinity": {"podAffinity": PODS}}, "spec.template"),
    (
        "StatefulSet set",
        {"spec.updateStrategy": {"type": "OnDelete"}},
        "spec.updateStrategy.type",
    ),
    ("StatefulSet set", {"spec.serviceName": "other"}, "spec.serviceName"),
    ("StatefulSet set", {"spec.podManagementPolicy": None}, "spec.podManagementPolicy"),
    (
        "StatefulSet set",
        {
            "spec.selector.matchLabels.b": "c",
            "spec.template.metadata.labels.b": "c",
        },
        "spec.selector",
    ),
    (
        "StatefulSet set",
        {"spec.volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}]},
        "spec.volumeClaimTemplates",
    ),
    *(
        (
            name,
            {"spec.selector.matchLabels.b": "c", "spec.template.metadata.labels.b": "c"},
            "spec.selector",
        )
        for name in ("Deployment board", "DaemonSet agent", "ReplicaSet copies")
    ),
    ("Service address", {"spec.clusterIP": "None"}, "spec.clusterIP"),
    ("Service headless", {"spec.clusterIP": "10.96.77.77"}, "spec.clusterIP"),
    ("Service headless", {"spec.type": "NodePort", "spec.clusterIP": None}, "spec.type"),
    ("ConfigMap locked", {"data.a": "2"}, "data"),
    ("ConfigMap locked", {"binaryData": {"b": "aGk="}}, "binaryData"),
    ("ConfigMap locked", {"immutable": None}, "immutable"),
    ("Secret key", {"type": "example.org/key"}, "type"),
    ("Secret locked", {"stringData.a": "2"}, "data"),
    ("Secret locked", {"immutable": False}, "immutable"),
    ("RoleBinding binding", {"roleRef.name": "other"}, "roleRef"),
    ("PersistentVolumeClaim claim", {"spec.accessModes": ["ReadWriteMany"]}, "spec.accessModes"),
    ("PersistentVolumeClaim claim", {"spec.storageClassName": "other"}, "spec.storageClassName"),
    (
        "PersistentVolumeClaim claim",
        {"spec.resources.requests.storage": "512Mi"},
        "spec.resources.requests",
    ),
    ("Pod pod", {"spec.containers.0.command": ["false"]}, "spec.containers"),
]

NO_CHANGE = [
    ("Job plain", {"spec.completionMode": "NonIndexed", "spec.suspend": False}),
    ("Job plain", {"spec.podReplacementPolicy": "TerminatingOrFailed"}),
    ("Job bare", {"spec.completions": 1, "spec.parallelism": 1, "spec.backoffLimit": 6}),
    ("Job rules", {"spec.podReplacementPolicy": "Failed", "spec.backoffLimit": 2147483647}),
    ("Job plain", {f"{MAIN}.imagePullPolicy": "IfNotPresent", f"{MAIN}.env.0.value": ""}),
    ("Job plain", {f"{MAIN}.terminationMessagePath": "/dev/termination-log"}),
    ("Job plain", {f"{MAIN}.resources": {}, f"{MAIN}.stdin": False, f"{SPEC}.hostIPC": False}),
    ("Job plain", {f"{SPEC}.dnsPolicy": "ClusterFirst", f"{SPEC}.securityContext": {}}),
    ("Job plain", {f"{SPEC}.schedulerName": "default-scheduler", f"{SPEC}.volumes": []}),
    ("Job plain", {f"{SPEC}.terminationGracePeriodSeconds": 30, f"{MAIN}.ports": []}),
    ("StatefulSet set", {"spec.updateStrategy": {"type": "RollingUpdate"}}),
    ("StatefulSet set", {"spec.updateStrategy": {"rollingUpdate": {"partition": 0}}}),
    ("Deployment board", {"spec.strategy": {"rollingUpdate": {"maxSurge": "25%"}}}),
    ("Service address", {"spec.type": "ClusterIP", "spec.ports.0.protocol": "TCP"}),
    ("Service address", {"spec.ports.0.targetPort": 80, "spec.sessionAffinity": "None"}),
    ("Secret key", {"type": "Opaque", "stringData": None, "data": {"a": "MQ=="}}),
    ("RoleBinding binding", {"subjects.0.apiGroup": ""}),
    ("PersistentVolumeClaim claim", {"spec.volumeMode": "Filesystem"}),
    ("PersistentVolumeClaim claim", {"spec.resources.requests.storage": "1024Mi"}),
]

UNSURE = [
    ("Service address", {"spec.clusterIP": "10.96.77.77"}, "will be rejected by the API server: "),
    (
        "PersistentVolumeClaim claim",
        {"spec.resources.requests.storage": "2Gi"},
        "will be rejected by the API server: ",
    ),
    ("PersistentVolumeClaim any", {"spec.storageClassName": "none"}, "changed"),
    (
        "Pod pod",
        {"spec.tolerations": [{"operator": "Exists"}]},
        "may be rejected by the API server: ",
    ),
]

FIELDS_OF_ERRORS = {
    ("Job waiting", "spec.template"): "spec.template.spec",
    ("Service address", "spec.clusterIP"): "spec.clusterIPs[0]",
    ("Service headless", "spec.clusterIP"): "spec.clusterIPs[0]",
    ("Service headless", "spec.type"): "spec.clusterIPs[0]",
    ("PersistentVolumeClaim claim", "spec.resources.requests"): "spec",
    ("StatefulSet set", "spec.updateStrategy.type"): "spec.updateStrategy.rollingUpdate",
}
"""Edits for which the API server names another field: a defaulted field, or the whole spec.

It names the `spec` of a suspended Job's template since Kubernetes 1.36.
"""

SCHEDULING = [
    {f"{SPEC}.nodeSelector": {"zone": "a"}},
    {f"{SPEC}.tolerations": [{"operator": "Exists"}]},
    {f"{SPEC}.affinity": {"nodeAffinity": NODES}},
    {f"{SPEC}.schedulingGates": [{"name": "example.org/gate"}]},
    {"spec.template.metadata.labels.extra": "x"},
    {"spec.template.metadata.annotations": {"a": "b"}},
]


def edited(item, edits):
    """Return a copy of the object with other values at some paths; None removes a field."""
    item = copy.deepcopy(item)
    for path, value in edits.items():
        *parents, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        holder = item
        for step in parents:
            holder = holder[step]
        if isinstance(holder, list) and last == len(holder):
            holder.append(value)
        elif value is None:
            del holder[last]
        else:
            holder[last] = value
    return item


def named(name):
    kind, name = name.split()
    return next(o for o in OBJECTS if (o["kind"], o["metadata"]["name"]) == (kind, name))
