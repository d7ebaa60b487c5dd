"""What the real operators made of real custom resources, held against what is rendered of them."""

import importlib.util
import json

import pytest
import yaml
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main

ORACLE = ROOT.parent / "shared" / "oracle"
CASES = sorted((ORACLE / "cases").glob("*.json"))

SSHD = "command is ['/usr/sbin/sshd', '-De', '-f', '/root/.ssh/sshd_config']"
"""Our own settings for a worker without a command: a row of docs/custom-resources.md."""


def decided(line, case):
    """Whether a difference is meant."""
    # The API server writes a limit into a pod's requests, but the launcher's is a Job's template.
    template = (
        case["cr"]["apiVersion"] == "kubeflow.org/v2beta1" and "(launcher 0): resources" in line
    )
    return SSHD in line or template


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
    given = yaml.safe_dump(case["cr"])

    rendered = CliRunner().invoke(main, ["render", "-"], given, catch_exceptions=False)
    if not case["objects"]:  # the operator made nothing of it
        assert rendered.exit_code == 1
        return
    assert rendered.exit_code == 0, rendered.stderr
    found = compare.differences(case, rendered.stdout)

    assert [line for line in found if not decided(line, case)] == []
