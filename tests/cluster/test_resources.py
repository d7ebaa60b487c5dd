"""Custom resources of training operators train unchanged in a cluster without operators."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"


def lines_with(printed, words):
    return [line for lines in printed for line in lines if line.startswith(words)]


def test_a_tfjob_trains(namespace):
    namespace.apply(RESOURCES / "tfjob.yaml")

    first, second = lines_with(namespace.completed("fashion-worker", 300), "sum")

    assert re.fullmatch(r"sum 3.0 loss \d+\.\d+", first)
    assert first == second


def test_a_pytorchjob_trains(namespace):
    namespace.apply(RESOURCES / "pytorchjob.yaml")

    assert lines_with(namespace.completed("bert-master"), "world") == ["world 3 sum 6.0"]
    for worker in ("bert-worker-0", "bert-worker-1"):
        assert lines_with(namespace.completed(worker), "world") == ["world 3 sum 6.0"]


def test_an_mpijob_v1_trains(namespace):
    namespace.apply(RESOURCES / "mpijob-v1.yaml")

    printed = namespace.completed("pi-launcher")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 on pi-worker-{rank // 2}" for rank in range(4)
    ]


def test_an_mpijob_v2beta1_trains(namespace):
    """The test creates the SSH keys that the operator would create, as the warning says."""
    passwd = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={passwd}")
    command = [sys.executable, "-m", "mlgen", "ssh-secret", "pi-ssh"]
    secret = subprocess.run(command, check=True, capture_output=True, text=True)
    namespace.kubectl("apply", "-f", "-", stdin=secret.stdout)
    namespace.apply(RESOURCES / "mpijob-v2beta1.yaml")

    printed = namespace.completed("pi-launcher")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 uid 1000" for rank in range(4)
    ]


def test_an_xgboostjob_trains(namespace):
    namespace.apply(RESOURCES / "xgboostjob.yaml")

    for job in ("higgs-master", "higgs-worker-0"):
        assert lines_with(namespace.completed(job), "sum") == ["sum 3.0 predicted [0.5, 2.5]"]


def test_an_mxjob_trains(namespace):
    namespace.apply(RESOURCES / "mxjob.yaml")

    namespace.completed("cifar-scheduler")

    printed = namespace.completed("cifar-worker")
    assert lines_with(printed, "workers") == ["workers 2 weight 1.0"] * 2


def test_a_volcano_job_trains(namespace):
    namespace.apply(RESOURCES / "volcano-tensorflow.yaml")

    printed = lines_with(namespace.completed("ctr-worker", 300), "total")

    hosts = "ctr-worker-0.ctr,ctr-worker-1.ctr"
    assert sorted(printed) == [f"total 20.0 index {index} of {hosts}" for index in range(2)]
