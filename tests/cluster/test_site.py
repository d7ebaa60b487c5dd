"""What sites want around a job: security, storage, gangs; held against a real API server."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_the_api_server_takes_every_fixture_and_finds_the_level_that_validate_says(
    fixture, namespace, request
):
    manifests = namespace.render(fixture, "--namespace", namespace.name)
    if "kind: PodGroup" in manifests:
        request.getfixturevalue("pod_groups")
    command = [sys.executable, "-m", "mlgen", "validate", str(fixture)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    warned = []
    for level in ("baseline", "restricted"):
        label = f"pod-security.kubernetes.io/warn={level}"
        namespace.kubectl("label", "--overwrite", "namespace", namespace.name, label)
        words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
        taken, warnings = namespace.both(*words, given=manifests)

        assert taken.count("created (server dry run)") == manifests.count("\nkind: ")
        warned.append("would violate PodSecurity" in warnings)

    met = {(True, True): "privileged", (False, True): "baseline", (False, False): "restricted"}
    assert f"  PodSecurity: {met[tuple(warned)]}\n" in said


@pytest.mark.usefixtures("pod_groups")
def test_the_cluster_knows_what_a_gang_needs(namespace):
    """The API server has pruned nothing, so every field is one of the project's own."""
    for name in ("tensorflow-volcano", "pytorch-coscheduling"):
        fixture = next(path for path in FIXTURES if path.stem == name)
        manifests = namespace.render(fixture, "--namespace", namespace.name)
        namespace.kubectl(
            "apply", "-l", "app.kubernetes.io/component=gang", "-f", "-", given=manifests
        )

    volcano = namespace.get("podgroups.scheduling.volcano.sh", "wide-deep")["spec"]
    coscheduling = namespace.get("podgroups.scheduling.x-k8s.io", "dino")["spec"]

    assert (volcano["minMember"], volcano["minResources"]["memory"]) == (7, "39Gi")
    assert (volcano["queue"], volcano["priorityClassName"]) == ("ads", "high")
    assert (coscheduling["minMember"], coscheduling["scheduleTimeoutSeconds"]) == (2, 300)


def test_a_restricted_job_trains_where_nothing_else_may_run(namespace, jobs):
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.kubectl("label", "namespace", namespace.name, label)
    security = "spec.security={profile: restricted, runAsUser: 1000}"
    namespace.apply(jobs / "pytorch.yaml", "--set", security)

    printed = namespace.completed("bert-rank")

    assert "world 3 sum 6.0" in " ".join(printed[0])


def test_half_of_the_memory_is_shared(namespace, jobs):
    namespace.apply(jobs / "memory.yaml")

    ((line,),) = namespace.completed("memory-main")

    assert line.split() == ["tmpfs", "64", "0", "64", "0%", "/dev/shm"]


def test_each_replica_has_a_limit_of_its_own(namespace, jobs):
    namespace.apply(jobs / "limits.yaml")

    condition = namespace.ended("embed-shard")
    status = namespace.get("job", "embed-shard")["status"]

    assert (condition["type"], condition["reason"]) == ("Failed", "FailedIndexes")
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert status["failed"] == 2


def test_tensorboard_serves_what_replicas_write(namespace, jobs, library, tmp_path):
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
    answer = json.loads(namespace.kubectl("get", "--raw", f"{service}/data/environment"))

    assert (tmp_path / "logs/run").exists()
    assert answer["data_location"] == "/logs"


@pytest.fixture
def repository(here, tmp_path):
    """The address at which pods find a repository of one tagged commit."""
    if not Path("/usr/lib/git-core").is_dir():
        pytest.skip("there is no git for the pod in /usr/lib/git-core")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.txt").write_text("step 1\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    served = ["--export-all", f"--base-path={tmp_path}", "--reuseaddr", f"--port={port}"]
    with subprocess.Popen(["git", "daemon", *served]) as daemon:
        yield f"git://{here}:{port}/code"
        daemon.terminate()


def test_code_is_there_when_training_starts(namespace, jobs, repository):
    where = f"spec.volumes.code.git.repository={repository}"
    namespace.apply(jobs / "code.yaml", "--set", where)

    assert namespace.completed("code-main") == [["step 1"]]
