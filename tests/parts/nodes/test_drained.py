"""A node is drained: its pods continue on another node, and no failure is counted."""

import pytest
from parts.nodes.places import at, running

pytestmark = pytest.mark.long

WORKLOADS = ("alone-worker", "serves-ps", "watched-supervisor", "both-supervisor")


@pytest.fixture(scope="module")
def drained(moved):
    """The namespace of the jobs after `kubectl drain node-1`; /dev/shm is an emptyDir."""
    try:
        moved.kubectl("drain", "node-1", "--delete-emptydir-data", "--timeout=120s")
        yield moved
    finally:
        moved.kubectl("uncordon", "node-1")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_ran_there_is_replaced(drained, workload):
    running(drained, workload, 1)

    assert at(drained, workload) == ["node-0"]


def test_a_gang_starts_again_on_the_other_node(drained):
    running(drained, "gang-worker", 2)

    assert at(drained, "gang-worker") == ["node-0", "node-0"]
    record = drained.record("gang")
    assert (record["restarts"], record["disruptions"]) == ("0", "1")


def test_all_jobs_succeed_in_the_end(drained):
    running(drained, "gang-worker", 2)
    drained.go.touch()

    for job in ("gang", "serves", "watched", "both"):
        drained.recorded(job, is_succeeded)
    drained.completed("alone-worker")
    assert not drained.get("job", "alone-worker")["status"].get("failed")


def is_succeeded(record):
    return record.get("Succeeded", "").startswith("True ")
