"""mlgen's waits for peers never prevent training."""

import json
import time
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
"""Files of an image with sshd."""


def init_containers(pods, name):
    """Map each pod to the start and end of its init container of this name, in RFC 3339."""
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


GATES = ("--set", "spec.template.spec.schedulingGates=[{name: example.com/room}]")
"""Settings that keep a job's pods unscheduled until their gates are removed."""

LIFT = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])

LATE = 45
"""Seconds during which a late replica has no address, and its name does not resolve."""


def lift(namespace, selected):
    """Remove the gates of the selected pods, once their controllers have created them."""
    for pod in namespace.get("pods")["items"]:
        name, gated = pod["metadata"]["name"], pod["spec"].get("schedulingGates")
        if gated and selected(name):
            namespace.kubectl("patch", "pod", name, "--type=json", "-p", LIFT)


def test_a_rank_waits_until_rank_0_has_room(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml", *GATES)
    namespace.until("three pods", lambda: len(namespace.pods("bert-rank")) == 3)
    lift(namespace, lambda name: "rank-0" not in name)

    def a_rank_reports_it():
        logs = [namespace.log(pod, "wait-for-peers") for pod in namespace.pods("bert-rank")]
        return "waiting for 1 of 1 peers: bert-rank-0\n" in logs

    namespace.until("a rank reports it", a_rank_reports_it)
    lift(namespace, bool)

    assert len(namespace.completed("bert-rank", 300)) == 3


@pytest.fixture(scope="module")
def late(shared_namespace):
    """A namespace with jobs, each of which has one late replica."""
    folder, namespace = Path(__file__).parent / "jobs", shared_namespace
    files = ("tensorflow-ps", "tensorflow-allreduce", "mxnet", "mpi")
    for file in files:
        namespace.apply(folder / f"{file}.yaml", *GATES)
    pods = ("mnist-ps-0", "resnet-worker-0", "cifar-scheduler-0", "pi-worker-1")
    begin = time.monotonic()
    while time.monotonic() < begin + LATE:
        lift(namespace, lambda name: not name.startswith(pods))
        time.sleep(1)
    lift(namespace, bool)
    return namespace


@pytest.mark.parametrize(
    ("job", "words", "waits"),
    [
        ("mnist-chief", "workers 2 total 200.0", "mnist-ps-0"),
        ("resnet-worker", "sum 3.0", "resnet-worker-0"),
        ("cifar-worker", "workers 2 weight 1.0", "cifar-scheduler-0"),
        ("pi-launcher", "rank 3 sum 10 on pi-worker-1", None),  # its agents wait
    ],
)
def test_a_job_trains_with_a_peer_that_comes_late(late, job, words, waits):
    printed = late.completed(job, 300)

    assert all(any(line.startswith(words) for line in lines) for lines in printed)
    if waits:
        logs = [late.log(pod, "wait-for-peers") for pod in late.pods(job)]
        assert any(waits in log for log in logs)
        assert all(log.endswith("all peers are reachable\n") for log in logs)
    else:
        assert "wait-for-peers" not in json.dumps(late.pods(job))


def test_mpirun_reaches_an_sshd_with_the_configuration_of_the_image(namespace):
    files = [f"--from-literal={name}={text}" for name, text in IMAGE_FILES.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "lbm-ssh"))
    namespace.apply(RESOURCES / "mpijob-own-sshd.yaml")

    (lines,) = namespace.completed("lbm-launcher")

    assert sorted(line for line in lines if line.startswith("rank")) == [
        "rank 0 sum 3",
        "rank 1 sum 3",
    ]
