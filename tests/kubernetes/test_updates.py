"""Changes of an existing object that the API server rejects."""

import pytest

from mlgen.kubernetes.updates import (
    CONDITIONS,
    Change,
    Update,
    dotted,
    is_within,
    mutable_spec,
    rejected,
    rules,
)
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.resources import table

KINDS = [tuple(f"/{name}".split("/")[-2:]) for name in table("kubernetes/updates")]


def update(old=None, new=None, *changes, managed=None, version=DEFAULT):
    return Update(old or {}, managed or {}, new or {}, changes, version)


def holds(case, *conditions):
    return tuple(CONDITIONS[name](case) for name in conditions)


OLD = {"spec": {"replicas": 1, "containers": {"main": {"image": "a"}}}}


def test_the_value_after_an_update():
    rows = [
        (Change(("spec", "replicas"), 1, 2), ("spec", "replicas"), 2),
        (Change(("spec", "other"), 1, 2), ("spec", "replicas"), 1),
        (Change(("spec",), {}, {"replicas": 3}), ("spec", "replicas"), 3),
        (Change(("spec",), {}, None), ("spec", "replicas"), None),
        (Change(("spec", "replicas"), 1, None), ("spec", "replicas"), None),
        (
            Change(("spec", "containers", "[main]", "image"), "a", "b"),
            ("spec", "containers", "main", "image"),
            "b",
        ),
        (Change(("spec",), ["a"], ["b"], order=True), ("spec", "replicas"), 1),
    ]

    assert [value for _, _, value in rows] == [
        update(OLD, {}, change).new_value(*path) for change, path, _ in rows
    ]


def test_the_value_before_an_update():
    change = Change(("spec", "replicas"), 1, 2)

    assert 1 == update(OLD, {}, change).old_value("spec", "replicas")


SUSPENDED = {"type": "Suspended", "status": "True"}


def job(*, suspend=True, **status):
    return {"spec": {"suspend": suspend}, **({"status": status} if status else {})}


def test_what_may_change_in_a_suspended_job():
    rows = [
        (job(), (1, 35), True, False, True),
        (job(), (1, 36), True, True, True),
        (job(suspend=False), (1, 36), False, False, False),
        (job(active=0), (1, 35), True, False, False),
        (job(startTime="x"), (1, 35), False, False, False),
        (job(startTime="x"), (1, 36), False, False, False),
        (job(startTime="x", conditions=[SUSPENDED]), (1, 36), True, True, False),
        (job(startTime="x", conditions=[{**SUSPENDED, "status": "False"}]), (1, 36), *[False] * 3),
        (job(active=1), (1, 36), False, False, False),
        (job(active=1), (1, 35), True, False, False),
    ]

    for old, version, placement, resources, may_have_started in rows:
        case = update(old, version=KubeVersion(*version))

        mutable = {
            path[-1]
            for rule in rules("batch", "Job")
            if rule.mutable and rule.when and rule.applies(case)
            for path in rule.paths
        }
        assert (placement, resources) == ("tolerations" in mutable, "resources" in mutable)
        assert (may_have_started,) == holds(case, "may have started")


@pytest.mark.parametrize(
    ("spec", "indexed", "unevenly"),
    [
        ({"completionMode": "Indexed", "completions": 2, "parallelism": 2}, True, False),
        ({"completionMode": "Indexed", "completions": 2, "parallelism": 1}, True, True),
        ({"completionMode": "Indexed", "completions": 2}, True, True),
        ({"completionMode": "Indexed", "parallelism": 1}, True, False),
        ({"completionMode": "NonIndexed", "completions": 2, "parallelism": 1}, False, False),
        ({}, False, False),
    ],
)
def test_only_an_indexed_job_must_scale_evenly(spec, indexed, unevenly):
    case = update({"spec": spec})

    assert (not indexed, unevenly) == holds(case, "is not indexed", "is scaled unevenly")


@pytest.mark.parametrize(("value", "immutable"), [(True, True), (False, False), (None, False)])
def test_an_object_is_marked_immutable_by_true_alone(value, immutable):
    assert (immutable,) == holds(update({"immutable": value}), "is marked immutable")


def service(**spec):
    return {"spec": spec}


@pytest.mark.parametrize(
    ("old", "new", "changes", "may_change"),
    [
        (service(clusterIP="1.2.3.4"), service(clusterIP="1.2.3.5"), True, False),
        (service(clusterIP="1.2.3.4"), service(), False, False),
        (service(clusterIP="None"), service(clusterIP="1.2.3.4"), True, False),
        (service(), service(clusterIP="None"), True, False),
        (service(clusterIP=""), service(clusterIP="1.2.3.4"), False, True),
        (service(), service(), False, False),
        (service(type="ExternalName"), service(clusterIP="None"), False, False),
        (service(type="ExternalName"), service(clusterIP="1.2.3.4"), False, False),
    ],
)
def test_a_cluster_ip_changes_certainly_or_possibly(old, new, changes, may_change):
    case = update(old, new)

    assert (changes, may_change) == holds(case, "changes clusterIP", "may change clusterIP")


@pytest.mark.parametrize(
    ("kind", "old_ip", "new_ip", "expected"),
    [
        ("NodePort", "None", None, True),
        ("LoadBalancer", "None", None, True),
        ("LoadBalancer", None, "None", True),
        ("LoadBalancer", "None", "1.2.3.4", False),
        ("NodePort", None, None, False),
        ("ClusterIP", "None", None, False),
    ],
)
def test_a_headless_service_cannot_be_published(kind, old_ip, new_ip, expected):
    change = Change(("spec", "type"), "ClusterIP", kind)
    case = update(service(clusterIP=old_ip), service(clusterIP=new_ip), change)

    assert (expected,) == holds(case, "publishes a headless Service")


@pytest.mark.parametrize(
    ("managed", "new", "expected"),
    [
        ({}, {"type": "OnDelete"}, True),
        ({"type": "RollingUpdate"}, {"type": "OnDelete"}, True),
        ({"rollingUpdate": {}}, {"type": "OnDelete"}, False),
        ({}, {"type": "OnDelete", "rollingUpdate": None}, False),
        ({}, {"type": "RollingUpdate"}, False),
        ({}, None, False),
    ],
)
def test_on_delete_meets_a_rolling_update_that_apply_does_not_remove(managed, new, expected):
    case = update(
        {},
        {"spec": {"updateStrategy": new}},
        managed={"spec": {"updateStrategy": managed}},
    )

    assert (expected,) == holds(case, "keeps rollingUpdate")


def claim(storage="1Gi", phase=None, **spec):
    status = {"status": {"phase": phase}} if phase else {}
    return {"spec": {"resources": {"requests": {"storage": storage}}, **spec}, **status}


@pytest.mark.parametrize(
    ("old", "storage", "shrinks", "unbound", "may_grow"),
    [
        (claim("1Gi"), "1Mi", True, False, False),
        (claim("1Gi"), "1024Mi", False, False, True),
        (claim("1Gi"), "2Gi", False, False, True),
        (claim("1Gi"), "lots", False, False, True),
        (claim("1Gi", phase="Bound"), "2Gi", False, False, True),
        (claim("1Gi", phase="Pending"), "2Gi", False, True, False),
    ],
)
def test_the_storage_of_a_claim_can_only_grow_once_it_is_bound(
    old, storage, shrinks, unbound, may_grow
):
    path = ("spec", "resources", "requests", "storage")
    case = update(old, {}, Change(path, "1Gi", storage))

    assert (shrinks, unbound, may_grow) == holds(case, "shrinks", "is unbound", "may grow")


@pytest.mark.parametrize(
    ("old", "new_class", "has_class", "may_have_class"),
    [
        (claim(storageClassName="fast"), "slow", True, False),
        (claim(), None, True, False),
        (claim(), "fast", False, True),
        (claim(phase="Pending"), "fast", False, False),
    ],
)
def test_a_claim_without_a_class_may_have_the_default_class(
    old, new_class, has_class, may_have_class
):
    case = update(old, {}, Change(("spec", "storageClassName"), None, new_class))

    assert (has_class, may_have_class) == holds(case, "has a class", "may have a class")


def test_a_path_is_within_itself_and_the_paths_that_contain_it():
    rows = [
        (("spec", "selector"), ("spec", "selector"), True),
        (("spec", "selector", "matchLabels"), ("spec", "selector"), True),
        (("spec",), ("spec", "selector"), False),
        (("spec", "selectors"), ("spec", "selector"), False),
        (("spec", "[a]", "image"), ("spec", "[*]", "image"), True),
        (("spec", "a", "image"), ("spec", "[*]", "image"), False),
        (("spec", "[a]", "args"), ("spec", "[*]", "image"), False),
        (("spec",), (), True),
    ]

    assert [within for _, _, within in rows] == [is_within(path, outer) for path, outer, _ in rows]


def test_every_rule_has_a_reason_a_source_and_a_known_condition():
    for group, kind in KINDS:
        assert rules(group, kind)
        for rule in rules(group, kind):
            assert rule.reason
            assert rule.source.partition(":")[0] in ("apps", "batch", "core", "rbac")
            assert not rule.when or rule.when in CONDITIONS


def test_every_condition_is_used():
    assert set(CONDITIONS) == {rule.when for key in KINDS for rule in rules(*key)} - {""}


@pytest.mark.parametrize("key", [("batch", "Job"), ("apps", "StatefulSet")])
def test_no_unconditional_rule_rejects_a_mutable_field(key):
    for name in mutable_spec(*key):
        item = {"apiVersion": f"{key[0]}/v1", "kind": key[1]}
        case = update(item, item, Change(("spec", name), 1, 2))
        assert [] == [rule for _, rule in rejected(case) if not (rule.when or rule.unless)]


@pytest.mark.parametrize("field", ["template", "selector", "completionMode", "podFailurePolicy"])
def test_other_fields_of_a_job_are_not_listed_as_mutable(field):
    assert "parallelism" in mutable_spec("batch", "Job")
    assert field not in mutable_spec("batch", "Job")


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (("batch", "Job"), "spec.selector"),
        (("apps", "Deployment"), "spec.selector"),
        (("apps", "DaemonSet"), "spec.selector"),
        (("apps", "ReplicaSet"), "spec.selector"),
        (("", "Secret"), "type"),
        (("rbac.authorization.k8s.io", "RoleBinding"), "roleRef"),
        (("rbac.authorization.k8s.io", "ClusterRoleBinding"), "roleRef"),
    ],
)
def test_a_field_never_changes(key, field):
    item = {"apiVersion": f"{key[0]}/v1".lstrip("/"), "kind": key[1]}
    case = update(item, item, Change(tuple(field.split(".")), "a", "b"))

    assert [(field, "")] == [(name, rule.unless) for name, rule in rejected(case)]


def test_custom_resources_have_no_rules():
    assert () == rules("kubeflow.org", "TFJob")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            ("spec", "template", "spec", "containers", "[main]", "image"),
            "spec.template.spec.containers[main].image",
        ),
        (("metadata", "labels", "[example.com/a]"), "metadata.labels[example.com/a]"),
        (("roleRef",), "roleRef"),
    ],
)
def test_a_path_as_it_is_printed(path, text):
    assert text == dotted(path)
