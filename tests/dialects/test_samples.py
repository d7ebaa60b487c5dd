"""The samples of KubeRay and AppWrapper render, or are rejected with a true reason.

They are read from the modules of Go, which `go mod download` fetches.
"""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import missing, without_totals

from mlgen.cli import main

MODULES = Path(os.environ.get("GOMODCACHE", "~/go/pkg/mod")).expanduser()
KUBERAY = MODULES / "github.com/ray-project/kuberay/ray-operator@v1.5.1/config/samples"
APP_WRAPPER = MODULES / "github.com/project-codeflare/appwrapper@v1.1.2/samples"


def samples(folder, *kinds):
    paths = (path for path in folder.rglob("*.yaml"))
    pattern = re.compile(rf"^kind: ({'|'.join(kinds)})$", re.MULTILINE)
    return sorted(path for path in paths if pattern.search(path.read_text()))


FILES = [*samples(KUBERAY, "RayJob", "RayCluster"), *samples(APP_WRAPPER, "AppWrapper")]

REJECTED = {
    "ray-job.interactive-mode": "in InteractiveMode, KubeRay waits until you submit a program",
    "ray-job.use-existing-raycluster": "the job runs on a RayCluster of KubeRay",
    "wrapped-failing-pytorch-job": 'the container would look for a program named "sleep 10; exit',
}
"""The reasons, by name of the file."""

WARNED = {
    "ray-cluster.fluentbit": "the container fluentbit does not exit by itself",
    "wrapped-leader-worker-set": "only LeaderWorkerSet's controller can run it",
}
"""Warnings other than differences."""


def rare(number, path):
    """Return the marks of a sample. Every day, each fourth runs, and those with a reason."""
    everyday = number % 4 == 0 or path.stem in {*REJECTED, *WARNED}
    return () if everyday else pytest.mark.slow


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=rare(number, path))
        for number, path in enumerate(FILES)
    ],
)
def test_a_sample_renders_or_is_rejected(path):
    result = CliRunner().invoke(main, ["render", str(path)], catch_exceptions=False)

    lines = without_totals(result.stderr).splitlines()
    errors = [line for line in lines if ": warning: " not in line]
    others = [line for line in lines if line not in errors and "[differs]" not in line]
    for expected, found in ((REJECTED, errors), (WARNED, others)):
        assert len(found) == (path.stem in expected), found
        assert all(expected[path.stem] in line for line in found)
    assert result.exit_code == bool(errors)


def test_every_reason_is_that_of_a_sample():
    if not FILES:
        missing("there are no Go modules of KubeRay and AppWrapper; .ci/run downloads them")
    assert {*REJECTED, *WARNED} <= {path.stem for path in FILES}
