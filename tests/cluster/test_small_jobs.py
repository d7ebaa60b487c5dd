"""Small jobs do what their fields say: ends, exit codes, texts, code and requirements of a site."""

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from namespaces import PYTHON_IMAGE, temporary_namespace
from ruamel.yaml import YAML
from support import ROOT, missing

from mlgen.kubernetes.quantity import readable_amounts
from mlgen.kubernetes.validation.rows import image

pytestmark = pytest.mark.cluster

TEXTS = ROOT / "fixtures/generic-texts.yaml"

PRINT = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
"""A program that prints its arguments and its environment."""

BOARD = '#!/bin/sh\nPYTHONPATH=/opt/board exec python3 -m tensorboard.main "$@"\n'

IMAGES = {
    "localhost/a": True,
    "Registry/a:1": True,
    "[::1]:5000/a_b__c--d:1": True,
    "a:b@sha256:" + "0" * 64: True,
    "Example/Mnist:1": False,
    "https://example.com/mnist:1": False,
    "example/mnist:${TAG}": False,
    "{{ .Values.image }}": False,
    "a:b:c": False,
    "a..b": False,
    "f" * 64: False,
    "example.com:port/a": False,
}
"""Names, and whether a container runtime accepts them. None of the images exists."""

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: all}
spec: {hard: {pods: "10", requests.cpu: "10", requests.memory: 10Gi}}
"""

IMAGED = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: imaged}
spec:
  framework: generic
  image: mlgen.test/ml:1
  roles:
    prepare: {command: [echo, prepared]}
    train:
      replicas: 2
      command: [echo, trained]
      waitFor: [{role: prepare, until: Complete}]
  successPolicy: {role: train}
"""

PACKAGES = "/usr/lib/python3/dist-packages/mlgen"
"""The path of packages for Debian's Python in the test image."""


@pytest.fixture(scope="module")
def repository(here, tmp_path_factory):
    """URL of a Git repository with one tagged commit, which pods can clone."""
    if not Path("/usr/lib/git-core").is_dir():
        missing("there is no git for the pod in /usr/lib/git-core")
    root = tmp_path_factory.mktemp("repositories")
    folder = root / "code"
    folder.mkdir()
    (folder / "train.txt").write_text("step 1\n")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    options = ["--export-all", f"--base-path={root}", "--reuseaddr", f"--port={port}"]
    with subprocess.Popen(["git", "daemon", *options]) as daemon:
        yield f"git://{here}:{port}/code"
        daemon.terminate()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The folder of TensorBoard's logs."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def restricted(environment, jobs):
    """A namespace that enforces the PodSecurity level restricted, with one job."""
    with temporary_namespace(environment) as created:
        label = "pod-security.kubernetes.io/enforce=restricted"
        created.kubectl("label", "namespace", created.name, label)
        security = "spec.security={profile: restricted, runAsUser: 1000}"
        created.start(jobs / "pytorch.yaml", security, "spec.runPolicy.restartScope=All")
        yield created


@pytest.fixture(scope="module")
def shared(shared_namespace, restricted, jobs, repository, library, logs, tmp_path_factory):  # noqa: ARG001, PLR0913, PLR0917
    """The namespace of all other jobs. Those that fail at first and are then cured come first."""
    namespace, folder = shared_namespace, tmp_path_factory.mktemp("jobs")
    for code in (42, 137, 143):
        cure = f"spec.env.CURE.valueFrom.configMapKeyRef.name=cure-{code}"
        setting = f'spec.roles.main.env.CODE="{code}"'
        namespace.start(jobs / "exit-code.yaml", f"metadata.name=codes-{code}", cure, setting)
    namespace.start(jobs / "endings.yaml")
    retried = ("metadata.name=retried", "spec.roles.worker.replicas=0")
    fails = ("spec.command=[sh, -c, exit 1]", "spec.runPolicy.backoffLimit=1")
    namespace.start(jobs / "endings.yaml", *retried, *fails)
    namespace.start(jobs / "limits.yaml")
    namespace.start(jobs / "never.yaml")
    namespace.start(jobs / "memory.yaml")
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(pod_of(IMAGES)))
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(imaged(namespace, folder)))
    prints = f"spec.command={json.dumps(['python3', '-c', PRINT])}"
    namespace.start(TEXTS, "spec.image=mlgen.test/ml:1", prints)
    namespace.start(jobs / "code.yaml", f"spec.volumes.code.git.repository={repository}")
    for code in (137, 143):
        failed = lambda job: job["status"].get("failed")  # noqa: E731
        namespace.watch("the first failure", "job", f"codes-{code}-main", failed)
        namespace.kubectl("create", "configmap", f"cure-{code}", "--from-literal=code=0")
    (folder / "tensorboard").write_text(BOARD)
    (folder / "tensorboard").chmod(0o755)
    folders = {"tools": folder, "logs": logs, "library": library("tensorboard==2.21.0")}
    settings = (f"spec.volumes.{name}.hostPath={path}" for name, path in folders.items())
    namespace.start(jobs / "tensorboard.yaml", *settings)
    return namespace


def pod_of(images):
    """Return a pod with a container of each image."""
    containers = [
        {"name": f"c{number}", "image": text, "imagePullPolicy": "IfNotPresent"}
        for number, text in enumerate(images)
    ]
    spec = {"terminationGracePeriodSeconds": 0, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images"}, "spec": spec}


def imaged(namespace, folder):
    """Return a job whose supervisor is the program of an image, which is this checkout's.

    No image of the test cluster contains mlgen, so the pods mount it from this machine.
    """
    (folder / "job.yaml").write_text(IMAGED)
    options = ("--set", f"spec.helpers.supervisorImage={PYTHON_IMAGE}", "--format", "json")
    manifests = json.loads(namespace.render(folder / "job.yaml", *options))
    objects = {(item["kind"], item["metadata"]["name"]): item for item in manifests["items"]}
    assert ["plan.json"] == list(objects["ConfigMap", "imaged.supervisor"]["data"])
    pod = objects["Job", "imaged-supervisor"]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "mlgen", "hostPath": {"path": str(ROOT / "mlgen")}})
    pod["containers"][0]["volumeMounts"].append({"name": "mlgen", "mountPath": PACKAGES})
    return manifests


def test_a_permanent_exit_code_fails_the_job_without_a_retry(shared):
    condition = shared.ended("codes-42-main")

    assert (condition["type"], condition["reason"]) == ("Failed", "PodFailurePolicy")
    assert "exit code 42" in condition["message"]
    assert len(shared.pods("codes-42-main")) == 1


@pytest.mark.parametrize("code", [137, 143])
def test_a_retryable_exit_code_is_retried(shared, code):
    shared.completed(f"codes-{code}-main")

    assert shared.get("job", f"codes-{code}-main")["status"]["failed"] >= 1


def test_all_ranks_save_their_shards_after_rank_0_has_ended(shared):
    logs = shared.completed("endings-rank")

    assert sorted(line for log in logs for line in log) == [
        f"shard {rank} is saved" for rank in range(3)
    ]


def test_a_backoff_limit_retries_a_role_that_never_restarts(shared):
    condition = shared.ended("retried-master")

    assert condition["reason"] == "BackoffLimitExceeded"
    assert len(shared.pods("retried-master")) == 2


def test_each_replica_has_its_own_backoff_limit(shared):
    condition = shared.ended("embed-shard")
    status = shared.get("job", "embed-shard")["status"]

    assert (condition["type"], condition["reason"]) == ("Failed", "FailedIndexes")
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert status["failed"] == 2


def test_a_missing_peer_is_named_in_the_timeout_message(shared):
    condition = shared.ended("lonely-client")
    (pod,) = shared.pods("lonely-client")
    (status,) = pod["status"]["initContainerStatuses"]

    assert condition["type"] == "Failed"
    assert status["state"]["terminated"]["exitCode"] == 75
    assert shared.log(pod, "wait-for-peers").splitlines()[-1] == (
        "timed out after 3s waiting for 2 of 2 peers:"
        " lonely-server-0.lonely:7000, lonely-server-1.lonely:7000"
    )


def test_shared_memory_is_half_of_the_memory(shared):
    ((line,),) = shared.completed("memory-main")

    assert line.split() == ["tmpfs", "64", "0", "64", "0%", "/dev/shm"]


def test_the_container_runtime_and_mlgen_take_the_same_texts_for_images(shared):
    def reasons(pod):
        statuses = pod["status"].get("containerStatuses", [])
        found = {s["name"]: s["state"].get("waiting", {}).get("reason") for s in statuses}
        waiting = {None, "ContainerCreating", "PodInitializing"}
        return None if not found or waiting & set(found.values()) else found

    found = shared.watch("images have been pulled", "pod", "images", reasons)

    taken = [found[f"c{number}"] != "InvalidImageName" for number in range(len(IMAGES))]
    assert taken == list(IMAGES.values())
    assert taken == [not list(image((), text)) for text in IMAGES]


def test_the_supervisor_of_an_image_starts_the_next_role(shared):
    assert [["trained"], ["trained"]] == shared.completed("imaged-train")
    assert "Complete" == shared.ended("imaged-supervisor")["type"]
    assert "True" == shared.conditions("imaged")["Succeeded"][0]


def test_args_and_env_reach_the_container_unchanged(shared):
    expected = YAML(typ="safe").load(TEXTS.read_text())["spec"]["roles"]["main"]

    ((line,),) = shared.completed("texts-main")
    args, env = json.loads(line)

    assert args == expected["args"]
    assert {name: env[name] for name in expected["env"]} == expected["env"]


def test_code_is_cloned_before_training_starts(shared):
    assert shared.completed("code-main") == [["step 1"]]


def test_tensorboard_serves_the_logs_that_replicas_write(shared, logs):
    shared.completed("board-main")
    available = ("--for=condition=Available", "--timeout=300s")
    shared.kubectl("wait", "deployment/board-tensorboard", *available)
    service = f"/api/v1/namespaces/{shared.name}/services/board-tensorboard:http/proxy"
    response = json.loads(shared.kubectl("get", "--raw", f"{service}/data/environment"))

    assert (logs / "run").exists()
    assert response["data_location"] == "/logs"


def test_reapplying_changes_nothing(shared, jobs):
    job = (jobs / "pytorch.yaml", "metadata.name=again", "spec.image=busybox:1.36")
    first = shared.start(*job, "spec.command=[echo]")
    second = shared.start(*job, "spec.command=[echo]")

    assert {line.rpartition(" ")[2] for line in first.splitlines()} == {"created"}
    assert {line.rpartition(" ")[2] for line in second.splitlines()} == {"unchanged"}


def test_the_printed_commands_create_what_the_pods_wait_for(shared, jobs, tmp_path):
    (tmp_path / "note").write_text("noted")
    report = shared.mlgen("show", str(jobs / "prerequisites.yaml"), "-n", shared.name)
    commands = re.findall(r" {3}(kubectl create .*)", report)

    for command in commands:
        with_file = command.replace("--from-file=…", f"--from-file={tmp_path / 'note'}")
        words = with_file.replace("…", "given").split()
        subprocess.run(words, check=True, capture_output=True, env=shared.environment)
    shared.start(jobs / "prerequisites.yaml")

    assert len(commands) == 4
    assert shared.completed("needy-main") == [["given given noted"]] * 2


def test_the_totals_are_those_that_a_quota_counts(namespace, jobs):
    """Requests of init containers count in addition to sidecars that started before them."""
    job = jobs / "prerequisites.yaml"
    namespace.kubectl("apply", "-f", "-", stdin=QUOTA)
    namespace.watch(
        "the quota is in force", "quota", "all", lambda quota: "used" in quota["status"]
    )
    namespace.start(job, "spec.roles.main.template.spec.serviceAccountName=default")

    used = namespace.watch(
        "two pods exist",
        "quota",
        "all",
        lambda quota: (used := quota["status"]["used"])["pods"] == "2" and used,
    )

    shown = readable_amounts({name: used[f"requests.{name}"] for name in ("cpu", "memory")})
    row = rf"all roles +2 +{shown['cpu']} +{shown['memory']}\n"
    assert re.search(row, namespace.mlgen("show", str(job)))


@pytest.mark.usefixtures("shared")
def test_a_restricted_job_trains_in_a_namespace_that_enforces_restricted(restricted):
    printed = restricted.completed("bert-rank")

    assert "world 3 sum 6.0" in " ".join(printed[0])
    assert restricted.ended("bert-supervisor")["type"] == "Complete"
