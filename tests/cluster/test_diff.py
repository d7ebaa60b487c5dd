"""What `mlgen diff` reports for each change, compared with the answer of a real API server."""

import copy
import json
import re

import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURES

from mlgen.cli import main

pytestmark = pytest.mark.cluster

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
    ("Job plain", {f"{MAIN}.resources": {"requests": {"cpu": "1m"}}}, "spec.template"),
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
    ("Service address", "spec.clusterIP"): "spec.clusterIPs[0]",
    ("Service headless", "spec.clusterIP"): "spec.clusterIPs[0]",
    ("Service headless", "spec.type"): "spec.clusterIPs[0]",
    ("PersistentVolumeClaim claim", "spec.resources.requests"): "spec",
    ("StatefulSet set", "spec.updateStrategy.type"): "spec.updateStrategy.rollingUpdate",
}
"""Where the API server names another field: one that it has defaulted, or the whole spec."""

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


@pytest.fixture(scope="module")
def there(shared_namespace):
    """A namespace with all of OBJECTS, and a Job that was suspended after it had started."""
    stdin = yaml.safe_dump_all([*OBJECTS, job("started")])
    shared_namespace.kubectl("apply", "-f", "-", stdin=stdin)
    status = "jsonpath={.status.startTime}"
    shared_namespace.until(
        "the Job started", lambda: shared_namespace.kubectl("get", "job", "started", "-o", status)
    )
    shared_namespace.kubectl("patch", "job", "started", "-p", '{"spec":{"suspend":true}}')
    return shared_namespace


@pytest.fixture(scope="module")
def saved(there, tmp_path_factory):
    """Folder with the output of `kubectl get -o yaml` for each of OBJECTS."""
    folder = tmp_path_factory.mktemp("saved")
    stdin = yaml.safe_dump_all(OBJECTS)
    live = yaml.safe_load(there.kubectl("get", "-f", "-", "-o", "yaml", stdin=stdin))
    for item in live["items"]:
        name = f"{item['kind']} {item['metadata']['name']}.yaml"
        (folder / name).write_text(yaml.safe_dump(item))
    return folder


@pytest.fixture(scope="module")
def refused(there, tmp_path_factory):
    """Function that returns the fields for which the API server rejects a change.

    One kubectl checks all changes, each in a file of its own, as an error names the file.
    """
    folder = tmp_path_factory.mktemp("asked")
    cases = [*ACCEPTED, *REJECTED, *UNSURE, *(("Job waiting", edits) for edits in SCHEDULING)]
    fields_by_file = {}
    for number, (name, edits, *_) in enumerate(cases):
        file = folder / f"{number:03}.json"
        file.write_text(json.dumps(edited(named(name), edits)))
        fields_by_file[str(file)] = []
    accepted, errors = there.stdout_and_stderr("apply", "--dry-run=server", "-f", str(folder))
    for error in errors.split("Error from server")[1:]:
        (file,) = set(re.findall(r'for: "(.*?)"', error))
        fields_by_file[file] = re.findall(r"(?:invalid: \[?|, )([\w.\[\]]+): (?:Inv|Forb)", error)
        assert fields_by_file[file], error
    assert list(fields_by_file.values()).count([]) == len(accepted.splitlines())
    fields_by_case = {
        repr(case[:2]): fields for case, fields in zip(cases, fields_by_file.values(), strict=True)
    }
    return lambda name, edits: fields_by_case[repr((name, edits))]


@pytest.fixture(scope="module")
def changed(there):
    """Function that returns an object as the API server would store it after a change."""
    items = [edited(named(name), edits) for name, edits in NO_CHANGE]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    printed = there.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=stdin)
    objects_by_case = dict(zip(map(repr, NO_CHANGE), json.loads(printed)["items"], strict=True))
    return lambda name, edits: objects_by_case[repr((name, edits))]


@pytest.fixture
def diff(tmp_path, monkeypatch, environment):
    """Run `mlgen diff`; return the exit status and the first line of what it prints."""
    for name in ("PATH", "KUBECONFIG"):
        monkeypatch.setenv(name, environment[name])

    def diff(*words):
        written = []
        for number, word in enumerate(words):
            written.append(str(word))
            if isinstance(word, dict):
                (tmp_path / f"{number}.yaml").write_text(json.dumps(word))
                written[-1] = str(tmp_path / f"{number}.yaml")
        result = CliRunner().invoke(main, ["diff", *written])
        assert result.exit_code in (0, 3), result.output
        return result.exit_code, result.stdout.partition("\n")[0]

    return diff


def case_id(value):
    if isinstance(value, tuple):
        return f"{value[0]} {' '.join(value[1])}"
    return value if isinstance(value, str) else " ".join(value)


@pytest.mark.parametrize(("name", "edits"), ACCEPTED, ids=case_id)
def test_a_change_reported_as_accepted_is_accepted(name, edits, refused, saved, diff):
    new = edited(named(name), edits)

    assert [] == refused(name, edits)
    for old in (named(name), saved / f"{name}.yaml"):
        status, head = diff(old, new)
        assert (3, True) == (status, head.startswith(f"{name}: changed")), head


@pytest.mark.parametrize("case", REJECTED, ids=case_id)
def test_a_change_reported_as_rejected_is_rejected_for_the_same_field(case, refused, saved, diff):
    name, edits, field = case
    new = edited(named(name), edits)

    expected = {field, field.rpartition(".")[0], FIELDS_OF_ERRORS.get((name, field))}
    assert expected & set(refused(name, edits))
    for old in (named(name), saved / f"{name}.yaml"):
        status, head = diff(old, new)
        assert (3, True) == (
            status,
            head.startswith(f"{name}: will be rejected by the API server: {field} "),
        )


@pytest.mark.parametrize(("name", "edits"), NO_CHANGE, ids=case_id)
def test_an_edit_reported_as_no_change_changes_nothing(name, edits, changed, saved, diff):
    before = yaml.safe_load((saved / f"{name}.yaml").read_text())
    after = changed(name, edits)

    for item in (before, after):
        for volatile in ("annotations", "generation", "managedFields", "namespace"):
            item["metadata"].pop(volatile, None)
        item.pop("status", None)
    assert before == after
    for old in (named(name), saved / f"{name}.yaml"):
        assert (0, "") == diff(old, edited(named(name), edits))


@pytest.mark.parametrize("edits", SCHEDULING, ids=case_id)
def test_scheduling_fields_may_change_until_a_suspended_job_starts(
    edits, there, refused, saved, diff
):
    waiting = edited(named("Job waiting"), edits)
    started = edited(job("started", suspend=True), edits)

    errors = there.stdout_and_stderr(
        "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(started)
    )[1]

    assert [] == refused("Job waiting", edits)
    assert "spec.template: Invalid value" in errors
    assert (3, "Job waiting: changed") == diff(saved / "Job waiting.yaml", waiting)
    unsure = "Job waiting: may be rejected by the API server: spec.template is immutable, unless "
    assert diff(named("Job waiting"), waiting)[1].startswith(unsure)
    space = f"{there.name}/"
    _, head = diff("--live", "-n", there.name, started)
    assert (
        f"Job {space}started: will be rejected by the API server: spec.template is immutable"
        == head
    )


@pytest.mark.parametrize("case", UNSURE, ids=case_id)
def test_a_change_that_depends_on_the_cluster_is_reported_as_uncertain(case, refused, saved, diff):
    """With the output of `kubectl get`, or with --live, the answer may be certain."""
    name, edits, known = case
    new = edited(named(name), edits)

    assert diff(named(name), new)[1].startswith(f"{name}: may be rejected by the API server: ")
    assert known == "may be rejected by the API server: " or (known == "changed") != bool(
        refused(name, edits)
    )
    assert diff(saved / f"{name}.yaml", new)[1].startswith(f"{name}: {known}")


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client", "server"])
def test_live_comparison_predicts_what_kubectl_apply_does(way, namespace, diff):
    old = [job("a", suspend=True), apps("StatefulSet", "b", serviceName="b"), service("c")]
    namespace.kubectl("apply", *way, "-f", "-", stdin=yaml.safe_dump_all(old))
    live = ("--live", "-n", namespace.name)

    assert [(0, "")] * 3 == [diff(*live, item) for item in old]

    new = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            edited(old[0], {f"{MAIN}.image": "busybox:1.37"}),
            edited(old[1], {"spec.replicas": 0, "spec.minReadySeconds": 7}),
            edited(old[2], {"spec.ports": [{"name": "http", "port": 81}]}),
            build("v1", "ConfigMap", "d"),
        ],
    }
    status, head = diff(*live, new)
    assert (3, True) == (
        status,
        head.startswith(f"Job {namespace.name}/a: will be rejected by the API server"),
    )

    errors = namespace.stdout_and_stderr("apply", *way, "-f", "-", stdin=yaml.safe_dump(new))[1]

    assert "spec.template: Invalid value" in errors
    assert 7 == namespace.get("statefulset", "b")["spec"]["minReadySeconds"]
    assert 81 == namespace.get("service", "c")["spec"]["ports"][0]["port"]
    assert [(0, "")] * 3 == [diff(*live, item) for item in new["items"][1:]]


def test_no_change_is_reported_for_a_fixture_that_is_applied(there, diff):
    """Covers the API server's defaults for every field that mlgen renders."""
    rendered = {}
    for path in FIXTURES:
        result = CliRunner().invoke(main, ["render", str(path), "-n", there.name])
        objects = [o for o in yaml.safe_load_all(result.stdout) if o["kind"] != "PodGroup"]
        rendered[path.stem] = objects
    items = [item for objects in rendered.values() for item in objects]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    words = ("apply", "--dry-run=server", "-o", "json", "-f", "-")
    applied = json.loads(there.kubectl(*words, stdin=stdin))["items"]

    for name, objects in rendered.items():
        stored, applied = applied[: len(objects)], applied[len(objects) :]
        old, new = ({"apiVersion": "v1", "kind": "List", "items": i} for i in (stored, objects))
        assert (0, "") == diff(old, new), name
    assert [] == applied
