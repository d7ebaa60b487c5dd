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

DOCS = (ROOT / "docs/integrations/argo.md").read_text()


def lint(folder, environment):
    command = ["argo", "lint", "--offline", "--strict", "--no-color", "."]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with the WorkflowTemplate. All objects in it have the same namespace."""
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
    form = Form(schedule, backoff_seconds=30, parallelism=2, fail_fast=True)
    for path in [*FIXTURES, *RESOURCES, ROOT / "fixtures/matrix/pytorch.yaml"]:
        parts, _ = argo(texts((str(path),)), Options(workflow=True), form)
        items = [
            o for o in yaml.safe_load_all("".join(parts)) if o["apiVersion"].startswith("argoproj")
        ]
        put(folder, path.stem, *items)

    lint(folder, environment)


def workflows(item):
    """Yield the Workflows in a document: itself, or the Workflows that a sensor creates."""
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

    assert len(documented) == 1
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


SWEEP = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: sweep}
spec:
  framework: generic
  image: busybox:1.36
  command: [sh, -c, 'echo "$0 $@, seed $SEED"; sleep 2; [ "$2, $SEED" != "1e-4, 2" ] || exit 3']
  args: [train, --lr, "1e-3"]
  roles: {worker: {}}
  matrix:
    args.lr: [1e-4, 1e-5]
    spec.env.SEED: [1, 2]
"""


@pytest.fixture(scope="module")
def running(shared_namespace, tmp_path_factory):
    """The namespace in which both jobs run at the same time."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "tfjob.yaml").write_text(TFJOB)
    (folder / "sweep.yaml").write_text(SWEEP)
    template = shared_namespace.mlgen("argo", "--template")
    shared_namespace.kubectl("apply", "--server-side", "-f", "-", stdin=template)
    shared_namespace.argo(folder / "sweep.yaml", "--parallelism", "2")
    shared_namespace.argo(folder / "tfjob.yaml")
    return shared_namespace


def ended(namespace, name):
    """Wait until a Workflow has ended; return its status."""

    def finished_status(workflow):
        status = workflow.get("status", {})
        return status if status.get("finishedAt") else None

    return namespace.watch(f"Workflow {name} ended", "workflow", name, finished_status)


def test_a_custom_resource_runs_to_completion_and_is_cleaned_up(running):
    namespace = running

    assert ended(namespace, "mnist")["phase"] == "Succeeded"
    status = namespace.get("configmap", "mnist.status")["data"]
    assert status["Succeeded"].startswith("True ")
    assert status["replicas.worker"] == "active 0, succeeded 0, failed 0"

    # Deleting the Workflow deletes only the objects that the step applied.
    namespace.kubectl("delete", "workflow", "mnist")
    own = ("jobs,statefulsets,services,pods", "-l", "mlgen.dev/job=mnist", "-o", "name")
    namespace.until("all has gone", lambda: not namespace.kubectl("get", *own))
    assert namespace.get("configmap", "mnist.manifests")


def test_a_workflow_runs_two_combinations_at_a_time_and_all_of_them(running):
    status = ended(running, "sweep")

    # After a combination has failed, the next ones still run.
    assert status["phase"] == "Failed"
    prefix, steps = "sweep-lr-", status["nodes"].values()
    phases = {
        re.search(rf"{prefix}[\w-]+", step["displayName"])[0]: step["phase"]
        for step in steps
        if step["displayName"].startswith("sweep(")
    }
    assert phases == {
        "sweep-lr-1e-4-seed-1": "Succeeded",
        "sweep-lr-1e-4-seed-2": "Failed",
        "sweep-lr-1e-5-seed-1": "Succeeded",
        "sweep-lr-1e-5-seed-2": "Succeeded",
    }
    times = [
        (step["startedAt"], step["finishedAt"])
        for step in steps
        if step["displayName"] == "attempt(0)"
    ]
    at_once = [sum(start <= moment < end for start, end in times) for moment, _ in times]
    assert (len(times), max(at_once)) == (4, 2)
    label = "matrix.mlgen.dev/lr=1e-5,matrix.mlgen.dev/SEED=2"
    (job,) = running.get("jobs", "-l", label)["items"]
    (pod,) = running.get(
        "pods", "-l", f"mlgen.dev/job={job['metadata']['labels']['mlgen.dev/job']}"
    )["items"]
    assert running.log(pod) == "train --lr 1e-5, seed 2\n"
