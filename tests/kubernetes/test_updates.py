"""The facts about an update on which its acceptance depends."""

import pytest

from mlgen.kubernetes import updates
from mlgen.kubernetes.changes import Change
from mlgen.kubernetes.updates import Update
from mlgen.kubernetes.versions import DEFAULT, KubeVersion


def update(old=None, new=None, *changes, managed=None, version=DEFAULT):
    return Update(old or {}, managed or {}, new or {}, changes, version)


OLD = {"spec": {"replicas": 1, "containers": {"main": {"image": "a"}}}}


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
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
    ],
)
def test_the_value_after_an_update(change, path, value):
    assert value == update(OLD, {}, change).new_value(*path)


def test_the_value_before_an_update():
    change = Change(("spec", "replicas"), 1, 2)

    assert 1 == update(OLD, {}, change).old_value("spec", "replicas")


SUSPENDED = {"type": "Suspended", "status": "True"}


def job(*, suspend=True, **status):
    return {"spec": {"suspend": suspend}, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("old", "version", "placement", "resources", "may_have_started"),
    [
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
    ],
)
def test_what_may_change_in_a_suspended_job(old, version, placement, resources, may_have_started):
    case = update(old, version=KubeVersion(*version))

    assert (placement, resources, placement and not resources, may_have_started) == (
        updates.is_placement_mutable(case),
        updates.are_resources_mutable(case),
        updates.is_only_placement_mutable(case),
        updates.may_have_started(case),
    )


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

    assert (indexed, unevenly) == (updates.is_indexed(case), updates.is_scaled_unevenly(case))


@pytest.mark.parametrize(("value", "immutable"), [(True, True), (False, False), (None, False)])
def test_an_object_is_marked_immutable_by_true_alone(value, immutable):
    assert immutable == updates.is_marked_immutable(update({"immutable": value}))


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

    assert (changes, may_change) == (
        updates.changes_cluster_ip(case),
        updates.may_change_cluster_ip(case),
    )


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

    assert expected == updates.publishes_headless(case)


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

    assert expected == updates.keeps_rolling_update(case)


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

    assert (shrinks, unbound, may_grow) == (
        updates.shrinks(case),
        updates.is_unbound(case),
        updates.may_grow(case),
    )


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

    assert (has_class, may_have_class) == (
        updates.has_class(case),
        updates.may_have_class(case),
    )
