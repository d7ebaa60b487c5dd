"""Site requirements such as security, storage and gang scheduling, in a real cluster."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_the_api_server_accepts_every_fixture_at_the_pod_security_level_that_show_reports(
    fixture, namespace, request
):
    manifests = namespace.render(fixture, "--namespace", namespace.name)
    if "kind: PodGroup" in manifests:
        request.getfixturevalue("pod_groups")
    command = [sys.executable, "-m", "mlgen", "show", str(fixture)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    warned = []
    for level in ("baseline", "restricted"):
        label = f"pod-security.kubernetes.io/warn={level}"
        namespace.kubectl("label", "--overwrite", "namespace", namespace.name, label)
        words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
        output, warnings = namespace.stdout_and_stderr(*words, stdin=manifests)

        assert output.count("created (server dry run)") == manifests.count("\nkind: ")
        warned.append("would violate PodSecurity" in warnings)

    levels = {(True, True): "privileged", (False, True): "baseline", (False, False): "restricted"}
    assert re.search(rf"^PodSecurity: {levels[tuple(warned)]}(;|$)", report, re.MULTILINE)


@pytest.mark.usefixtures("pod_groups")
def test_the_pod_groups_of_a_gang_keep_all_fields(namespace):
    """The API server prunes unknown fields, so each field that it keeps is in the CRD."""
    for name in ("tensorflow-volcano", "pytorch-coscheduling"):
        fixture = next(path for path in FIXTURES if path.stem == name)
        manifests = namespace.render(fixture, "--namespace", namespace.name)
        namespace.kubectl(
            "apply", "-l", "app.kubernetes.io/component=gang", "-f", "-", stdin=manifests
        )

    volcano = namespace.get("podgroups.scheduling.volcano.sh", "wide-deep")["spec"]
    coscheduling = namespace.get("podgroups.scheduling.x-k8s.io", "dino")["spec"]

    assert (volcano["minMember"], volcano["minResources"]["memory"]) == (7, "39Gi")
    assert (volcano["queue"], volcano["priorityClassName"]) == ("ads", "high")
    assert (coscheduling["minMember"], coscheduling["scheduleTimeoutSeconds"]) == (2, 300)


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
