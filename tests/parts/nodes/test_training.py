"""The pods of a job train together although they are on different nodes."""

import re

import pytest
from support import ROOT

pytestmark = pytest.mark.long

JOBS = ROOT / "tests/cluster/jobs"
SPREAD = ("--set", "spec.scheduling.spread={key: kubernetes.io/hostname, mode: required}")
ON_HOSTS = ("--set", "spec.network.host=true")
ADDRESSES = {"node-0": "10.123.0.1", "node-1": "10.123.0.2"}
PASSWD = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"


@pytest.fixture
def train(namespace):
    """Function that runs a job on both nodes, and returns the lines of the deciding Jobs."""

    def train(file, job, *words):
        namespace.apply(JOBS / file, *SPREAD, *words)
        selector = ("-l", f"mlgen.dev/job={job},mlgen.dev/decides=true")
        names = [each["metadata"]["name"] for each in namespace.get("jobs", *selector)["items"]]
        lines = [line for name in names for log in namespace.completed(name, 600) for line in log]
        pods = namespace.get("pods", "-l", f"mlgen.dev/job={job},mlgen.dev/role")["items"]
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1"}
        return lines, pods

    return train


@pytest.fixture
def ssh(namespace):
    """Arguments for a job over SSH, without the profile that forbids the host network."""
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={PASSWD}")
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "cfd-ssh"))
    return "--set", "spec.security={runAsUser: 1000, runAsGroup: 1000}"


@pytest.mark.parametrize("network", [(), ON_HOSTS], ids=["pods", "hosts"])
def test_pytorch_trains(train, network):
    lines, pods = train("pytorch.yaml", "bert", *network)

    assert any(re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line) for line in lines)
    if network:
        for pod in pods:
            assert pod["status"]["podIP"] == ADDRESSES[pod["spec"]["nodeName"]]


@pytest.mark.parametrize("network", [(), ON_HOSTS], ids=["pods", "hosts"])
def test_parameter_servers_train(train, network):
    lines, _ = train("tensorflow-ps.yaml", "mnist", *network)

    assert "workers 2 total 200.0 on /job:ps/replica:0/task:0/" in "".join(lines)


def test_mpi_trains_over_kubectl_exec(train):
    lines, _ = train("mpi.yaml", "pi")

    workers = ["pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1"]
    ranks = sorted(line for line in lines if line.startswith("rank"))  # others report waits
    assert ranks == [f"rank {rank} sum 10 on {on}" for rank, on in enumerate(workers)]


@pytest.mark.parametrize("network", [(), ON_HOSTS], ids=["pods", "hosts"])
def test_mpi_trains_over_ssh(train, ssh, network):
    """On the host network, an SSH server listens on a port of its node."""
    lines, _ = train("mpi-ssh.yaml", "cfd", *ssh, *network)

    words = [line.split()[:4] for line in lines if line.startswith("rank")]
    assert sorted(words) == [["rank", str(rank), "sum", "10"] for rank in range(4)]
