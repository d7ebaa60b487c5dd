"""Pods are placed according to `scheduling`."""

from pathlib import Path

import pytest
from parts.nodes.places import at, running

pytestmark = pytest.mark.long

JOB = Path(__file__).parent / "jobs/places.yaml"
NODE = "{key: kubernetes.io/hostname, mode: required}"
TAINT = "dedicated=control-plane:NoSchedule"


def placed(namespace, field):
    """Apply the job; return the nodes that its four pods get."""
    namespace.apply(JOB, "--set", f"spec.scheduling.{field}={NODE}")
    running(namespace, "places-ps", 1)
    running(namespace, "places-worker", 3)
    return sorted(at(namespace, "places-ps") + at(namespace, "places-worker"))


def test_pods_are_spread_over_the_nodes(namespace):
    assert placed(namespace, "spread") == ["node-0", "node-0", "node-1", "node-1"]


def test_pods_are_not_spread_over_nodes_that_they_may_not_use(namespace):
    namespace.kubectl("taint", "node", "node-1", TAINT)
    try:
        assert placed(namespace, "spread") == ["node-0"] * 4
    finally:
        namespace.kubectl("taint", "node", "node-1", f"{TAINT}-")


def test_pods_are_kept_together(namespace):
    assert len({*placed(namespace, "topology")}) == 1
