"""Site requirements such as security and storage, in a real cluster."""

import json
import socket
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster


def test_a_restricted_job_trains_in_a_namespace_that_enforces_restricted(namespace, jobs):
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.kubectl("label", "namespace", namespace.name, label)
    security = "spec.security={profile: restricted, runAsUser: 1000}"
    supervisor = "spec.runPolicy.restartScope=All"
    namespace.apply(jobs / "pytorch.yaml", "--set", security, "--set", supervisor)

    printed = namespace.completed("bert-rank")

    assert "world 3 sum 6.0" in " ".join(printed[0])
    assert namespace.ended("bert-supervisor")["type"] == "Complete"


def test_shared_memory_is_half_of_the_memory(namespace, jobs):
    namespace.apply(jobs / "memory.yaml")

    ((line,),) = namespace.completed("memory-main")

    assert line.split() == ["tmpfs", "64", "0", "64", "0%", "/dev/shm"]


def test_each_replica_has_its_own_backoff_limit(namespace, jobs):
    namespace.apply(jobs / "limits.yaml")

    condition = namespace.ended("embed-shard")
    status = namespace.get("job", "embed-shard")["status"]

    assert (condition["type"], condition["reason"]) == ("Failed", "FailedIndexes")
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert status["failed"] == 2


def test_tensorboard_serves_the_logs_that_replicas_write(namespace, jobs, library, tmp_path):
    program = '#!/bin/sh\nPYTHONPATH=/opt/board exec python3 -m tensorboard.main "$@"\n'
    (tmp_path / "tensorboard").write_text(program)
    (tmp_path / "tensorboard").chmod(0o755)
    (tmp_path / "logs").mkdir()
    folders = {"tools": tmp_path, "logs": tmp_path / "logs", "library": library("tensorboard")}
    settings = [f"spec.volumes.{name}.hostPath={path}" for name, path in folders.items()]
    namespace.apply(jobs / "tensorboard.yaml", *(w for s in settings for w in ("--set", s)))

    namespace.completed("board-main")
    available = ("--for=condition=Available", "--timeout=120s")
    namespace.kubectl("wait", "deployment/board-tensorboard", *available)
    service = f"/api/v1/namespaces/{namespace.name}/services/board-tensorboard:http/proxy"
    response = json.loads(namespace.kubectl("get", "--raw", f"{service}/data/environment"))

    assert (tmp_path / "logs/run").exists()
    assert response["data_location"] == "/logs"


@pytest.fixture
def repository(here, tmp_path):
    """URL of a Git repository with one tagged commit, which pods can clone."""
    if not Path("/usr/lib/git-core").is_dir():
        pytest.skip("there is no git for the pod in /usr/lib/git-core")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.txt").write_text("step 1\n")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    options = ["--export-all", f"--base-path={tmp_path}", "--reuseaddr", f"--port={port}"]
    with subprocess.Popen(["git", "daemon", *options]) as daemon:
        yield f"git://{here}:{port}/code"
        daemon.terminate()


def test_code_is_cloned_before_training_starts(namespace, jobs, repository):
    setting = f"spec.volumes.code.git.repository={repository}"
    namespace.apply(jobs / "code.yaml", "--set", setting)

    assert namespace.completed("code-main") == [["step 1"]]
