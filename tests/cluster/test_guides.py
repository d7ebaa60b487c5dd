"""The Python, the pipelines and the sweep of the guides, in a real cluster."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dag import operator
from namespaces import KUBECTL_IMAGE, PYTHON_IMAGE
from pages import DOCS, blocks

import mlgen
from mlgen.client import Cluster

pytestmark = pytest.mark.cluster

JOB = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "bert"},
    "spec": {
        "framework": "generic",
        "image": PYTHON_IMAGE,
        "command": ["python3", "-c", "import os; print('lr', os.environ['LR'])"],
        "env": {"LR": "0.5"},
        "roles": {"worker": {"resources": {"cpu": "50m", "memory": "64Mi"}}},
        "runPolicy": {"backoffLimit": 0},
        "helpers": {"pythonImage": PYTHON_IMAGE, "kubectlImage": KUBECTL_IMAGE},
    },
}

REPORTING = """
import json, os, sys, time, urllib.request
metrics = [{"name": "loss", "value": str(float(sys.argv[2]) ** 2)}]
body = json.dumps({"trainerStatus": {"progressPercentage": 100, "metrics": metrics}}).encode()
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
request = urllib.request.Request(
    os.environ["KUBEFLOW_TRAINER_SERVER_URL"], body, {"Authorization": f"Bearer {token}"}
)
for _ in range(300):  # until the supervisor runs
    try:
        urllib.request.urlopen(request, timeout=5).close()
        break
    except OSError:
        time.sleep(1)
else:
    sys.exit(1)
"""


def job(**spec):
    return json.dumps({**JOB, "spec": {**JOB["spec"], **spec}})


def code(page, title=None):
    """Return the Python blocks of a page with a title."""
    found = blocks(DOCS / page)
    return [each.text for each in found if each.language == "python" and each.title == title]


@pytest.fixture
def folder(namespace, tmp_path, monkeypatch):
    """An empty working folder, in which kubectl uses the namespace."""
    config = shutil.copy(namespace.environment["KUBECONFIG"], tmp_path / "kubeconfig")
    path = f"{Path(sys.executable).parent}:{namespace.environment['PATH']}"
    for name, value in {"KUBECONFIG": str(config), "PATH": path}.items():
        monkeypatch.setenv(name, value)
    command = ["kubectl", "config", "set-context", "--current", f"--namespace={namespace.name}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(line, **variables):
    """Run a line of a pipeline as its runner does. Return the exit status and the output."""
    done = subprocess.run(
        ["timeout", "600", "bash", "-eo", "pipefail", "-c", line],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_notebook_applies_follows_repeats_and_deletes_a_job(namespace, folder, capsys):
    (folder / "jobs/bert.yaml").write_text(job())
    first, second = code("integrations/python.md")[:2]
    second, end = second.split("cluster.status")
    scope = {}

    exec(first, scope)
    exec(second, scope)
    *_, last = scope["cluster"].wait("bert")
    exec(f"cluster.status{end}", scope)

    *_, state, line = capsys.readouterr().out.splitlines()
    assert ("bert Succeeded", "lr 0.1") == (state[:14], line)
    assert "Succeeded" == last.phase
    assert "" == namespace.kubectl("get", "jobs,pods,services", "-o", "name")


def test_the_airflow_task_waits_and_can_be_tried_again(namespace, folder, monkeypatch):
    """The worker's account has only the permissions of the page."""
    grant(namespace, folder)
    in_namespace = lambda **_: Cluster(namespace=namespace.name)  # noqa: E731
    train = operator(monkeypatch)
    monkeypatch.setattr(mlgen, "Cluster", in_namespace)
    (folder / "jobs/bert.yaml").write_text(job())

    def task(name, lr):
        settings = {"spec.env.LR": lr, "spec.command": ["sh", "-c", "test $LR = 0.1"]}
        return train("jobs/bert.yaml", name, settings, task_id="bert", retries=2)

    def pod(name):
        return namespace.kubectl("get", "pods", "-l", f"mlgen.dev/job={name}", "-o", "name")

    task("good", "0.1").execute({})
    succeeded = pod("good")
    task("good", "0.1").execute({})
    assert succeeded == pod("good") != ""

    with pytest.raises(RuntimeError, match="bad: Failed"):
        task("bad", "0.2").execute({})
    failed = pod("bad")
    with pytest.raises(RuntimeError, match="bad: Failed"):
        task("bad", "0.2").execute({})
    assert "" != failed != pod("bad")

    task("bad", "0.2").on_kill()
    assert "" == pod("bad")


def grant(namespace, folder):
    """Apply the page's RoleBinding, and let kubectl act as the account of the worker."""
    (text,) = [b.text for b in blocks(DOCS / "integrations/airflow.md") if b.language == "yaml"]
    for name in ("namespace: team-a", "namespace: airflow"):
        assert name in text
        text = text.replace(name, f"namespace: {namespace.name}")
    namespace.kubectl("create", "serviceaccount", "airflow-worker")
    namespace.kubectl("apply", "-f", "-", stdin=text)
    path = folder / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    for user in config["users"]:
        user["user"]["as"] = f"system:serviceaccount:{namespace.name}:airflow-worker"
    path.write_text(yaml.safe_dump(config))
    assert "no" in shell("kubectl auth can-i list nodes || true")[1].split()


def pipelines():
    """Return the lines of each pipeline of the page: training, after a failure, if canceled."""
    files = {b.title: yaml.safe_load(b.text) for b in blocks(DOCS / "guides/ci.md") if b.title}
    gitlab = files[".gitlab-ci.yml"]["train"]
    steps = files[".github/workflows/train.yaml"]["jobs"]["train"]["steps"]
    by_condition = {
        step.get("if"): step["run"] for step in steps if "mlgen " in step.get("run", "")
    }
    return {
        "gitlab": (*gitlab["script"], *gitlab["after_script"]),
        "github": tuple(by_condition[name] for name in (None, "failure()", "cancelled()")),
    }


@pytest.mark.parametrize("name", ["gitlab", "github"])
def test_a_pipeline_fails_with_training_and_deletes_a_canceled_job(namespace, folder, name):
    train, failed, canceled = pipelines()[name]
    text = job(command=["sh", "-c", "echo last words; exit 3"]).replace("bert", "train")
    (folder / "job.yaml").write_text(text)

    status, printed = shell(train)
    assert 3 == status, printed
    status, printed = shell(failed, CI_JOB_STATUS="failed")
    assert (0, True) == (status, "last words" in printed), printed
    (folder / "job.yaml").write_text(job().replace("bert", "train"))
    status, printed = shell(train)
    assert 0 == status, printed
    if name == "gitlab":
        assert (0, "") == shell(f"{failed}\n{canceled}", CI_JOB_STATUS="success")
    assert 0 == shell(canceled, CI_JOB_STATUS="canceled")[0]
    assert "" == namespace.kubectl("get", "jobs,pods", "-o", "name")


def test_the_metrics_of_a_sweep_are_compared(folder):
    sweep = job(
        command=["python3", "-c", REPORTING],
        args=["--lr", "0"],
        matrix={"args.lr": [3, 1, 2]},
        runPolicy={"backoffLimit": 0, "progress": {}},
    )
    (folder / "job.yaml").write_text(sweep)
    (compare,) = code("guides/sweeps.md", "compare.py")

    cluster = Cluster()
    jobs = mlgen.load("job.yaml")
    cluster.apply(jobs)
    states = {state.name: state.phase for state in cluster.wait(*jobs)}
    assert {"Succeeded"} == set(states.values())

    (folder / "compare.py").write_text(compare)
    status, printed = shell("python compare.py")
    expected = ["1.0 bert-lr-1", "4.0 bert-lr-2", "9.0 bert-lr-3"]
    assert (0, expected) == (status, printed.splitlines()), printed
