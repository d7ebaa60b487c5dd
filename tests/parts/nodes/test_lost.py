"""A node loses its network forever, and is deleted: tests of docs/how/supervisor.md."""

import pytest
from parts.nodes.places import at, pods_of, running

pytestmark = pytest.mark.long

GIVEN_UP = 240
"""Seconds: 50 until the node is not ready, 5 of the toleration, 60 in which a pod may end, and the
pause of the supervisor; doubled."""


@pytest.fixture(scope="module")
def lost(cluster, moved):
    """The namespace of the jobs after node-1 has lost its network."""
    cluster.run("ip", "link", "set", "node-1", "down")
    try:
        for workload in ("alone-worker", "serves-ps"):
            moved.until(
                f"{workload} is told to end", lambda w=workload: is_told(moved, w), GIVEN_UP
            )
        yield moved
    finally:
        cluster.run("ip", "link", "set", "node-1", "up")
        cluster.kill("kubelet", 1)  # which registers its node when it starts
        cluster.node(1)


@pytest.fixture(scope="module")
def deleted(lost):
    """The same namespace after the node was deleted, as a cloud does."""
    lost.kubectl("delete", "node", "node-1")
    return lost


def is_told(namespace, workload):
    return all("deletionTimestamp" in pod["metadata"] for pod in pods_of(namespace, workload))


def test_a_supervisor_is_replaced_at_once(lost):
    running(lost, "watched-supervisor", 1)

    assert at(lost, "watched-supervisor") == ["node-0"]
    assert at(lost, "watched-worker") == ["node-0"]


def test_a_gang_starts_again_on_the_other_node(lost):
    def record():
        return {"disruptions": "0", **lost.record("gang")}

    lost.until("it restarts", lambda: record()["disruptions"] == "1", GIVEN_UP)
    lost.until("it runs again", lambda: at(lost, "gang-worker") == ["node-0"] * 2, GIVEN_UP)

    lost.until("that is seen", lambda: record()["Running"].startswith("True "))
    assert (record()["restarts"], record()["disruptions"]) == ("0", "1")


@pytest.mark.parametrize("workload", ["alone-worker", "serves-ps", "both-supervisor"])
def test_other_replicas_wait(lost, workload):
    assert len(pods_of(lost, workload)) == 1
    assert at(lost, workload) == []


@pytest.mark.parametrize("workload", ["alone-worker", "serves-ps", "both-supervisor"])
def test_they_are_replaced_when_the_node_is_deleted(deleted, workload):
    running(deleted, workload, 1)

    assert at(deleted, workload) == ["node-0"]


def test_all_jobs_succeed_in_the_end(deleted):
    running(deleted, "both-supervisor", 1)
    deleted.go.touch()

    for job in ("gang", "serves", "watched", "both"):
        deleted.recorded(job, lambda record: record.get("Succeeded", "")[:5] == "True ")
    deleted.completed("alone-worker")
