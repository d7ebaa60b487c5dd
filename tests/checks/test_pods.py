"""The pods of a workload, as the checks see them."""

import pytest

from mlgen.checks.pods import Objects, pods_of, role_path, texts, title
from mlgen.topology import INDEX_NAME

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
SET_INDEX = "apps.kubernetes.io/pod-index"


def workload(kind, labels=None, pod=None, **spec):
    template = {"metadata": {"labels": labels or {}}, "spec": {"containers": [], **(pod or {})}}
    metadata = {"name": "a-worker", "labels": {"mlgen.dev/role": "worker"}}
    return {"kind": kind, "metadata": metadata, "spec": {"template": template, **spec}}


def indexed(count, **fields):
    return workload("Job", completionMode="Indexed", completions=count, **fields)


@pytest.mark.parametrize(
    ("item", "name", "is_indexed", "count", "together"),
    [
        (indexed(3, parallelism=2), "a-worker", True, 3, 2),
        (indexed(3), "a-worker", True, 3, 1),
        (indexed(3, parallelism=0), "a-worker", True, 3, None),
        (workload("Job", completions=1), "a-worker", False, 1, 1),
        (workload("Job", completions=1, pod={"hostname": "a-0"}), "a-0", False, 1, 1),
        (workload("StatefulSet", replicas=2), "a-worker", True, 2, 2),
        (workload("StatefulSet", replicas=0), "a-worker", True, None, None),
        (workload("StatefulSet"), "a-worker", True, 1, 1),
        (workload("Deployment", replicas=2), "a-worker", False, 2, 2),
    ],
)
def test_host_names_and_numbers_of_pods(item, name, is_indexed, count, together):
    pods = pods_of(item)

    assert (name, is_indexed) == (pods.name, pods.indexed)
    assert (count, together) == (pods.count, pods.together)


@pytest.mark.parametrize(
    ("host", "index", "exists"),
    [
        ("a-worker-0", 0, True),
        ("a-worker-2", 2, True),
        ("a-worker-3", 3, False),
        ("a-worker-02", None, False),
        ("a-worker-", None, False),
        ("a-worker", None, False),
        ("a-chief-0", None, False),
    ],
)
def test_an_indexed_host_name_belongs_to_a_pod_if_its_index_is_below_the_count(host, index, exists):
    pods = pods_of(indexed(3))

    assert (index, exists) == (pods.index(host), pods.has(host))


def test_a_host_name_without_an_index_must_be_equal():
    pods = pods_of(workload("Job", completions=1))

    assert [0, None] == [pods.index(host) for host in ("a-worker", "a-worker-0")]


def test_a_suspended_stateful_set_may_have_any_number_of_pods():
    assert pods_of(workload("StatefulSet", replicas=0)).has("a-worker-99")


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, False),
        ({"a": "b"}, True),
        ({"a": "c"}, False),
        ({"a": "b", "c": "d"}, False),
        ({"a": "b", JOB_INDEX: "2"}, True),
        ({"a": "b", JOB_INDEX: "3"}, False),
        ({"a": "b", SET_INDEX: "2"}, False),
    ],
)
def test_a_selector_matches_labels_of_the_template_and_the_index_of_the_controller(
    selector, matches
):
    item = indexed(3, labels={"a": "b"})
    job = Objects("a", [item])

    assert matches is pods_of(item).selected(selector)
    assert matches is bool(list(job.selected(selector)))


def test_the_subdomain_of_a_stateful_set_is_its_service_name():
    pod = {"subdomain": "ignored"}
    stateful_set = workload("StatefulSet", pod=pod, serviceName="a")

    assert (("spec", "serviceName"), "a") == pods_of(stateful_set).subdomain
    path = ("spec", "template", "spec", "subdomain")
    assert (path, "ignored") == pods_of(indexed(1, pod=pod)).subdomain
    assert (path, None) == pods_of(indexed(1)).subdomain


def test_texts_are_variables_commands_and_arguments_with_their_paths_and_readers():
    env = [{"name": "A", "value": "1"}, {"name": "B"}]
    pod = {
        "initContainers": [{"command": ["c"]}],
        "containers": [{"env": env, "args": ["d", "e"]}],
    }
    template = ("spec", "template", "spec")

    listed = [(t.path[3:], t.label, t.text) for t in texts([pods_of(indexed(3, pod=pod))])]
    readers = {t.reader_indexes for t in texts([pods_of(indexed(3, pod=pod))])}

    assert listed == [
        (("initContainers", 0, "command", 0), "command", "c"),
        (("containers", 0, "env", 0, "value"), "A", "1"),
        (("containers", 0, "env", 1, "value"), "B", ""),
        (("containers", 0, "args", 0), "args", "d"),
        (("containers", 0, "args", 1), "args", "e"),
    ]
    assert {("0", "2")} == readers
    assert all(t.path[:3] == template for t in texts([pods_of(indexed(3, pod=pod))]))


def test_a_replica_with_its_own_job_reads_its_own_index_only():
    env = [{"name": INDEX_NAME, "value": "4"}, {"name": "A", "value": "x"}]
    pods = pods_of(workload("Job", completions=1, pod={"containers": [{"env": env}]}))

    assert {("4",)} == {text.reader_indexes for text in texts([pods])}


def test_messages_name_kind_and_name_and_problems_are_located_at_the_role():
    item = indexed(1)

    assert "Job a-worker" == title(item)
    assert ("spec", "roles", "worker") == role_path(item)
    assert ("spec", "roles") == role_path({"metadata": {"labels": {}}})
