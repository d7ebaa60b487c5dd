"""What mlgen adds to wait for peers never keeps a job from training."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"

IMAGE_FILES = {
    "passwd": "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n",
    "ssh_config": "Host *\n  Port 2200\n",
    "sshd_config": "Port 2200\nHostKey /home/mpiuser/.ssh/id_rsa\nPidFile none\nStrictModes no\n"
    "UsePAM no\nAuthorizedKeysFile /home/mpiuser/.ssh/authorized_keys\n",
}
"""Files that an image with sshd has."""


def init_containers(pods, name):
    """Return when the init container of this name started and finished in each pod, in RFC 3339."""
    states = [
        status["state"]["terminated"]
        for pod in pods
        for status in pod["status"]["initContainerStatuses"]
        if status["name"] == name
    ]
    return [(state["startedAt"], state["finishedAt"]) for state in states]


def test_ranks_download_side_by_side_and_meet_at_a_port_of_their_own(namespace):
    namespace.apply(RESOURCES / "pytorchjob-endpoint.yaml")

    printed = namespace.completed("gpt-rank")

    assert {"world 2 sum 3.0"} == {line for lines in printed for line in lines if "world" in line}
    downloads = init_containers(namespace.pods("gpt-rank"), "download")
    assert len(downloads) == 2
    assert max(start for start, _ in downloads) < min(finish for _, finish in downloads)
    waits = init_containers(namespace.pods("gpt-rank"), "wait-for-peers")
    for (_, downloaded), (waited, _) in zip(downloads, waits, strict=True):
        assert downloaded <= waited


def test_a_job_waits_until_its_parameter_servers_have_room(namespace, jobs):
    gates = "spec.roles.ps.template.spec.schedulingGates=[{name: example.com/room}]"
    namespace.apply(jobs / "tensorflow-ps.yaml", "--set", gates)

    def chief_reports_them():
        pods = namespace.pods("mnist-chief")
        return pods and "waiting for 1 of" in namespace.log(pods[0], "wait-for-peers")

    namespace.until("the chief waits", chief_reports_them)
    lift = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
    namespace.kubectl("patch", "pod", "mnist-ps-0", "--type=json", "-p", lift)
    (lines,) = namespace.completed("mnist-chief", 300)

    (weight,) = [line for line in lines if line.startswith("weight")]
    assert abs(float(weight.split()[1]) - 3) < 0.2


def test_mpirun_reaches_an_sshd_with_the_configuration_of_the_image(namespace):
    files = [f"--from-literal={name}={text}" for name, text in IMAGE_FILES.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    command = [sys.executable, "-m", "mlgen", "ssh-secret", "lbm-ssh"]
    secret = subprocess.run(command, check=True, capture_output=True, text=True)
    namespace.kubectl("apply", "-f", "-", stdin=secret.stdout)
    namespace.apply(RESOURCES / "mpijob-own-sshd.yaml")

    (lines,) = namespace.completed("lbm-launcher")

    assert sorted(line for line in lines if line.startswith("rank")) == [
        "rank 0 sum 3",
        "rank 1 sum 3",
    ]
