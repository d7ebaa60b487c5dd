"""Random changes of objects, and the verdicts of mlgen and an API server on the results."""

import base64
import http.client
import json
import ssl
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from support import rendered_once

from mlgen import Options, pipeline
from mlgen.checks import invalid_names
from mlgen.documents.files import Text
from mlgen.kubernetes import schema, validation, versions
from mlgen.kubernetes.objects import without_nulls
from mlgen.problems import MlgenError, dotted

PLURALS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Job": ("/apis/batch/v1", "jobs"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "Service": ("/api/v1", "services"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
}
"""API paths of the kinds that exist in every cluster."""


class Server:
    """An API server. Dry-run requests show whether it would create an object."""

    def __init__(self, kubeconfig, namespace):
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address, self.namespace = urlsplit(cluster["server"]), namespace
        self.context = ssl.create_default_context(cafile=_file(cluster, "certificate-authority"))
        self.headers = {"Content-Type": "application/json"}
        if "token" in user:
            self.headers["Authorization"] = f"Bearer {user['token']}"
        if "client-certificate" in user or "client-certificate-data" in user:
            files = (_file(user, "client-certificate"), _file(user, "client-key"))
            self.context.load_cert_chain(*files)
        self.connections = threading.local()

    def ask(self, method, path, body=None):
        """Return the status, the content and the warnings of a response."""
        connection = getattr(self.connections, "open", None)
        if connection is None:
            host, port = self.address.hostname, self.address.port
            connection = http.client.HTTPSConnection(host, port, context=self.context, timeout=60)
            self.connections.open = connection
        try:
            connection.request(method, path, body, self.headers)
            response = connection.getresponse()
            content = json.loads(response.read() or b"{}")
            return response.status, content, response.headers.get_all("Warning") or []
        except http.client.RemoteDisconnected:
            # Kubernetes 1.34.4 panics in validateSuccessPolicyRule if completions is missing.
            self.connections.open = None
            return 500, {"message": "the API server has closed the connection"}, []

    def create(self, item):
        """Send a dry-run request to create an object.

        Returns:
            The reason for a rejection or ""; the object as it would be stored; warnings.
        """
        version, kind = item["apiVersion"], item["kind"]
        prefix, plural = PLURALS.get(kind) or (f"/apis/{version}", f"{kind.lower()}s")
        path = f"{prefix}/namespaces/{self.namespace}/{plural}?dryRun=All&fieldValidation=Strict"
        status, answer, warnings = self.ask("POST", path, json.dumps(item))
        assert status in (201, 400, 413, 422, 500), (status, answer, item)
        return "" if status == 201 else answer["message"], answer, warnings

    def refusal(self, item):
        """Return the reason why the API server rejects an object; "" if it accepts it."""
        return self.create(item)[0]

    def refusals(self, items, threads=4):
        """Return the refusal of each object."""
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.refusal, items))


def _file(section, name):
    """Return the path of a certificate. If the kubeconfig contains it, write it to a file."""
    if name in section:
        return section[name]
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(base64.b64decode(section[f"{name}-data"]))
    return file.name


def without_dropped(item):
    """Return an object without the fields that Kubernetes 1.34 silently drops."""
    changed = deepcopy(item)
    pod = changed["spec"]["template"]["spec"] if "template" in changed.get("spec", {}) else {}
    pod["volumes"] = [
        volume for volume in pod.get("volumes") or [] if "image" not in (volume or {})
    ]
    for volume in filter(None, pod["volumes"]):
        projected = volume.get("projected") or {}
        for source in filter(None, projected.get("sources") or []):
            source.pop("clusterTrustBundle", None)
            source.pop("podCertificate", None)
    for field in ("containers", "initContainers"):
        for container in filter(None, pod.get(field) or []):
            if field == "containers":
                container.pop("restartPolicy", None)
            if container.get("lifecycle"):
                container["lifecycle"].pop("stopSignal", None)
                container["lifecycle"] = container["lifecycle"] or None
            names = {volume["name"] for volume in pod["volumes"] if volume and "name" in volume}
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [m for m in mounts if (m or {}).get("name") in names]
    return changed


def rejected_values(item, version):
    """Yield mlgen's problems with an object.

    Values are checked only if the structure is valid, because wrong types count as omitted.
    """
    kind = str(item.get("kind"))
    wrong = list(schema.broken_structure(kind, item, version)) if schema.has_kind(kind) else []
    yield from wrong or validation.broken_rules(without_nulls(item), version)


def refusal(item, version):
    """Return the reason why mlgen rejects an object; "" if it accepts it."""
    found = [f"{dotted(p.path)}: {p.message} [{p.code}]" for p in rejected_values(item, version)]
    if found:
        return "; ".join(found)
    named = next(invalid_names([without_nulls(item)], version), None)
    return str(named.problem) if named else ""


def objects(files):
    """Return the objects in the goldens of fixtures, except the largest."""
    for file in files:
        for item in yaml.safe_load_all(rendered_once(file)):
            if item and standard(item) and len(json.dumps(item)) < 20_000:
                yield standard(item)


def standard(item):
    """Return an object without its namespace; None if its kind does not exist in every cluster."""
    return unplaced(item) if item["kind"] in PLURALS else None


def unplaced(item):
    """Return an object without its namespace."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "namespace"}
    return {**item, "metadata": metadata}


def jobs(name, text, version):
    """Return the rendered jobs of a text; None if mlgen rejects it."""
    try:
        return pipeline.render([Text(name, text)], Options(kube_version=version)).jobs
    except MlgenError:
        return None


def rendered(name, text, version):
    """Return the objects of the jobs in a text; None if mlgen rejects it."""
    found = jobs(name, text, version)
    return found and [unplaced(item) for job in found for item in job.objects]


WORDS = {
    "action": ["Ignore", "Count", "FailJob", "FailIndex", "Restart"],
    "apiGroup": ["", "rbac.authorization.k8s.io", "apps"],
    "claimName": ["data", "Data", "", "a.b"],
    "clusterIP": ["", "None"],
    "clusterIPs": ["None"],
    "completionMode": ["Indexed", "NonIndexed", "indexed"],
    "conditionType": ["DisruptionTarget", "a b"],
    "devicePath": ["/dev/a", "../a", ""],
    "dnsPolicy": ["None", "Default", "ClusterFirst", "ClusterFirstWithHostNet", "x"],
    "effect": ["NoSchedule", "NoExecute", "PreferNoSchedule", "", "NoWay"],
    "externalName": ["example.com", "a_b", ""],
    "fieldPath": [
        *("metadata.name", "metadata.labels['a']", "metadata.labels", "spec.nodeName"),
        *("status.podIP", "status.phase", "spec.host", "metadata.annotations['A b']", "x['y']"),
    ],
    "hostIP": ["10.0.0.1", ""],
    "hostnames": ["a.b", "a_b", "A"],
    "image": ["busybox", "a b", "", "Example/Mnist:1", "https://a/b", "${A}", "a:b:c"],
    "imagePullPolicy": ["Always", "Never", "IfNotPresent", "", "Sometimes"],
    "ip": ["10.0.0.1", "::1", "010.0.0.1", "1.2.3", "300.1.1.1", ""],
    "ipFamilies": ["IPv4", "IPv5"],
    "ipFamilyPolicy": ["SingleStack", "x"],
    "key": ["a", "a.b/c", "a b", "", "A/b/c", "kubernetes.io/hostname", "metadata.name"],
    "kind": ["Role", "ServiceAccount", "User", "x", ""],
    "localhostProfile": ["a", "../a", "/a", "", " a"],
    "managedBy": ["example.com/a", "a", "example.com/", "kubernetes.io/job-controller"],
    "medium": ["", "Memory", "x", "HugePages", "HugePages-2Mi"],
    "mountPath": ["/a", "a", "/a:b", "", "/data"],
    "mountPropagation": ["None", "Bidirectional", "HostToContainer", "x", ""],
    "name": [
        *("a", "main", "data", "A", "a_b", "a.b", "", "x" * 63, "x" * 64, "-a", "metadata.name"),
        *("x" * 16, "a--b", "1", "ü", "a b", "A=B", "tensorflow"),
    ],
    "nameservers": ["10.0.0.1", "a"],
    "operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "", "in"],
    "path": ["/a", "a", "../a", "", "..a", "a/../b", "..", "a..b"],
    "podManagementPolicy": ["Parallel", "OrderedReady", "", "x"],
    "podReplacementPolicy": ["Failed", "TerminatingOrFailed", "x", ""],
    "policy": ["a", ""],
    "prefix": ["A_", "=", "1", ""],
    "procMount": ["Default", "Unmasked", "x"],
    "propagation": ["x"],
    "protocol": ["TCP", "UDP", "SCTP", "", "tcp", "HTTP"],
    "recursiveReadOnly": ["Disabled", "Enabled", "IfPossible", "x", ""],
    "resource": [
        "limits.cpu",
        "requests.memory",
        "limits.nvidia.com/gpu",
        "requests.hugepages-2Mi",
    ],
    "resourceName": ["cpu", "memory", "x", ""],
    "restartPolicy": [
        *("Always", "Never", "OnFailure", "", "x"),
        *("NotRequired", "RestartContainer"),
    ],
    "scheme": ["HTTP", "HTTPS", "http", ""],
    "searches": ["a.b", "_a", ".", "A", "a."],
    "sessionAffinity": ["None", "ClientIP", "x", ""],
    "signerName": ["example.com/a", "a", ""],
    "status": ["True", "False", "Unknown", "", "true"],
    "storageClassName": ["a", "A", ""],
    "subPath": ["a", "../a", "/a", "a/../b", ""],
    "subPathExpr": ["$(A)", "../a", "/a", ""],
    "subdomain": ["a", "a.b", "A", ""],
    "succeededIndexes": ["0", "0-1", "1,0", "9", "a", "", "-1", "0-0", "+1", "0,0"],
    "terminationMessagePolicy": ["File", "FallbackToLogsOnError", "", "x"],
    "topologyKey": ["kubernetes.io/hostname", "zone", "a b", ""],
    "trafficDistribution": ["PreferClose", "x", "PreferSameZone"],
    "type": [
        *("RuntimeDefault", "Localhost", "Unconfined", "ClusterIP", "NodePort", "ExternalName", ""),
        *("RollingUpdate", "OnDelete", "Recreate", "DisruptionTarget", "Directory", "x", "a b"),
    ],
    "value": ["a", "", "a b", "x" * 64],
    "values": ["a", "", "a b", "x" * 64, "1"],
    "volumeMode": ["Block", "Filesystem", "x"],
    "whenDeleted": ["Retain", "Delete", "x"],
    "whenScaled": ["Retain", "Delete", "x", ""],
    "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway", "", "x"],
}
"""Values of some fields. All others are built from `TEXTS`."""

TEXTS = [
    *("a", "main", "data", "", "A", "a_b", "a.b", "-a", "a/b", "../a", "/a", " a", "a b", "ü"),
    *("x" * 64, "x" * 254, "1", "true", "a\nb", "example.com/a", "Always", "None"),
]
INTEGERS = [0, 1, 2, 3, 10, 511, 512, -1, 65535, 65536, 100, 101, 100_001, 2**31 - 1, 2**31]
QUANTITIES = [
    *(0, 1, 2, "1", "500m", "1Gi", "0.5", "-1", "1.5", "1n", 0.5, "2Mi", "4Mi", "3Mi", "64Gi"),
    *("1e3", "", "a", "1 Gi", "8GB", "+1", ".5", "5."),
]
RESOURCES = [
    *("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "gpu", "hugepages-2Mi", "storage"),
    *("a b/c", "requests.cpu", "requests.nvidia.com/gpu", "kubernetes.io/batch", "pods", "a/b/c"),
    *("hugepages-", "hugepages-3", "Memory", "rdma/hca", "x" * 60 + "/y", "a/" + "y" * 64),
]
KEYS = [
    *("a", "a.b/c", "a b", "", "A/b", "/a", "a/", "x" * 64, "kubernetes.io/hostname", "a/b/c"),
    *("controller.kubernetes.io/pod-deletion-cost", "job-name", "..a", "a_b", "ü"),
]
ODD = [None, {}, [], [None], "", "a", 0, -1, True, 1.5, {"a": 1}, [[]], ["x"], "1", 2**40]
UNTOUCHED = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "namespace")}
SERVERS = {
    *("managedFields", "namespace", "resourceVersion", "uid", "generateName", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "status", "nodePort"),
    *(
        "apiVersion",
        "loadBalancerIP",
        "dataSource",
        "dataSourceRef",
        "windowsOptions",
        "externalIPs",
    ),
}
"""Fields that the server sets, that depend on the cluster, or that are for Windows."""


FIELDS = {
    "affinity": "Affinity",
    "env": "",
    "image": "string",
    "imagePullPolicy": "string",
    "nodeSelector": "{string}",
    "resources": "ResourceRequirements",
    "serviceAccountName": "string",
    "template": "",
    "tolerations": "[Toleration]",
    "volumes": "",
}
"""The fields of a role that become fields of pods, with their types in Kubernetes."""

SHORT_VOLUMES = [
    {"pvc": "data"},
    {"pvc": "Data"},
    {"nfs": {"server": "a", "path": "/"}},
    {"configMap": "a_b"},
    {"secret": "a"},
    {"emptyDir": {"sizeLimit": "-1"}},
    {"emptyDir": {"medium": "Memory"}},
    {"hostPath": "/a/../b"},
    {"files": {"a.py": "1"}},
    {"files": {"..": "1"}},
]


@dataclass(frozen=True)
class Spot:
    """A value in an object: its parent, its key there, its type and its path."""

    holder: object
    key: object
    kind: str
    path: tuple
    mapping: bool


def spots(kind, value, version, path=()):
    """Yield every value within a value, with its type from the API's schema."""
    if kind[0] == "[" and isinstance(value, list):
        pairs = [(index, kind[1:-1]) for index in range(len(value))]
    elif kind[0] == "{" and isinstance(value, dict):
        pairs = [(key, kind[1:-1]) for key in value]
    elif versions.is_definition(kind) and isinstance(value, dict):
        fields = versions.definition(kind, version).fields
        pairs = [(key, fields.get(key, "any")) for key in value]
    else:
        return
    for key, inner in pairs:
        yield Spot(value, key, inner, (*path, key), kind[0] == "{")
        yield from spots(inner, value[key], version, (*path, key))


class Mutator:
    """Changes objects. The same random numbers lead to the same changes."""

    def __init__(self, random, version):
        self.random, self.version = random, version

    def definition(self, kind):
        return versions.definition(kind, self.version)

    def mutant(self, item):
        """Return a copy of an object with one or a few changes."""
        changed = deepcopy(item)
        for _ in range(self.random.choice((1, 1, 1, 1, 2, 3))):
            self.change(changed)
        return changed

    def change(self, item):
        found = [
            spot for spot in spots(item["kind"], item, self.version) if spot.path not in UNTOUCHED
        ]
        found = [spot for spot in found if spot.path[-1] not in SERVERS]
        if self.random.random() < 0.4 or not found:
            # A field of an object is added more often than it is changed.
            self.add(item, found)
            return
        spot = self.random.choice(found)
        ways = [self.remove, self.odd, self.rename, self.make, self.make, self.make]
        if isinstance(spot.holder, list):
            ways += [self.duplicate] * 3
        self.random.choice(ways)(spot)

    def add(self, item, found):
        """Add a field to a random object or mapping."""
        holders = [(item["kind"], item)]
        for spot in found:
            value = spot.holder[spot.key]
            if (
                isinstance(value, dict) and (versions.is_definition(spot.kind) or "{" in spot.kind)
            ) or (isinstance(value, list) and spot.kind[0] == "["):
                holders.append((spot.kind, value))
        kind, holder = self.random.choice(holders)
        if isinstance(holder, list):
            holder.append(self.value(kind[1:-1], "items"))
        elif kind[0] == "{":
            key = self.random.choice(RESOURCES if "quantity" in kind else KEYS)
            holder[key] = self.value(kind[1:-1], "value")
        else:
            fields = self.definition(kind).fields
            absent = [name for name in fields if name not in holder and name not in SERVERS]
            if absent:
                name = self.random.choice(absent)
                holder[name] = self.value(fields[name], name)

    def remove(self, spot):
        del spot.holder[spot.key]

    def odd(self, spot):
        # The server reads null as "" in a mapping of strings, and as 0 in a mapping of amounts.
        odd = ODD[1:] if spot.mapping else ODD
        spot.holder[spot.key] = deepcopy(self.random.choice(odd))

    def rename(self, spot):
        if isinstance(spot.holder, dict):
            value = spot.holder.pop(spot.key)
            letters = list(spot.key)
            if letters:
                del letters[self.random.randrange(len(letters))]
            spot.holder["".join(letters)] = value

    def duplicate(self, spot):
        spot.holder.append(deepcopy(spot.holder[spot.key]))

    def make(self, spot):
        name = next((step for step in reversed(spot.path) if isinstance(step, str)), "")
        spot.holder[spot.key] = self.value(spot.kind, name)

    def job_file(self, document):
        """Return a copy of a job file with one changed field of a role or of all roles."""
        changed = deepcopy(document)
        spec = changed["spec"]
        role = self.random.choice([spec, *(role for role in spec["roles"].values() if role)])
        field = self.random.choice([*FIELDS])
        if field == "template":
            template = role.setdefault("template", {})
            if isinstance(template, dict):
                self.patch(template.setdefault("spec", {}))
        elif field == "env":
            values = role.setdefault("env", {})
            source = {"valueFrom": self.value("EnvVarSource", "valueFrom")}
            values[self.random.choice([*KEYS, "A", "B"])] = self.random.choice([source, "a", ""])
        elif field == "volumes":
            short = dict(self.random.choice(SHORT_VOLUMES))
            short["mountPath"] = self.random.choice(["/a", "/a:b", "/data", "a"])
            if self.random.random() < 0.4:
                short["subPath"] = self.value("string", "subPath")
            role.setdefault("volumes", {})[self.random.choice(["data", "a", "Data"])] = short
        else:
            role[field] = self.value(FIELDS[field], field)
        return changed

    def patch(self, spec):
        """Change the patch of a pod's spec, or of one of its containers."""
        fields = self.definition("PodSpec").fields
        if self.random.random() < 0.5:
            name = self.random.choice([name for name in fields if name not in SERVERS])
            spec[name] = self.value(fields[name], name)
            return
        containers = spec.setdefault(self.random.choice(["containers", "initContainers"]), [])
        if not containers:
            containers.append({"name": self.random.choice(["main", "side"]), "image": "busybox"})
        holder = self.random.choice(containers)
        fields = self.definition("Container").fields
        name = self.random.choice([name for name in fields if name not in SERVERS])
        holder[name] = self.value(fields[name], name)

    def value(self, kind, name, depth=0):
        """Return a value for a field of this type and name."""
        chance = self.random
        if kind[0] == "[":
            return [self.value(kind[1:-1], name, depth) for _ in range(chance.choice((0, 1, 1, 2)))]
        if kind[0] == "{":
            keys = RESOURCES if "quantity" in kind else KEYS
            count = chance.choice((0, 1, 1, 2))
            return {chance.choice(keys): self.value(kind[1:-1], "value") for _ in range(count)}
        if versions.is_definition(kind):
            definition = self.definition(kind)
            names = [n for n in definition.fields if n not in SERVERS]
            share = 0.5 if depth < 2 else 0.2
            chosen = [n for n in names if n in definition.required or chance.random() < share]
            if len(names) > 12:  # only a few fields of unions and large objects
                few = chance.sample(names, chance.choice((1, 1, 2, 3)))
                chosen = [n for n in names if n in definition.required or n in few]
            return {n: self.value(definition.fields[n], n, depth + 1) for n in chosen}
        scalars = {
            "boolean": (True, False),
            "int32": INTEGERS,
            "int64": INTEGERS,
            "quantity": QUANTITIES,
            "int-or-string": [*INTEGERS, "http", "a b", "25%", "0%", "101%", ""],
            "string": WORDS.get(name, TEXTS),
            "bytes": ["YQ==", "a", ""],
            "time": ["2026-01-01T00:00:00Z", "a"],
        }
        return chance.choice(scalars.get(kind, ODD))
