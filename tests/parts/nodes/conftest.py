"""A cluster with two nodes, each with its own network, and jobs that run on both."""

import json
from pathlib import Path

import pytest
from namespaces import temporary_namespace
from parts.nodes.places import at, running
from parts.private import private

JOBS = Path(__file__).parent / "jobs"


@pytest.fixture(scope="session")
def cluster(started):
    """A private cluster with the nodes `node-0` and `node-1`; see `parts.private.Private`."""
    return started(private("1.37", nodes=2))


@pytest.fixture
def namespace(cluster):
    with temporary_namespace(cluster.environment) as created:
        yield created


@pytest.fixture(scope="module")
def moved(cluster, tmp_path_factory):
    """A namespace in which the jobs `moved` and `gang` run, each with pods on node-1."""
    folder = tmp_path_factory.mktemp("data")
    volume = json.dumps({"mountPath": "/data", "hostPath": str(folder)})
    with temporary_namespace(cluster.environment) as namespace:
        namespace.go = folder / "go"
        words = ("--set", f"spec.volumes.data={volume}")
        namespace.kubectl("cordon", "node-0")
        namespace.apply(JOBS / "moved.yaml", *words)
        for role in ("alone-worker", "serves-ps", "watched-supervisor", "both-supervisor"):
            running(namespace, role, 1)
        namespace.kubectl("uncordon", "node-0")
        namespace.apply(JOBS / "gang.yaml", *words)
        for role, pods in (("gang-worker", 2), ("serves-chief", 1), ("both-two", 1)):
            running(namespace, role, pods)
        running(namespace, "watched-worker", 1)
        assert at(namespace, "gang-worker") == ["node-0", "node-1"]
        for role in ("alone-worker", "serves-ps", "watched-supervisor", "both-supervisor"):
            assert at(namespace, role) == ["node-1"]
        for job in ("gang", "watched"):
            namespace.recorded(job, lambda record: "Running" in record)
        yield namespace
