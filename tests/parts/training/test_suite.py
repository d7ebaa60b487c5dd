"""The training tests of tests/cluster, on the newest Kubernetes with its own kubelet."""

import subprocess
import sys

import pytest
from support import ROOT

pytestmark = pytest.mark.long

FILES = ("training", "host_network", "mpi", "restarts", "supervisor", "waits", "small_jobs")
FILES += ("resources",)


@pytest.mark.parametrize("file", FILES)
def test_it_passes(cluster, file):
    words = ["-m", "pytest", "-n", "0", "-m", "cluster", "-p", "no:cacheprovider", "--tb=short"]
    path = ROOT / f"tests/cluster/test_{file}.py"
    command = ["env", "--unset=MLGEN_PARTS", sys.executable, *words, path]

    done = cluster.run(*command, check=False, stdout=subprocess.PIPE, text=True)

    assert done.returncode == 0, done.stdout[-20_000:]
