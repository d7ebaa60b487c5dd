"""Names, labels and selectors of a job's objects."""

import re

import pytest
from objects.samples import job, role

from mlgen.objects import labels as names

COMMON = {
    "app.kubernetes.io/name": "tensorflow",
    "app.kubernetes.io/instance": "mnist",
    "app.kubernetes.io/component": "worker",
    "mlgen.dev/job": "mnist",
}
MANAGED = {"app.kubernetes.io/managed-by": "mlgen"}


@pytest.mark.parametrize(
    ("serves", "label"),
    [(True, "apps.kubernetes.io/pod-index"), (False, "batch.kubernetes.io/job-completion-index")],
)
def test_the_index_label_is_that_of_the_controller(serves, label):
    assert label == names.index_label(role(serves=serves))


def test_a_selector_matches_the_job_the_role_or_one_replica():
    rows = [
        (None, {}),
        (role(), {"mlgen.dev/role": "worker"}),
        (role(index=0), {"mlgen.dev/role": "worker", "mlgen.dev/replica-index": "0"}),
        (role(index=3), {"mlgen.dev/role": "worker", "mlgen.dev/replica-index": "3"}),
    ]

    assert [{"mlgen.dev/job": "mnist"} | labels for _, labels in rows] == [
        names.selector(job(), of) for of, _ in rows
    ]


def test_labels_are_the_recommended_ones_and_the_selector():
    rows = [
        (None, {}),
        (role(), {"mlgen.dev/role": "worker"}),
        (role(decides=True), {"mlgen.dev/role": "worker", "mlgen.dev/decides": "true"}),
        (role(labels={"a": "b"}), {"mlgen.dev/role": "worker", "a": "b"}),
    ]

    assert [COMMON | labels for _, labels in rows] == [
        names.labels(job(), "worker", of) for of, _ in rows
    ]


def test_part_of_is_the_name_without_a_hash():
    labels = names.metadata(job(name="mnist-x7k2p", part_of="mnist"), "x", "worker")["labels"]

    assert labels["app.kubernetes.io/part-of"] == "mnist"
    assert labels["app.kubernetes.io/instance"] == "mnist-x7k2p"


def test_a_pod_beside_the_job_has_all_labels_but_the_job():
    labels = names.app_labels(job(), "supervisor")

    assert COMMON | {"app.kubernetes.io/component": "supervisor"} == {
        **labels,
        "mlgen.dev/job": "mnist",
    }
    assert "mlgen.dev/job" not in labels


def test_metadata_of_a_job_without_namespace_and_annotations_has_neither():
    assert names.metadata(job(), "mnist.config", "worker") == {
        "name": "mnist.config",
        "labels": COMMON | MANAGED,
    }


def test_metadata_has_the_namespace_labels_and_annotations_of_the_user():
    of_user = job(namespace="ml", labels={"team": "vision"}, annotations={"owner": "ada"})

    assert names.metadata(of_user, "mnist", "worker", role(decides=True)) == {
        "name": "mnist",
        "namespace": "ml",
        "labels": {
            **COMMON,
            **MANAGED,
            "mlgen.dev/role": "worker",
            "mlgen.dev/decides": "true",
            "team": "vision",
        },
        "annotations": {"owner": "ada"},
    }


def test_metadata_does_not_share_the_annotations_of_the_job():
    of_user = job(annotations={"owner": "ada"})

    names.metadata(of_user, "mnist", "worker")["annotations"]["owner"] = "bob"

    assert of_user.annotations == {"owner": "ada"}


def test_the_name_of_a_workload():
    rows = [
        ({}, "mnist-worker"),
        ({"index": 0}, "mnist-worker-0"),
        ({"index": 12}, "mnist-worker-12"),
        ({"workload": "mnist-launcher"}, "mnist-launcher"),
        ({"workload": "mnist-launcher", "index": 1}, "mnist-launcher"),
    ]

    assert [name for _, name in rows] == [
        names.workload_name(job(), role(**fields)) for fields, _ in rows
    ]


def test_the_names_of_the_config_maps():
    assert names.config_name("mnist") == "mnist.config"
    assert names.config_name("mnist", "settings") == "mnist.settings"
    assert names.status_name("mnist") == "mnist.status"


@pytest.mark.parametrize("index", ["0", "12", "[0-3]", "$(MLGEN_REPLICA_INDEX)"])
def test_an_index_in_an_address_is_a_number_a_range_or_the_variable(index):
    assert re.fullmatch(names.INDEX_FORMS, index)


@pytest.mark.parametrize(
    "index", ["", "a", "[0]", "[0-]", "0-3", "$(OTHER)", "$MLGEN_REPLICA_INDEX"]
)
def test_any_other_text_is_not_an_index(index):
    assert not re.fullmatch(names.INDEX_FORMS, index)
