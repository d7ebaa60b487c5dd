"""A node on which every program fails is avoided, as in docs/how/supervisor.md."""

import json

import pytest
from parts.nodes.conftest import JOBS
from parts.nodes.places import at, running

pytestmark = pytest.mark.long


def test_a_gang_starts_again_on_the_node_that_works(namespace, tmp_path):
    volume = json.dumps({"mountPath": "/data", "hostPath": str(tmp_path)})
    words = ("--set", f"spec.volumes.data={volume}", "--kube-version", "1.36")
    namespace.apply(JOBS / "broken.yaml", *words)
    running(namespace, "broken-worker", 4)
    broken, *_ = at(namespace, "broken-worker")
    (other,) = {"node-0", "node-1"} - {broken}

    (tmp_path / broken).touch()

    expected = [other] * 4
    namespace.until("all are elsewhere", lambda: at(namespace, "broken-worker") == expected)
    (tmp_path / "done").touch()
    namespace.completed("broken-worker")
    record = namespace.record("broken")
    assert ("1", broken) == (record["restarts"], record["avoidedNodes"])
