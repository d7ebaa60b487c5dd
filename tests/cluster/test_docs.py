"""The quick start of the documentation, command by command, in a real cluster."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, blocks
from support import ROOT

pytestmark = pytest.mark.cluster

PAGE = blocks(DOCS / "tutorials/laptop.md")
JOB = next(block.text for block in PAGE if block.title == "job.yaml")
COMMANDS = [line for block in PAGE if "cluster" in block.remarks for line in block.lines()]


@pytest.fixture
def folder(tmp_path, namespace):
    """A folder with the page's job file, for an image and resources that the cluster has."""
    job = re.sub(r"\n +resources: .*", "", JOB.replace("example/train:1", "mlgen.test/ml:1"))
    (tmp_path / "job.yaml").write_text(job)
    config = shutil.copy(namespace.environment["KUBECONFIG"], tmp_path / "kubeconfig")
    command = ["kubectl", "config", "set-context", "--current", f"--namespace={namespace.name}"]
    variables = namespace.environment | {"KUBECONFIG": str(config)}
    subprocess.run(command, env=variables, check=True, capture_output=True)
    return tmp_path


@pytest.fixture
def shell(folder, namespace):
    """Run a command of the page as a person does, and return its output."""
    path = f"{Path(sys.executable).parent}:{namespace.environment['PATH']}"
    variables = namespace.environment | {"KUBECONFIG": str(folder / "kubeconfig"), "PATH": path}

    def shell(line):
        done = subprocess.run(
            ["timeout", "300", "bash", "-o", "pipefail", "-c", line],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return shell


def test_the_quick_start_works(shell):
    output = {line: shell(line) for line in COMMANDS}

    assert "rank 0 of 4: the sum is 10" in output["mlgen logs job.yaml --follow"]
    assert "rank 3 of 4: the sum is 10" in output["mlgen logs job.yaml --rank 3"]
    assert re.search(r"Succeeded|Complete", output["mlgen status job.yaml"])
    assert shell("kubectl get jobs,services,configmaps -l mlgen.dev/job=hello -o name") == ""


def test_the_readme_leads_to_the_same_logs():
    readme = [line for block in blocks(ROOT / "README.md") for line in block.lines()]

    assert set(COMMANDS[:2]) <= set(readme)
