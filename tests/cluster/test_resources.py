"""Custom resources of training operators train unchanged in a cluster without operators."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"


def lines_with(printed, words):
    return [line for lines in printed for line in lines if line.startswith(words)]


def test_a_tfjob_trains(namespace):
    namespace.apply(RESOURCES / "tfjob.yaml")

    first, second = lines_with(namespace.completed("fashion-worker", 300), "sum")

    assert re.fullmatch(r"sum 3.0 loss \d+\.\d+", first)
    assert first == second


def test_a_pytorchjob_trains(namespace):
    namespace.apply(RESOURCES / "pytorchjob.yaml")

    assert lines_with(namespace.completed("bert-master"), "world") == ["world 3 sum 6.0"]
    for worker in ("bert-worker-0", "bert-worker-1"):
        assert lines_with(namespace.completed(worker), "world") == ["world 3 sum 6.0"]


def test_an_mpijob_v1_trains(namespace):
    namespace.apply(RESOURCES / "mpijob-v1.yaml")

    printed = namespace.completed("pi-launcher")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 on pi-worker-{rank // 2}" for rank in range(4)
    ]


def test_an_mpijob_v2beta1_trains(namespace):
    """The test creates the SSH keys that the operator would create, as the warning requires."""
    passwd = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={passwd}")
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "pi-ssh"))
    namespace.apply(RESOURCES / "mpijob-v2beta1.yaml")

    printed = namespace.completed("pi-launcher")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 uid 1000" for rank in range(4)
    ]


def test_an_xgboostjob_trains(namespace):
    namespace.apply(RESOURCES / "xgboostjob.yaml")

    for job in ("higgs-master", "higgs-worker-0"):
        assert lines_with(namespace.completed(job), "sum") == ["sum 3.0 predicted [0.5, 2.5]"]


def test_an_mxjob_trains(namespace):
    namespace.apply(RESOURCES / "mxjob.yaml")

    namespace.completed("cifar-scheduler")

    printed = namespace.completed("cifar-worker")
    assert lines_with(printed, "workers") == ["workers 2 weight 1.0"] * 2


def test_a_volcano_job_trains(namespace):
    namespace.apply(RESOURCES / "volcano-tensorflow.yaml")

    printed = lines_with(namespace.completed("ctr-worker", 300), "total")

    hosts = "ctr-worker-0.ctr,ctr-worker-1.ctr"
    assert sorted(printed) == [f"total 20.0 index {index} of {hosts}" for index in range(2)]


def test_a_trainjob_trains_after_its_initializer(namespace):
    namespace.apply(RESOURCES / "trainjob-steps.yaml")

    printed = namespace.completed("bert-node-0", 300)

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} of 4 sum 10.0" for rank in range(4)
    ]
    assert namespace.completed("bert-dataset-initializer-0") == [["from hf://example/data"]]


SSHD = {
    "passwd": "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n",
    "ssh_config": "Host *\n  Port 2200\n  StrictHostKeyChecking no\n"
    "  UserKnownHostsFile /dev/null\n",
    "sshd_config": "Port 2200\nHostKey /home/mpiuser/.ssh/id_rsa\nPidFile none\nStrictModes no\n"
    "UsePAM no\nAuthorizedKeysFile /home/mpiuser/.ssh/authorized_keys\n",
}
"""Files of an image with sshd, such as the images of Trainer's runtimes for MPI."""


def test_a_trainjob_with_mpi_trains(namespace):
    """The test creates the SSH keys that Trainer would create, as the warning requires."""
    files = [f"--from-literal={name}={text}" for name, text in SSHD.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "pi-mpi-ssh-auth"))
    namespace.apply(RESOURCES / "trainjob-mpi.yaml")

    printed = namespace.completed("pi-launcher-0")

    hosts = ("pi-launcher-0-0", "pi-node-0-0")
    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 on {hosts[rank // 2]} uid 1000" for rank in range(4)
    ]


@pytest.fixture(scope="module")
def jobsets(shared_namespace):
    """A namespace in which several JobSets run side by side."""
    namespace, rules = shared_namespace, RESOURCES / "jobset-rules.yaml"
    code = 'spec.roles.node-0.env.CODE="3"'
    namespace.apply(rules)
    namespace.apply(rules, "--set", "metadata.name=bug", "--set", code)
    namespace.apply(RESOURCES / "jobset-steps.yaml")
    return namespace


def test_the_jobs_of_a_jobset_start_in_order(jobsets):
    jobsets.completed("steps-supervisor")

    found = jobsets.get("pods", "-l", "mlgen.dev/job=steps")["items"]
    pods = {pod["metadata"]["name"].removeprefix("steps-")[:-6]: pod for pod in found}
    created = {name: pod["metadata"]["creationTimestamp"] for name, pod in pods.items()}
    ended = {name: finished_at(pod) for name, pod in pods.items()}
    nodes = ["node-0-0", "node-0-1"]
    assert ended["initializer-0-0"] <= min(created[node] for node in nodes)
    assert max(created[node] for node in nodes) <= created["watcher-0-0"]
    assert created["watcher-0-0"] <= min(ended[node] for node in nodes)
    assert max(ended[node] for node in nodes) <= created["evaluator-0-0"]


def finished_at(pod):
    """Return the time at which the first container ended."""
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]


@pytest.mark.parametrize(("name", "restarts", "code"), [("flaky", "1", 1), ("bug", "0", 3)])
def test_a_jobset_restarts_or_fails_by_its_failure_policy(jobsets, name, restarts, code):
    assert jobsets.ended(f"{name}-supervisor")["type"] == "Failed"
    assert jobsets.record(name)["restarts"] == restarts
    _, _, message = jobsets.conditions(name)["Failed"]
    assert f"exited with code {code}" in message
    assert not jobsets.active(name)


@pytest.fixture(scope="module")
def volcano_jobs(shared_namespace):
    """A namespace in which several Volcano jobs run side by side."""
    namespace, job = shared_namespace, RESOURCES / "volcano-policies.yaml"
    for name, code, seconds in (("restarted", 7, 300), ("aborted", 3, 300), ("completed", 0, 3)):
        settings = (f'worker.env.CODE="{code}"', f'master.env.TIME="{seconds}"')
        options = [word for setting in settings for word in ("--set", f"spec.roles.{setting}")]
        namespace.apply(job, "--set", f"metadata.name={name}", *options)
    return namespace


@pytest.mark.parametrize(("name", "restarts", "code"), [("restarted", "1", 7), ("aborted", "0", 3)])
def test_a_volcano_job_restarts_or_aborts_by_its_policies(volcano_jobs, name, restarts, code):
    assert volcano_jobs.ended(f"{name}-master", 300)["type"] == "Failed"
    volcano_jobs.completed(f"{name}-supervisor")

    assert volcano_jobs.record(name)["restarts"] == restarts
    _, _, message = volcano_jobs.conditions(name)["Failed"]
    assert f"{name}-worker-1" in message
    assert f"exited with code {code}" in message
    assert not volcano_jobs.active(name)


def test_a_volcano_job_is_complete_when_a_task_is(volcano_jobs):
    volcano_jobs.completed("completed-supervisor")

    assert volcano_jobs.get("job", "completed-master")["status"]["succeeded"] == 1
    assert "Succeeded" in volcano_jobs.conditions("completed")
    assert not volcano_jobs.active("completed")
