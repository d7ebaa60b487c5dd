"""Kubernetes' own gangs in a cluster without their feature gate."""

import subprocess

import pytest
from parts.gangs.cluster import Cluster
from parts.plane import plane
from parts.programs import kubernetes
from parts.skips import available

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def without_gate():
    """A control plane of 1.37 with default settings, without nodes."""
    available(kubernetes, "1.37")
    with plane("1.37") as created:
        yield Cluster(created, "kubernetes")


def test_apply_fails_but_the_pods_are_created_without_their_group(without_gate):
    with pytest.raises(RuntimeError, match='no matches for kind "PodGroup"'):
        without_gate.submit("a", {"worker": {"replicas": 2}})

    without_gate.plane.until(lambda: len(without_gate.pods("a")) == 2, seconds=60)
    assert not any("schedulingGroup" in pod["spec"] for pod in without_gate.pods("a"))


def test_the_doctor_sees_it_beforehand(without_gate, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n"
        "  framework: jax\n  image: a\n  roles: {worker: {}}\n  scheduling: {gang: kubernetes}\n"
    )

    done = subprocess.run(
        ["mlgen", "doctor", "--kube-version", "1.37", file],
        env=without_gate.plane.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    row = "feature gate GenericWorkload the cluster does not serve podgroups.scheduling.k8s.io"
    assert row in " ".join(done.stdout.split())
