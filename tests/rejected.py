"""Values that mlgen and the API server reject, each in an otherwise valid object."""

from copy import deepcopy
from itertools import pairwise

POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
SETS = {
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {**POD, "restartPolicy": "Always"},
        },
    }
}
RBAC = "rbac.authorization.k8s.io"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

OBJECTS = {
    "ConfigMap": ("v1", {"data": {"a": "b"}}),
    "Deployment": ("apps/v1", SETS),
    "Job": ("batch/v1", {"spec": {"template": {"spec": POD}}}),
    "PersistentVolumeClaim": ("v1", {"spec": CLAIM}),
    "Role": (f"{RBAC}/v1", {"rules": [{"apiGroups": [""], "resources": ["a"], "verbs": ["b"]}]}),
    "RoleBinding": (
        f"{RBAC}/v1",
        {
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "a"},
            "subjects": [{"kind": "ServiceAccount", "name": "a"}],
        },
    ),
    "Service": ("v1", {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}),
    "StatefulSet": ("apps/v1", SETS),
}

SHORT = {
    "pod": "spec/template/spec",
    "main": "spec/template/spec/containers/0",
    "labels": "spec/template/metadata/labels",
    "volume": "spec/template/spec/volumes/0",
}
"""The first step of a path may be one of these."""

REJECTED = [
    # metadata
    ("Job", "metadata/labels", {"/a": "b"}),
    ("Job", "metadata/labels", {"a": "b c"}),
    ("Job", "metadata/annotations", {"a": "x" * (257 << 10)}),
    (
        "Job",
        "metadata/ownerReferences",
        [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "1"}],
    ),
    (
        "Job",
        "metadata/ownerReferences",
        [
            {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True}
            for n in ("a", "b")
        ],
    ),
    ("Job", "metadata/finalizers", ["a b"]),
    ("Job", "metadata/finalizers", ["orphan", "foregroundDeletion"]),
    # Jobs
    ("Job", "spec/parallelism", -1),
    ("Job", "spec/completionMode", "indexed"),
    ("Job", "spec", {"completionMode": "Indexed", "parallelism": 1}),
    ("Job", "spec/managedBy", "me"),
    ("Job", "spec/backoffLimitPerIndex", 1),
    ("Job", "spec/maxFailedIndexes", 1),
    ("Job", "spec", {"completionMode": "Indexed", "completions": 1, "parallelism": 100_001}),
    ("Job", "spec", {"completionMode": "Indexed", "completions": 1, "maxFailedIndexes": 2}),
    (
        "Job",
        "spec",
        {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1},
    ),
    (
        "Job",
        "spec",
        {"completionMode": "Indexed", "completions": 1, "successPolicy": {"rules": []}},
    ),
    *(
        (
            "Job",
            "spec",
            {"completionMode": "Indexed", "completions": 4, "successPolicy": {"rules": rules}},
        )
        for rules in (
            [{}],
            [{"succeededCount": 5}],
            [{"succeededCount": 2, "succeededIndexes": "1"}],
            [{"succeededIndexes": "1-"}],
            [{"succeededIndexes": "2,1"}],
            [{"succeededIndexes": "3-4"}],
            [{"succeededIndexes": "1-2-3"}],
            [{"succeededCount": 1}] * 21,
        )
    ),
    ("Job", "spec/podReplacementPolicy", ""),
    *(
        ("Job", "spec/podFailurePolicy/rules", [rule])
        for rule in (
            {"action": "Restart", "onPodConditions": [{"type": "a", "status": "True"}]},
            {"action": "FailIndex", "onPodConditions": [{"type": "a", "status": "True"}]},
            {"action": "", "onPodConditions": [{"type": "a b", "status": "Yes"}]},
            {"action": "Ignore"},
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": []}},
            {"action": "Ignore", "onExitCodes": {"operator": "", "values": [1]}},
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}},
            {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [2, 1]}},
            {
                "action": "Ignore",
                "onExitCodes": {"operator": "In", "values": [1], "containerName": "b"},
            },
        )
    ),
    ("Job", "spec/selector/matchLabels", {"a": "b"}),
    ("Job", "spec/manualSelector", True),
    ("Job", "spec", {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}),
    ("Job", "labels/job-name", "b"),
    ("Job", "pod/restartPolicy", "Always"),
    # StatefulSets and Deployments
    ("StatefulSet", "spec/replicas", -1),
    ("StatefulSet", "spec/serviceName", "a.b"),
    ("StatefulSet", "spec/podManagementPolicy", "parallel"),
    ("StatefulSet", "spec/updateStrategy", {"type": "OnDelete", "rollingUpdate": {}}),
    ("StatefulSet", "spec/updateStrategy/rollingUpdate/partition", -1),
    ("StatefulSet", "spec/persistentVolumeClaimRetentionPolicy/whenScaled", "Keep"),
    ("StatefulSet", "spec/volumeClaimTemplates", [{"metadata": {"name": "a"}, "spec": {}}]),
    ("StatefulSet", "spec/selector/matchLabels/a", "c"),
    *(
        ("StatefulSet", "spec/selector/matchExpressions", [rule])
        for rule in (
            {"key": "a", "operator": "NotIn", "values": ["b"]},
            {"key": "a", "operator": "In", "values": ["c"]},
            {"key": "a", "operator": "DoesNotExist"},
            {"key": "a", "operator": "Like"},
            {"key": "a", "operator": ""},
            {"key": "a", "operator": "In", "values": ["b", "b c"]},
        )
    ),
    ("StatefulSet", "pod/activeDeadlineSeconds", 5),
    ("Deployment", "spec/progressDeadlineSeconds", 0),
    ("Deployment", "spec/strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
    ("Deployment", "spec/strategy/rollingUpdate", {"maxSurge": 0, "maxUnavailable": 0}),
    ("Deployment", "spec/strategy/rollingUpdate", {"maxSurge": "a", "maxUnavailable": "101%"}),
    # Services
    ("Service", "spec/type", "External"),
    ("Service", "spec/ports", []),
    ("Service", "spec/ports", [{"port": 80}, {"port": 81}]),
    ("Service", "spec/ports", [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]),
    ("Service", "spec/ports/0/port", 0),
    ("Service", "spec/ports/0/targetPort", "a_b"),
    ("Service", "spec/ports/0/protocol", "HTTP"),
    ("Service", "spec/ports/0/appProtocol", "a b"),
    ("Service", "spec/ports/0/nodePort", 30000),
    ("Service", "spec", {"type": "ExternalName"}),
    ("Service", "spec", {"type": "ExternalName", "externalName": "a b", "ipFamilies": ["IPv4"]}),
    ("Service", "spec", {"type": "NodePort", "clusterIP": "None"}),
    ("Service", "spec", {"clusterIP": "1.2.3"}),
    ("Service", "spec", {"clusterIP": "None", "clusterIPs": ["", "a"]}),
    ("Service", "spec/ipFamilies", ["IPv4", "IPv4"]),
    ("Service", "spec/externalTrafficPolicy", "Local"),
    ("Service", "spec/allocateLoadBalancerNodePorts", True),
    ("Service", "spec/loadBalancerSourceRanges", ["10.0.0.0/8"]),
    ("Service", "spec/healthCheckNodePort", 30000),
    ("Service", "spec/externalIPs", ["a"]),
    (
        "Service",
        "spec",
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
        },
    ),
    ("Service", "spec/trafficDistribution", "Close"),
    (
        "Service",
        "metadata/annotations",
        {
            "service.kubernetes.io/topology-mode": "Auto",
            "service.kubernetes.io/topology-aware-hints": "auto",
        },
    ),
    # Roles, ConfigMaps, PersistentVolumeClaims
    ("Role", "rules/0/verbs", []),
    ("Role", "rules/0/apiGroups", []),
    ("Role", "rules/0/nonResourceURLs", ["/a"]),
    ("RoleBinding", "roleRef/kind", "Group"),
    ("RoleBinding", "roleRef/name", "a/b"),
    ("RoleBinding", "roleRef/name", ""),
    ("RoleBinding", "subjects/0/kind", ""),
    ("RoleBinding", "subjects/0/name", ""),
    ("RoleBinding", "subjects/0/name", "A"),
    ("RoleBinding", "subjects/0/apiGroup", "a"),
    ("RoleBinding", "subjects/0", {"kind": "User", "name": "a", "apiGroup": "a"}),
    ("ConfigMap", "data", {"a/b": "c"}),
    ("ConfigMap", "binaryData", {"a": "YQ=="}),
    ("ConfigMap", "binaryData", {"b": "?"}),
    ("PersistentVolumeClaim", "spec/accessModes", []),
    ("PersistentVolumeClaim", "spec/accessModes", ["ReadWriteOncePod", "ReadOnlyMany"]),
    ("PersistentVolumeClaim", "spec/resources/requests/storage", 0),
    ("PersistentVolumeClaim", "spec/storageClassName", "A"),
    ("PersistentVolumeClaim", "spec/volumeMode", ""),
    # pods
    ("Job", "pod/containers", []),
    ("Job", "pod/ephemeralContainers", [{"name": "a", "image": "a"}]),
    ("Job", "pod/runtimeClassName", ""),
    ("Job", "pod/os", {"name": ""}),
    ("Job", "pod/os", {"name": "macos"}),
    ("Job", "pod/dnsConfig/nameservers", ["10.0.0.1"] * 4),
    ("Job", "pod/dnsConfig/nameservers", ["a"]),
    ("Job", "pod/dnsConfig/searches", ["a"] * 33),
    ("Job", "pod/readinessGates", [{"conditionType": "a b"}]),
    ("Job", "pod/schedulingGates", [{"name": "a"}, {"name": "a"}]),
    ("Job", "pod/resourceClaims", [{"name": "", "resourceClaimName": "A"}]),
    ("Job", "pod/resourceClaims", [{"name": "a", "resourceClaimName": "a"}] * 2),
    ("Job", "pod/overhead", {"cpu": "-1"}),
    ("Job", "pod/hostname", "x" * 64),
    ("Job", "pod/hostAliases", [{"ip": "10.0.0.256"}]),
    ("Job", "pod/nodeSelector", {"a": "b c"}),
    (
        "Job",
        "pod/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        [{"topologyKey": "a", "namespaces": ["a.b"]}],
    ),
    (
        "Job",
        "pod/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        [
            {
                "topologyKey": "a",
                "labelSelector": {
                    "matchLabels": {"b": "c"},
                    "matchExpressions": [{"key": "b", "operator": "Exists"}],
                },
                "matchLabelKeys": ["b"],
                "mismatchLabelKeys": ["b"],
            }
        ],
    ),
    (
        "Job",
        "pod/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        {"nodeSelectorTerms": []},
    ),
    (
        "Job",
        "pod/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A"]}]}],
    ),
    (
        "Job",
        "pod/topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2,
    ),
    ("Job", "pod/securityContext/sysctls", [{"name": "a", "value": "1"}] * 2),
    (
        "Job",
        "pod",
        {"hostIPC": True, "securityContext": {"sysctls": [{"name": "kernel.sem", "value": "1"}]}},
    ),
    ("Job", "pod", {"hostUsers": False, "hostNetwork": True}),
    ("Job", "pod/securityContext/seccompProfile", {"type": ""}),
    ("Job", "pod/securityContext/appArmorProfile", {"type": "Localhost", "localhostProfile": " a"}),
    *(
        ("Job", "spec/template/metadata/annotations", {key: value})
        for key, value in (
            ("kubernetes.io/config.mirror", "a"),
            ("seccomp.security.alpha.kubernetes.io/pod", "a"),
            ("container.seccomp.security.alpha.kubernetes.io/main", "localhost//a"),
            ("container.apparmor.security.beta.kubernetes.io/main", "a"),
            ("controller.kubernetes.io/pod-deletion-cost", "01"),
        )
    ),
    (
        "Job",
        "pod/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
        [{"weight": 0, "podAffinityTerm": {"topologyKey": "a b"}}],
    ),
    (
        "Job",
        "pod/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        [{"matchFields": [{"key": "a", "operator": "In", "values": ["a", "b"]}, {"key": "a"}]}],
    ),
    (
        "Job",
        "pod",
        {
            "resources": {"requests": {"cpu": 2}, "limits": {"hugepages-2Mi": "2Mi"}},
            "initContainers": [
                {"name": n, "image": "a", "restartPolicy": p, "resources": {"requests": {"cpu": 1}}}
                for n, p in (("a", "Always"), ("b", None))
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "a",
                    "resources": {
                        "requests": {"cpu": 2, "hugepages-2Mi": "4Mi"},
                        "limits": {"cpu": 2, "hugepages-2Mi": "4Mi"},
                    },
                }
            ],
        },
    ),
    # containers
    ("Job", "main/name", ""),
    ("Job", "main/image", ""),
    ("Job", "main/ports", [{"containerPort": 0}]),
    ("Job", "main/ports", [{"containerPort": p, "hostPort": 80} for p in (1, 2)]),
    ("Job", "main/resizePolicy", [{"resourceName": "", "restartPolicy": ""}] * 2),
    ("Job", "main/env", [{"name": ""}]),
    ("Job", "main/env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "", "key": ""}}}]),
    ("Job", "main/readinessProbe", {"tcpSocket": {}}),
    ("Job", "main/resources", {"limits": {"memory": 1, "hugepages-x": 1, "hugepages-2Mi": 0.5}}),
    (
        "Job",
        "main/env",
        [{"name": "A", "value": "a", "valueFrom": {"secretKeyRef": {"name": "a", "key": ".."}}}],
    ),
    ("Job", "main/env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]),
    ("Job", "main/env", [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": ""}}}]),
    (
        "Job",
        "main/env",
        [
            {
                "name": "A",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1e3"}},
            }
        ],
    ),
    ("Job", "main/envFrom", [{"configMapRef": {"name": ""}, "secretRef": {"name": "a"}}]),
    ("Job", "main/livenessProbe", {"grpc": {"port": 0}}),
    ("Job", "main/livenessProbe", {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 0}),
    (
        "Job",
        "main/livenessProbe",
        {"httpGet": {"port": "a_b", "httpHeaders": [{"name": "a b", "value": ""}]}},
    ),
    ("Job", "main/resources/claims", [{"name": ""}, {"name": "a", "request": "A"}]),
    (
        "Job",
        "pod",
        {
            "resourceClaims": [{"name": "a", "resourceClaimName": "a"}],
            "containers": [
                {"name": "main", "image": "a", "resources": {"claims": [{"name": "a"}] * 2}}
            ],
        },
    ),
    ("Job", "main/volumeMounts", [{"name": "", "mountPath": ""}]),
    (
        "Job",
        "pod",
        {
            "volumes": [{"name": "a"}],
            "containers": [
                {
                    "name": "main",
                    "image": "a",
                    "volumeMounts": [
                        {
                            "name": "a",
                            "mountPath": "/a",
                            "recursiveReadOnly": "Enabled",
                            "mountPropagation": "HostToContainer",
                        }
                    ]
                    * 2,
                    "volumeDevices": [{"name": "a", "devicePath": "/a"}] * 2,
                }
            ],
        },
    ),
    ("Job", "pod/volumes", [{"name": "a"}, {"name": "a"}]),
    # volumes
    *(
        ("Job", "volume", {"name": "a", **volume})
        for volume in (
            {"name": ""},
            {"nfs": {"server": "a", "path": "b"}},
            {"secret": {"secretName": "a", "items": [{"key": "", "path": ""}]}},
            {
                "projected": {
                    "sources": [{"secret": {"name": "a", "items": [{"key": "a", "path": ".."}]}}]
                }
            },
            {"awsElasticBlockStore": {"volumeID": "a", "partition": 256}},
            {"azureDisk": {"diskName": "a", "diskURI": "b", "kind": "x", "cachingMode": ""}},
            {"cinder": {"volumeID": "a", "secretRef": {}}},
            {"csi": {"driver": "a_b", "nodePublishSecretRef": {"name": "A"}}},
            {"configMap": {"name": ""}},
            {"emptyDir": {"sizeLimit": -1}},
            {"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "a"}, "spec": CLAIM}}},
            {"fc": {"targetWWNs": ["a"]}},
            {"fc": {}},
            {"flexVolume": {"driver": "a", "options": {"a.k8s.io/b": "c"}}},
            {"flocker": {}},
            {"flocker": {"datasetName": "a/b"}},
            {"gitRepo": {"repository": "a", "directory": "/a"}},
            {"iscsi": {"targetPortal": "a", "iqn": "b", "lun": 256, "chapAuthSession": True}},
            {"iscsi": {"targetPortal": "a", "iqn": "iqn.a", "lun": 1}},
            {"quobyte": {"registry": "a", "volume": "b"}},
            {"quobyte": {"registry": "a:1", "volume": "b", "tenant": "x" * 65}},
            {"storageos": {"volumeName": "A", "secretRef": {}}},
            {"downwardAPI": {"items": [{"path": "", "mode": 512}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "..a", "resourceFieldRef": {"resource": "limits.cpu"}}]
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "a",
                            "fieldRef": {"fieldPath": "metadata.name"},
                            "resourceFieldRef": {"resource": "limits.cpu", "containerName": "a"},
                        }
                    ]
                }
            },
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": ""}},
                        {"configMap": {"name": "a"}, "secret": {"name": "a"}},
                    ]
                }
            },
            {"projected": {"sources": [{"serviceAccountToken": {"path": ""}}]}},
            {
                "projected": {
                    "sources": [
                        {
                            "downwardAPI": {
                                "items": [{"path": "/a", "fieldRef": {"fieldPath": "metadata.uid"}}]
                            }
                        }
                    ]
                }
            },
        )
    ),
]
"""A kind, the path of a value, and the value. It extends an existing mapping."""


def rejected():
    """Yield each object, and its title."""
    for kind, short, value in REJECTED:
        version, content = OBJECTS[kind]
        first, _, rest = short.partition("/")
        steps = f"{SHORT.get(first, first)}/{rest}".strip("/").split("/")
        item = deepcopy({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **content})
        holder = item
        for step, following in pairwise(steps):
            holder = _inner(holder, step, [] if following.isdecimal() else {})
        last = steps[-1]
        found = _inner(holder, last, value)
        if isinstance(found, dict) and isinstance(value, dict) and found is not value:
            found.update(value)
        elif found is not value:
            holder[int(last) if isinstance(holder, list) else last] = value
        yield f"{kind} {short}: {str(value)[:60]}", item


def _inner(holder, step, default):
    """Return the value of a key or index. If it is missing, add the default."""
    if isinstance(holder, list):
        if int(step) == len(holder):
            holder.append(default)
        return holder[int(step)]
    return holder.setdefault(step, default)
