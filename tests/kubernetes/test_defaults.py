"""The defaults that the API server sets where they depend on other fields."""

import pytest

from mlgen.kubernetes.updates import defaults

JOB = defaults("batch", "Job")["spec"]
RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("mnist", "Always"),
        ("mnist:latest", "Always"),
        ("localhost:5000/mnist", "Always"),
        ("mnist:1.4", "IfNotPresent"),
        ("localhost:5000/mnist:1.4", "IfNotPresent"),
        ("mnist@sha256:00", "IfNotPresent"),
        ("mnist:1.4@sha256:00", "IfNotPresent"),
        ("mnist:latest@sha256:00", "Always"),
    ],
)
def test_images_without_a_version_are_always_pulled(image, policy):
    (container,) = JOB["template"]["spec"]["containers"]

    assert policy == container["imagePullPolicy"]({"image": image})


def test_defaults_of_a_job_depend_on_its_other_fields():
    rows = [
        ("completions", {}, 1),
        ("completions", {"parallelism": 2}, None),
        ("backoffLimit", {}, 6),
        ("backoffLimit", {"backoffLimitPerIndex": None}, 6),
        ("backoffLimit", {"backoffLimitPerIndex": 0}, 2147483647),
        ("podReplacementPolicy", {}, "TerminatingOrFailed"),
        ("podReplacementPolicy", {"podFailurePolicy": {}}, "Failed"),
    ]

    assert [default for _, _, default in rows] == [JOB[field](spec) for field, spec, _ in rows]


def test_a_service_forwards_to_its_own_port():
    (port,) = defaults("", "Service")["spec"]["ports"]

    assert 2222 == port["targetPort"]({"port": 2222})


@pytest.mark.parametrize(
    ("kind", "group"), [("ServiceAccount", ""), ("User", RBAC), ("Group", RBAC), (None, RBAC)]
)
def test_the_group_of_a_subject_depends_on_its_kind(kind, group):
    (subject,) = defaults(RBAC, "RoleBinding")["subjects"]

    assert group == subject["apiGroup"]({"kind": kind})


def test_only_a_pod_of_its_own_has_the_default_of_service_links():
    assert defaults("", "Pod")["spec"]["enableServiceLinks"] is True
    assert "enableServiceLinks" not in JOB["template"]["spec"]
