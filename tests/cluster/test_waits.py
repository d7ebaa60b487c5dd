"""mlgen's waits for peers never prevent training."""

import json
import re
import time
from pathlib import Path

import pytest
from cluster.test_training import only_line

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"

IMAGE_FILES = {
    "passwd": "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n",
    "ssh_config": "Host *\n  Port 2200\n",
    "sshd_config": "Port 2200\nHostKey /home/mpiuser/.ssh/id_rsa\nPidFile none\nStrictModes no\n"
    "UsePAM no\nAuthorizedKeysFile /home/mpiuser/.ssh/authorized_keys\n",
}
"""Files of an image with sshd."""


GATES = "spec.template.spec.schedulingGates=[{name: example.com/room}]"
"""A setting that keeps a job's pods unscheduled until their gates are removed."""

LIFT = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])

LATE = 45
"""Seconds during which a late replica has no address, and its name does not resolve."""

PEERS = ("mnist-ps-0", "resnet-worker-0", "cifar-scheduler-0", "pi-worker-1", "bert-rank-0")
"""The late replica of each job."""


@pytest.fixture(scope="module")
def namespace(shared_namespace, jobs):
    """A namespace with jobs of which one replica is late, and with jobs that do not wait."""
    namespace = shared_namespace
    for file in ("tensorflow-ps", "tensorflow-allreduce", "mxnet", "mpi", "pytorch"):
        namespace.start(jobs / f"{file}.yaml", GATES)
    begin = time.monotonic()
    files = [f"--from-literal={name}={text}" for name, text in IMAGE_FILES.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "lbm-ssh"))
    namespace.start(RESOURCES / "mpijob-own-sshd.yaml")
    namespace.start(RESOURCES / "pytorchjob-endpoint.yaml")

    def all_but_the_late_ones_run():
        lift(namespace, lambda name: not name.startswith(PEERS))
        return time.monotonic() > begin + LATE and reported(namespace, "bert", "bert-rank-0")

    namespace.until("ranks wait for their peers", all_but_the_late_ones_run)
    lift(namespace, bool)
    return namespace


def lift(namespace, selected):
    """Remove the gates of the selected pods, once their controllers have created them."""
    for pod in namespace.get("pods")["items"]:
        name, gated = pod["metadata"]["name"], pod["spec"].get("schedulingGates")
        if gated and selected(name):
            namespace.kubectl("patch", "pod", name, "--type=json", "-p", LIFT)


def reported(namespace, job, peer):
    """Return whether a rank has reported that it waits for one peer."""
    logs = [namespace.log(pod, "wait-for-peers") for pod in namespace.pods(f"{job}-rank")]
    return f"waiting for 1 of 1 peers: {peer}\n" in logs


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
    printed = namespace.completed("gpt-rank")

    assert {"world 2 sum 3.0"} == {line for lines in printed for line in lines if "world" in line}
    downloads = init_containers(namespace.pods("gpt-rank"), "download")
    assert len(downloads) == 2
    assert max(start for start, _ in downloads) < min(finish for _, finish in downloads)
    waits = init_containers(namespace.pods("gpt-rank"), "wait-for-peers")
    for (_, downloaded), (waited, _) in zip(downloads, waits, strict=True):
        assert downloaded <= waited


def test_a_rank_waits_until_rank_0_has_room(namespace):
    printed = namespace.completed("bert-rank")

    assert len(printed) == 3
    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


@pytest.mark.parametrize(
    ("job", "words", "rest", "waits"),
    [
        ("mnist-chief", "workers 2 total 200.0", " on /job:ps/replica:0/task:0/.*", "mnist-ps-0"),
        ("resnet-worker", "sum 3.0", r" loss \d+\.\d+", "resnet-worker-0"),
        ("cifar-worker", "workers 2 weight 1.0", "", "cifar-scheduler-0"),
        ("pi-launcher", "rank 3 sum 10 on pi-worker-1", "", None),  # its agents wait
    ],
)
def test_a_job_trains_with_a_peer_that_comes_late(namespace, job, words, rest, waits):
    printed = namespace.completed(job)

    (line,) = {only_line(lines, words) for lines in printed}
    assert re.fullmatch(words + rest, line)
    if waits:
        logs = [namespace.log(pod, "wait-for-peers") for pod in namespace.pods(job)]
        assert any(waits in log for log in logs)
        assert all(log.endswith("all peers are reachable\n") for log in logs)
    else:
        assert "wait-for-peers" not in json.dumps(namespace.pods(job))


def test_mpirun_reaches_an_sshd_with_the_configuration_of_the_image(namespace):
    (lines,) = namespace.completed("lbm-launcher")

    assert sorted(line for line in lines if line.startswith("rank")) == [
        "rank 0 sum 3",
        "rank 1 sum 3",
    ]


def test_a_replica_that_waits_for_a_succeeded_one_ends_a_supervised_job(shared_namespace, jobs):
    namespace, rank = shared_namespace, "batch.kubernetes.io/job-completion-index="
    namespace.start(jobs / "late.yaml")
    ready = "jsonpath={.items[0].status.conditions[?(@.type=='Ready')].status}"
    words = ("-l", f"mlgen.dev/job=late,{rank}0", "-o")
    state = lambda path: namespace.kubectl("get", "pods", *words, path, check=False)  # noqa: E731
    namespace.until("rank 0 is ready", lambda: state(ready) == "True", 150)
    (first,) = namespace.kubectl("get", "pods", *words, "name").split()
    namespace.kubectl("exec", first, "-c", "main", "--", "touch", "/tmp/go")
    phase = "jsonpath={.items[0].status.phase}"
    namespace.until("rank 0 has succeeded", lambda: state(phase) == "Succeeded", 150)
    # The controller of EndpointSlices takes the address away only when it looks at the Service
    # again, such as after its own restart: the end of a pod follows the end of its readiness.
    namespace.kubectl("annotate", "service", "late-rank-0", "example.com/look=again")
    other = ("-l", f"mlgen.dev/job=late,{rank}1")
    log = lambda: namespace.kubectl("logs", *other, "-c", "main", check=False)  # noqa: E731
    namespace.until("the name has gone", lambda: "no address" in log(), 150)
    namespace.kubectl("delete", "pod", *other)

    reason = namespace.recorded("late", lambda data: data.get("Failed"), 150)

    assert re.search(r" PeerSucceeded: late-rank-1-\w+ waits for replica 0 of late-rank", reason)
