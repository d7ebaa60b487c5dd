"""Workflows that `mlgen argo` prints, linted and run by the real Argo Workflows."""

import re
import subprocess

import pytest
import yaml
from support import FIXTURES, RESOURCES, ROOT

from mlgen.documents.files import texts
from mlgen.integrations.argo import Form, argo
from mlgen.result import Options

pytestmark = pytest.mark.cluster

DOCS = (ROOT / "docs/argo.md").read_text()


def lint(folder, environment):
    command = ["argo", "lint", "--offline", "--strict", "--no-color", "."]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with the WorkflowTemplate; all objects in it have the same namespace."""
    monkeypatch.chdir(ROOT)
    template = yaml.safe_load((ROOT / "argo/workflow-template.yaml").read_text())
    put(tmp_path, "template", template)
    return tmp_path


def put(folder, name, *objects):
    for item in objects:
        item["metadata"]["namespace"] = "x"
    (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(objects))


@pytest.mark.parametrize("schedule", [None, "0 2 * * 6"])
def test_argo_lint_accepts_the_workflow_of_every_fixture(schedule, environment, folder):
    form = Form(schedule=schedule, backoff_seconds=30, retry_oom=True)
    for path in [*FIXTURES, *RESOURCES]:
        text, _ = argo(texts((str(path),)), Options(workflow=True), form)
        items = [o for o in yaml.safe_load_all(text) if o["apiVersion"].startswith("argoproj")]
        put(folder, path.stem, *items)

    lint(folder, environment)


def workflows(item):
    """Yield the Workflows in a document: itself, or those that a sensor creates."""
    if isinstance(item, dict) and item.get("kind") == "Workflow":
        yield item
    elif isinstance(item, dict):
        yield from (workflow for value in item.values() for workflow in workflows(value))
    elif isinstance(item, list):
        yield from (workflow for value in item for workflow in workflows(value))


def test_argo_lint_accepts_the_workflows_in_the_docs(environment, folder):
    blocks = re.findall(r"^```yaml\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    documented = [item for block in blocks for item in workflows(yaml.safe_load(block))]
    put(folder, "docs", *documented)

    assert len(documented) == 2
    lint(folder, environment)


TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  runPolicy: {cleanPodPolicy: Running}
  tfReplicaSpecs:
    Chief:
      template:
        spec:
          containers:
            - name: tensorflow
              image: busybox:1.36
              command: [sh, -c, "sleep 5; echo trained"]
    Worker:
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          containers:
            - name: tensorflow
              image: busybox:1.36
              command: [sh, -c, "trap 'exit 0' TERM; sleep 3600 & wait"]
"""


def test_a_custom_resource_runs_to_completion_and_is_cleaned_up(namespace, tmp_path):
    (tmp_path / "tfjob.yaml").write_text(TFJOB)
    namespace.kubectl("apply", "-k", str(ROOT / "argo"))

    namespace.argo(tmp_path / "tfjob.yaml")

    def ended():
        return namespace.get("workflow", "mnist").get("status", {}).get("finishedAt")

    namespace.until("the Workflow ended", ended)
    assert namespace.get("workflow", "mnist")["status"]["phase"] == "Succeeded"
    status = namespace.get("configmap", "mnist-status")["data"]
    assert status["Succeeded"].startswith("True ")
    assert status["replicas.worker"] == "active 0, succeeded 0, failed 0"

    # Deleting the Workflow deletes what the step applied, and nothing else.
    namespace.kubectl("delete", "workflow", "mnist")
    kinds = "jobs,statefulsets,services,pods"
    namespace.until("all has gone", lambda: not namespace.kubectl("get", kinds, "-o", "name"))
    assert namespace.get("configmap", "mnist-manifests")
