"""Compares the pods of the rendered manifests with the pods that the real operators created."""

import importlib.util
import json
import re

import pytest
from click.testing import CliRunner
from support import ROOT, load_all

from mlgen.cli import main

ORACLE = ROOT.parent / "shared" / "oracle"
CASES = sorted((ORACLE / "cases").glob("*.json"))
TRAINJOBS = sorted((ORACLE / "trainer").glob("*.json"))

SSHD = "command is ['/etc/mpi/start-sshd.sh']"
"""mlgen's command for a worker without one; see docs/migrate/mpi-operator.md."""


ATTEMPTS = "is '-o ConnectionAttempts=300', the operator's is '-o ConnectionAttempts=10'"
"""If only the image sets the port of ssh, the launcher does not wait until sshd listens."""


NO_GPUS = r"env NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES) is missing \(operator: ''\)$"
"""The operator sets both in each launcher without GPUs. The first one is enough, and needed only in
an image that may have it, because a role with GPUs has the same one."""


def is_intended(line, case):
    """Return True for a difference that is intended."""
    # The API server adds requests to pods. The operator's launcher is a Job, without its pod.
    template = (
        case["cr"]["apiVersion"] == "kubeflow.org/v2beta1" and "(launcher 0): resources" in line
    )
    return SSHD in line or ATTEMPTS in line or template or bool(re.search(NO_GPUS, line))


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", ORACLE / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(case, compare):
    """Return the differences that are not intended."""
    # mlgen rejects this invalid image name. The operator never pulled the image.
    resource = json.dumps(case["cr"]).replace("<your_project>", "your-project")
    case["objects"] = json.loads(
        json.dumps(case["objects"]).replace("<your_project>", "your-project")
    )

    rendered = CliRunner().invoke(main, ["render", "-"], resource, catch_exceptions=False)
    if not case["objects"]:  # the operator rejected it
        rejected = rendered.exit_code == 1 or "requires a container" in rendered.stderr
        return [] if rejected else ["the operator rejected it"]
    if rendered.exit_code:
        return [rendered.stderr]
    lines = compare.differences(case, rendered.stdout)
    return [line for line in lines if not is_intended(line, case)]


@pytest.mark.slow
@pytest.mark.skipif(not CASES, reason="there is no ../shared/oracle")
def test_pods_are_those_of_the_operator(compare):
    found = {path.stem: differences(json.loads(path.read_text()), compare) for path in CASES}

    assert {name: lines for name, lines in found.items() if lines} == {}


def pods_of_jobset(objects):
    """The pods of the JobSet that Trainer created, as the JobSet controller creates them.

    Pods that wait for others do not exist in the recording. All others are compared with it.
    """
    (jobset,) = (item for item in objects if item["kind"] == "JobSet")
    name, pods = jobset["metadata"]["name"], []
    for job in jobset["spec"]["replicatedJobs"]:
        for number in range(job["replicas"]):
            spec = job["template"]["spec"]
            for index in range(spec["completions"]):
                host = f"{name}-{job['name']}-{number}-{index}"
                labels = {
                    "training.kubeflow.org/replica-type": f"{job['name']}-{number}",
                    "training.kubeflow.org/replica-index": str(index),
                }
                metadata = {
                    "name": host,
                    "namespace": jobset["metadata"]["namespace"],
                    "labels": labels,
                    "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
                }
                pod = spec["template"]["spec"] | {"hostname": host, "subdomain": name}
                pods.append({"kind": "Pod", "metadata": metadata, "spec": pod})
    hosts = {pod["spec"]["hostname"] for pod in pods}
    recorded = {item["spec"]["hostname"] for item in objects if item["kind"] == "Pod"}
    assert recorded <= hosts
    return pods


@pytest.mark.skipif(not TRAINJOBS, reason="there is no ../shared/oracle/trainer")
@pytest.mark.parametrize("path", TRAINJOBS, ids=lambda path: path.stem)
@pytest.mark.parametrize("order", [1, -1], ids=["as-recorded", "reversed"])
def test_pods_are_those_of_trainer(path, order, compare):
    case = json.loads(path.read_text())
    stream = "\n---\n".join(map(json.dumps, case["input"][::order]))
    (case["cr"],) = (item for item in case["input"] if item["kind"] == "TrainJob")
    maps = [item for item in case["objects"] if item["kind"] == "ConfigMap"]
    case["objects"] = [*pods_of_jobset(case["objects"]), *maps]

    rendered = CliRunner().invoke(main, ["render", "-"], stream, catch_exceptions=False)

    assert rendered.exit_code == 0, rendered.stderr
    assert list(compare.differences(case, rendered.stdout)) == []
    names = [pod["metadata"]["name"] for pod in case["objects"] if pod["kind"] == "Pod"]
    pods = compare.rendered_pods(load_all(rendered.stdout), "default")
    assert sorted(pod.name for pod in pods) == sorted(names)
    theirs = compare.operator_pods(case["objects"])
    assert [placed(pod.spec) for pod in pods] == [placed(pod.spec) for pod in theirs]
    # With a failurePolicy, a failed pod restarts all pods: see docs/migrate/jobset.md.
    policy = "Never" if "failurePolicy" in stream else "OnFailure"
    assert {pod.spec["restartPolicy"] for pod in theirs} == {"OnFailure"}
    assert {pod.spec["restartPolicy"] for pod in pods} == {policy}


def placed(spec):
    """The fields of a pod that determine where it runs, as whom and with which secrets."""
    fields = ("nodeSelector", "tolerations", "serviceAccountName")
    probes = [each.get("readinessProbe") for each in spec["containers"]]
    users = [each.get("securityContext") for each in (spec, *spec["containers"])]
    secrets = [each for each in spec.get("volumes", []) if "secret" in each]
    return [*map(spec.get, fields), probes, users, secrets]
