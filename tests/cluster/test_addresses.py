"""Replicas are reachable by the names of the operators' Services, and probes reach their ports."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"


def test_names_of_the_operator_lead_to_replicas_of_merged_roles(namespace):
    """The name with and without namespace and domain, and a probe that uses the port's name."""
    namespace.apply(RESOURCES / "pytorchjob-names.yaml")

    for printed in namespace.completed("ddp-rank", 60):
        assert printed == [
            f"ddp-master-0.{namespace.name}.svc.cluster.local is ddp-rank-0",
            "ddp-worker-0 is ddp-rank-1",
            "ddp-rank-0 is ddp-rank-0",
        ]
    for pod in namespace.pods("ddp-rank"):
        (status,) = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0


def test_torch_hosts_the_rendezvous_that_has_its_own_host_name(namespace):
    """torch before 2.0 compares names. A merged replica would have another one."""
    namespace.apply(RESOURCES / "pytorchjob-rendezvous.yaml")

    for job in ("gpt-master", "gpt-worker-0"):
        (printed,) = namespace.completed(job)
        assert "world 2 sum 3.0" in printed
