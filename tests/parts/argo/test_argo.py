"""The tests of the Argo step in tests/cluster pass with other versions of Argo Workflows."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


@pytest.mark.parametrize("file", ["test_argo_command.py", "test_argo.py"])
def test_the_suite_passes(file, cluster):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "cluster", "-rs"]
    done = cluster.run(
        *command, f"tests/cluster/{file}", check=False, stdout=subprocess.PIPE, text=True
    )

    assert done.returncode == 0, done.stdout[-8000:]
    assert "skipped" not in done.stdout
