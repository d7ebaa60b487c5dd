"""Compares the pods of the rendered manifests with the pods that the real operators created."""

import importlib.util
import json

import pytest
import yaml
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main

ORACLE = ROOT.parent / "shared" / "oracle"
CASES = sorted((ORACLE / "cases").glob("*.json"))

SSHD = "command is ['/etc/mpi/start-sshd.sh']"
"""mlgen's command for a worker without one; see docs/reference/custom-resources.md."""


ATTEMPTS = "is '-o ConnectionAttempts=300', the operator's is '-o ConnectionAttempts=10'"
"""If only the image sets the port of ssh, the launcher does not wait until sshd listens."""


def is_intended(line, case):
    """Return True for a difference that is intended."""
    # The API server adds requests to pods. The operator's launcher is a Job, without its pod.
    template = (
        case["cr"]["apiVersion"] == "kubeflow.org/v2beta1" and "(launcher 0): resources" in line
    )
    return SSHD in line or ATTEMPTS in line or template


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", ORACLE / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not CASES, reason="there is no ../shared/oracle")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_pods_are_those_of_the_operator(path, compare):
    case = json.loads(path.read_text())
    # mlgen rejects this invalid image name. The operator never pulled the image.
    resource = yaml.safe_dump(case["cr"]).replace("<your_project>", "your-project")
    case["objects"] = json.loads(
        json.dumps(case["objects"]).replace("<your_project>", "your-project")
    )

    rendered = CliRunner().invoke(main, ["render", "-"], resource, catch_exceptions=False)
    if not case["objects"]:  # the operator rejected it
        assert rendered.exit_code == 1 or "the operator requires a container" in rendered.stderr
        return
    assert rendered.exit_code == 0, rendered.stderr
    differences = compare.differences(case, rendered.stdout)

    assert [line for line in differences if not is_intended(line, case)] == []
