"""The steps of `mlgen diff`: pairing, comparison, rejected changes, effects and the report."""

import pytest

from mlgen.diff.compare import (
    by_merge_key,
    changes,
    job_key,
    job_name,
    pair,
    select,
    three_way_fields,
)
from mlgen.diff.report import (
    change_lines,
    delete_job,
    delete_objects,
    effects,
    kind_argument,
    readers,
)
from mlgen.kubernetes.updates import Change, Update, rejected

JOB = {"mlgen.dev/job": "mnist"}


def manifest(kind, name, version="v1", namespace=None, labels=None, **content):
    optional = {"namespace": namespace, "labels": labels}
    metadata = {"name": name, **{key: value for key, value in optional.items() if value}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def update(old, new, kube_version=(1, 34)):
    return Update(old, old, new, tuple(changes(old, new)), kube_version)


def apps(kind, spec):
    return manifest(kind, "a", "apps/v1", spec=spec)


# Pairing


def test_objects_are_paired_by_kind_namespace_and_name():
    old = [
        manifest("ConfigMap", "a"),
        manifest("Secret", "a"),
        manifest("ConfigMap", "a", "v1", "x"),
    ]
    new = [
        manifest("ConfigMap", "a"),
        manifest("ConfigMap", "b"),
        manifest("ConfigMap", "a", "v1", "y"),
    ]

    pairing = pair(old, new)

    assert pairing.pairs == ((old[0], new[0]), (None, new[1]), (None, new[2]))
    assert pairing.removed == (old[1], old[2])


def test_an_object_from_a_cluster_is_paired_with_a_manifest_without_namespace():
    live = manifest("ConfigMap", "a", namespace="x")
    live["metadata"]["uid"] = "1"
    new = manifest("ConfigMap", "a")

    assert pair([live], [new]).pairs == ((live, new),)
    assert pair([live], [manifest("ConfigMap", "a", namespace="y")]).pairs[0][0] is None


def test_a_job_is_new_or_removed_if_all_of_its_objects_are():
    other = {"mlgen.dev/job": "cfd"}
    old = [manifest("Service", "a", labels=JOB), manifest("Job", "b", labels=other)]
    new = [manifest("Service", "a", labels=JOB), manifest("Job", "c", labels=JOB)]
    added = manifest("Job", "d", labels={"mlgen.dev/job": "gan"}, namespace="x")

    pairing = pair(old, [*new, added])

    assert pairing.new_jobs == {("x", "gan"): [added]}
    assert pairing.removed_jobs == {("", "cfd"): [old[1]]}


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (None, ""),
        (JOB, "mnist"),
        ({"app.kubernetes.io/managed-by": "mlgen", "app.kubernetes.io/instance": "a"}, "a"),
        ({"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "a"}, ""),
    ],
)
def test_the_job_of_an_object_is_in_its_labels(labels, name):
    item = manifest("ConfigMap", "a", namespace="x", labels=labels)

    assert name == job_name(item)
    assert ("x", name) == job_key(item)


# Commands


@pytest.mark.parametrize(
    ("objects", "command"),
    [
        ([], ""),
        ([manifest("Job", "a", "batch/v1")], "kubectl delete job a"),
        (
            [manifest("Job", "a", "batch/v1"), manifest("Job", "b", "batch/v1")],
            "kubectl delete job a b",
        ),
        (
            [
                manifest("Job", "a", "batch/v1"),
                manifest("Role", "b", "rbac.authorization.k8s.io/v1"),
            ],
            "kubectl delete job/a role/b",
        ),
        (
            [manifest("Job", "a", "batch/v1", "x"), manifest("Job", "b", "batch/v1")],
            "kubectl delete job a -n x && kubectl delete job b",
        ),
        ([manifest("Job", "$(touch ran)", "batch/v1")], "kubectl delete job '$(touch ran)'"),
        ([manifest("Job", "--all", "batch/v1", "x")], "kubectl delete -n x -- job --all"),
    ],
)
def test_objects_are_deleted_by_name_in_one_command_per_namespace(objects, command):
    assert command == delete_objects(objects)


def test_a_job_is_deleted_by_its_label():
    kinds = (("Service", "v1"), ("Job", "batch/v1"), ("Job", "batch/v1"))
    objects = [manifest(kind, "a", version, "x", JOB) for kind, version in kinds]

    assert "kubectl delete service,job -l mlgen.dev/job=mnist -n x" == delete_job(objects)


def test_a_custom_kind_is_qualified_by_its_group():
    assert "gang.example.org" == kind_argument(manifest("Gang", "a", "example.org/v1"))
    assert "job" == kind_argument(manifest("Job", "a", "batch/v1"))


# Comparison


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, []),
        ({"a": None}, {}, []),
        ({"a": []}, {}, []),
        ({"labels": {}}, {}, []),
        ({"a": 1}, {"a": 2}, [Change(("spec", "a"), 1, 2)]),
        ({"a": 1}, {}, [Change(("spec", "a"), 1, None)]),
        ({"a": 1}, {"a": True}, [Change(("spec", "a"), 1, new=True)]),
        ({"limits": {"cpu": 1}}, {"limits": {"cpu": "1000m"}}, []),
        (
            {"limits": {"cpu": 1}},
            {"limits": {"cpu": "1001m"}},
            [Change(("spec", "limits", "[cpu]"), 1, "1001m")],
        ),
        ({"a": [1, 2]}, {"a": [2, 1]}, [Change(("spec", "a"), [1, 2], [2, 1])]),
        (
            {"env": [{"name": "A"}, {"name": "B"}]},
            {"env": [{"name": "B"}, {"name": "A"}]},
            [Change(("spec", "env"), ["A", "B"], ["B", "A"], order=True)],
        ),
        (
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "B"}, {"name": "A", "value": "2"}]},
            [
                Change(("spec", "env", "[B]"), None, {"name": "B"}),
                Change(("spec", "env", "[A]", "value"), "1", "2"),
            ],
        ),
        ({"b": [{"c": 1}]}, {"b": [{"c": 2}]}, [Change(("spec", "b", "[0]", "c"), 1, 2)]),
    ],
)
def test_differences_of_a_custom_object(old, new, expected):
    objects = (manifest("Gang", "a", "example.org/v1", spec=spec) for spec in (old, new))

    assert expected == changes(*objects)


def test_a_default_is_marked_as_implied_and_status_is_not_compared():
    old = manifest("Job", "a", "batch/v1", spec={}, status={"active": 1})
    new = manifest("Job", "a", "batch/v1", spec={"suspend": True})

    assert [Change(("spec", "suspend"), old=False, new=True, implied="old")] == changes(old, new)
    assert [Change(("spec", "suspend"), old=True, new=False, implied="new")] == changes(new, old)


@pytest.mark.parametrize(
    ("items", "name", "keys"),
    [
        ([{"name": "a"}, {"name": "b"}], "env", ["a", "b"]),
        ([{"name": "a"}, {"name": "a"}], "env", None),
        ([{"name": "a"}, {}], "env", None),
        ([{"name": "a"}], "other", None),
        (["a"], "env", None),
        ([{"port": 80, "name": "http"}], "ports", [80]),
        ([{"containerPort": 80}], "ports", [80]),
    ],
)
def test_lists_with_a_merge_key(items, name, keys):
    by_key = by_merge_key(items, name)

    assert keys == (by_key if by_key is None else list(by_key))


def test_only_fields_of_the_manifest_are_selected():
    live = {"a": 1, "b": {"c": 2, "d": 3}, "env": [{"name": "A"}, {"name": "B", "value": ""}]}

    assert {"b": {"d": 3}, "env": [{"name": "B"}]} == select(
        live, {"b": {"d": 0, "e": 0}, "env": [{"name": "B"}]}
    )


@pytest.mark.parametrize("last_applied", ['{"data": {"b": "2"}}', "{}", "no JSON"])
def test_fields_that_were_applied_last_are_compared_too(last_applied):
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": last_applied}
    metadata = {"name": "a", "uid": "1", "annotations": annotation}
    live = {"kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "2", "c": "3"}}

    data = three_way_fields(live, {"kind": "ConfigMap", "metadata": {}, "data": {"a": "0"}})["data"]

    assert data == ({"a": "1", "b": "2"} if "data" in last_applied else {"a": "1"})


# Effects


def template(image):
    return {"spec": {"containers": [{"name": "main", "image": image}]}}


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("StatefulSet", {"replicas": 2}, {"replicas": 3}, ["adds 1 pod"]),
        ("StatefulSet", {"replicas": 3}, {}, ["removes 2 pods"]),
        (
            "StatefulSet",
            {"template": template("a")},
            {"template": template("b")},
            ["restarts 1 pod"],
        ),
        (
            "StatefulSet",
            {"replicas": 2, "template": template("a")},
            {"replicas": 2, "template": template("b")},
            ["restarts 2 pods, one at a time"],
        ),
        (
            "StatefulSet",
            {"template": template("a"), "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            {"template": template("b"), "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            ["no pod restarts"],
        ),
        (
            "StatefulSet",
            {
                "replicas": 2,
                "template": template("a"),
                "updateStrategy": {"rollingUpdate": {"partition": 1}},
            },
            {"replicas": 2, "template": template("b")},
            ["restarts 2 pods, one at a time"],
        ),
        (
            "Deployment",
            {"template": template("a")},
            {"template": template("b"), "strategy": {"type": "Recreate"}},
            ["stops 1 pod, then starts new ones"],
        ),
        (
            "Deployment",
            {"template": template("a")},
            {"template": template("b")},
            ["replaces 1 pod"],
        ),
        (
            "DaemonSet",
            {"template": template("a")},
            {"template": template("b")},
            ["restarts its pods on all nodes"],
        ),
        ("ReplicaSet", {"replicas": 1}, {"replicas": 2}, []),
    ],
)
def test_effects_on_the_pods_of_an_apps_workload(kind, old, new, expected):
    assert expected == effects(update(apps(kind, old), apps(kind, new)))


@pytest.mark.parametrize(
    ("old", "new", "status", "expected"),
    [
        ({"parallelism": 1}, {"parallelism": 3}, {}, ["adds 2 pods"]),
        ({"parallelism": 3}, {"parallelism": 3, "suspend": True}, {}, ["stops 3 pods"]),
        ({"parallelism": 3, "suspend": True}, {"parallelism": 2}, {}, ["starts 2 pods"]),
        ({"parallelism": 1, "suspend": True}, {"parallelism": 2, "suspend": True}, {}, []),
        (
            {"parallelism": 1},
            {"parallelism": 2},
            {"conditions": [{"type": "Failed", "status": "True"}]},
            ["the Job has finished, so no pods start"],
        ),
        (
            {"parallelism": 1},
            {"parallelism": 2},
            {"conditions": [{"type": "Suspended", "status": "True"}]},
            ["adds 1 pod"],
        ),
    ],
)
def test_effects_on_the_pods_of_a_job(old, new, status, expected):
    before = manifest("Job", "a", "batch/v1", spec=old, status=status)

    assert expected == effects(update(before, manifest("Job", "a", "batch/v1", spec=new)))


def test_workloads_in_the_same_namespace_read_a_changed_config_map():
    old, new = (manifest("ConfigMap", "a", data={"k": value}) for value in "12")
    volumes = [{"name": "v", "configMap": {"name": "a"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    pod = {"volumes": volumes, "containers": [{"name": "main", "volumeMounts": mounts}]}
    reader = apps("Deployment", {"template": {"spec": pod}})
    stranger = {**reader, "metadata": {"name": "b", "namespace": "x"}}

    assert readers(update(old, new), [reader, stranger]) == [
        "Deployment a sees the change in its mounted files within about a minute"
    ]
    assert [] == readers(
        update(old, {**old, "metadata": {"name": "a", "labels": {"b": "c"}}}), [reader]
    )


# Rejections


def test_rejections_name_field_and_reason_once_and_certain_ones_come_first():
    old, new = (
        apps("StatefulSet", {"serviceName": n, "selector": {"matchLabels": {"a": n}}}) for n in "ab"
    )

    assert [("spec.serviceName", ""), ("spec.selector", "")] == [
        (field, rule.unless) for field, rule in rejected(update(old, new))
    ]
    assert [] == rejected(update(old, old))


# Text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(("a", "b"), 1, 2), ["a.b: 1 -> 2"]),
        (Change(("a",), "1", "x"), ['a: "1" -> x']),
        (Change(("a",), None, 1), ["a: (not set) -> 1"]),
        (Change(("a",), old=False, new=True, implied="old"), ["a: false (default) -> true"]),
        (Change(("a",), old=True, new=False, implied="new"), ["a: true -> false (default)"]),
        (Change(("a",), ["x", "y"], ["y", "x"], order=True), ["a: new order: y, x"]),
        (Change(("a",), "x" * 60, "z"), [f"a: {'x' * 60} -> z"]),
        (Change(("a",), "x" * 61, "y"), ["a:", "  @@ -1 +1 @@", f"  -{'x' * 61}", "  +y"]),
        (Change(("a",), "1\n" * 11, None), ["a: (11 lines) -> (not set)"]),
        (Change(("a",), "1\n2\n", None), ["a:", "  @@ -1,2 +0,0 @@", "  -1", "  -2"]),
    ],
)
def test_a_change_is_one_line_if_it_is_short_and_else_a_diff(change, expected):
    assert expected == change_lines(change, secret=False)


def test_a_long_diff_is_cut_after_40_lines():
    old, new = ("".join(f"{word}{i}\n" for i in range(30)) for word in "ab")

    shown = change_lines(Change(("a",), old, new), secret=False)

    assert (42, "  (21 more lines)") == (len(shown), shown[-1])


@pytest.mark.parametrize(
    "path",
    [
        ("data", "[k]"),
        ("stringData", "[k]"),
        ("dta", "k"),
        ("metadata", "annotations", "[kubectl.kubernetes.io/last-applied]"),
    ],
)
def test_values_of_a_secret_are_never_shown(path):
    shown = change_lines(Change(path, None, "aHVudGVy"), secret=True)

    assert [f"{'.'.join(path).replace('.[', '[')}: (not set) -> ***"] == shown
    assert ["type: a -> b"] == change_lines(Change(("type",), "a", "b"), secret=True)
