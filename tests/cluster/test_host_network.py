"""Jobs train on the host network, all at once on one node.

Only the tests in this file use the ports of the node.
"""

import re

import pytest
from cluster.conftest import prepare_ssh
from cluster.test_training import only_line

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def start(shared_namespace, jobs):
    """Function that starts a job once. The jobs of the quick tests have started."""
    started = set()

    def start(file):
        if file not in started:
            shared_namespace.start(jobs / f"{file}.yaml", "spec.network.host=true")
        started.add(file)

    for file in ("tensorflow-ps", "pytorch", "jax", "xgboost"):
        start(file)
    return start


@pytest.fixture(scope="module")
def namespace(shared_namespace, start, launch):  # noqa: ARG001 - they have started
    prepare_ssh(shared_namespace)
    user = "spec.security={runAsUser: 1000, runAsGroup: 1000}"
    launch(shared_namespace, "cfd", "mpi-ssh.yaml", "ml", user, "spec.network.host=true")
    return shared_namespace


def near_three(lines):
    """True if the weight is about 3: training is asynchronous, so a step may use a stale weight."""
    return abs(float(only_line(lines, "weight").split()[1]) - 3) < 0.2


def test_parameter_servers_train_on_the_host_network(namespace):
    """Two workers on one node, each with its own port."""
    (lines,) = namespace.completed("mnist-chief-0")
    ports = [
        port["hostPort"]
        for pod in namespace.get("pods", "-l", "mlgen.dev/job=mnist")["items"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    ]

    assert only_line(lines, "workers 2 total 200.0 on /job:ps/replica:0/task:0/")
    assert near_three(lines)
    (evaluated,) = namespace.completed("mnist-evaluator-0")
    assert only_line(evaluated, "evaluates on /job:")
    assert len(set(ports)) == 5


def test_ranks_train_on_the_host_network(namespace):
    printed = [namespace.completed(f"bert-rank-{rank}")[0] for rank in range(3)]

    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


@pytest.mark.parametrize(
    ("file", "replicas", "expected"),
    [
        ("jax", ["gemma-worker-0", "gemma-worker-1"], "processes 2 sum 3.0 weight 3.397"),
        ("xgboost", ["higgs-rank-0", "higgs-rank-1"], "sum 3.0 predicted [0.5, 2.5]"),
        pytest.param(
            *("mxnet", ["cifar-worker-0", "cifar-worker-1"], "workers 2 weight 1.0"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("paddle", ["ernie-worker-0", "ernie-worker-1"], "world 2 sum 3.0 loss "),
            marks=pytest.mark.long,
        ),
    ],
)
def test_other_frameworks_train_on_the_host_network(file, replicas, expected, namespace, start):
    start(file)

    for replica in replicas:
        (lines,) = namespace.completed(replica)

        assert only_line(lines, expected)


def test_mpi_over_ssh_trains_on_the_host_network(namespace):
    """The sshd of each worker listens on another port than the one that mpirun dials."""
    (lines,) = namespace.completed("cfd-launcher")

    assert sorted(line.partition(" on ")[0] for line in lines) == [
        f"rank {rank} sum 10" for rank in range(4)
    ]
