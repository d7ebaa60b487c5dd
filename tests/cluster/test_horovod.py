"""Horovod trains in pods, with mpirun and with horovodrun, while workers join and leave."""

import json
import re

import pytest
from cluster.conftest import prepare_ssh
from parts.programs import MissingError, module
from ruamel.yaml import YAML
from support import missing

pytestmark = pytest.mark.cluster

MPIRUN = ["mpirun", "--allow-run-as-root", "-np", "4"]
HOROVODRUN = ["horovodrun", "-np", "4", "--start-timeout", "300", "--hostfile", "/etc/mpi/hostfile"]
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def runs(launch, shared_namespace):
    """The jobs, of which those of the quick tests have started."""
    prepare_ssh(shared_namespace)
    runs = Runs(launch, shared_namespace)
    runs.elastic("ssh", "process")
    runs.train(MPIRUN, "kubectl-exec")
    return runs


class Runs:
    """The jobs of these tests. Each method starts a job once, and returns its name."""

    def __init__(self, launch, namespace):
        self.launch, self.namespace = launch, namespace

    def train(self, launcher, transport):
        job = f"{launcher[0]}-{launcher[-1].strip('-')}-{transport}"
        command = json.dumps([*launcher, "python3", "/code/train.py"])
        options = (f"spec.options.transport={transport}", f"spec.roles.launcher.command={command}")
        self.launch(self.namespace, job, "horovod.yaml", "horovod", *options)
        return job

    def elastic(self, transport, loss):
        job, option = f"{transport}-{loss}", f"spec.options.transport={transport}"
        self.launch(self.namespace, job, "horovod-elastic.yaml", "horovod", option)
        return job


@pytest.fixture(scope="module")
def namespace(runs):
    return runs.namespace


def ranks(lines):
    """Return the sorted lines of the ranks, without the prefix that horovodrun adds."""
    found = (re.search("rank .*", line) for line in lines)
    return sorted(line[0] for line in found if line)


class Elastic:
    """A running job with the program of `horovod-elastic.yaml`."""

    def __init__(self, namespace, name):
        self.namespace, self.name = namespace, name

    def lines(self):
        """Return the lines of rank 0, without the prefix that horovodrun adds."""
        pods = self.namespace.pods(f"{self.name}-launcher")
        text = self.namespace.log(pods[0]) if pods else ""
        return re.findall(r"^\[\d+\]<stdout>:(.+)$", text, re.MULTILINE)

    def has(self, size, after=0):
        """Wait for more than `after` lines, the last with this size; return their number."""

        def last():
            lines = self.lines()
            return len(lines) > after and lines[-1].startswith(f"size {size} ") and len(lines)

        return self.namespace.until(f"{size} ranks after {after} lines", last)

    def scale(self, replicas):
        words = ("scale", "statefulset", f"{self.name}-worker", f"--replicas={replicas}")
        self.namespace.kubectl(*words)

    def run(self, worker, *command):
        """Run a command in a worker. It may fail."""
        words = ("exec", f"{self.name}-worker-{worker}", "--", *command)
        self.namespace.kubectl(*words, check=False)

    def end(self):
        """End training, and return all lines."""
        self.run(0, "touch", "/tmp/end")
        self.namespace.completed(f"{self.name}-launcher")
        return self.lines()


@pytest.mark.parametrize(
    ("transport", "loss"),
    [
        ("ssh", "process"),
        pytest.param("ssh", "pod", marks=LONG),
        pytest.param("kubectl-exec", "process", marks=LONG),
        pytest.param("kubectl-exec", "pod", marks=LONG),
    ],
)
def test_training_goes_on_when_workers_come_go_and_are_killed(namespace, runs, transport, loss):
    job = Elastic(namespace, runs.elastic(transport, loss))

    job.has(2)
    job.scale(3)
    job.has(3)
    job.scale(2)
    known = job.has(2, after=2)
    if loss == "process":
        job.run(1, "pkill", "-KILL", "-f", "train.py")
    else:
        namespace.kubectl("delete", "pod", f"{job.name}-worker-1", "--wait=false")
    job.has(2, after=known)
    *sizes, last = job.end()

    steps = [int(re.search(r"steps (\d+)", line)[1]) for line in (*sizes, last)]
    assert steps == sorted(set(steps))  # no rank restarts
    expected = [
        f"size {size} sum {size * (size + 1) / 2} steps {step} weight {-step:.1f}"
        for size, step in zip(map(size_of, sizes), steps, strict=False)
    ]
    assert sizes == expected
    assert last == f"ended steps {steps[-1]} weight {-steps[-1]:.1f}"


def size_of(line):
    return int(line.split()[1])


@pytest.mark.parametrize(
    ("launcher", "transport"),
    [
        (MPIRUN, "kubectl-exec"),
        pytest.param(MPIRUN, "ssh", marks=LONG),
        pytest.param([*HOROVODRUN, "--mpi"], "kubectl-exec", marks=LONG),
        pytest.param([*HOROVODRUN, "--mpi"], "ssh", marks=LONG),
        pytest.param([*HOROVODRUN, "--gloo"], "kubectl-exec", marks=LONG),
        pytest.param([*HOROVODRUN, "--gloo"], "ssh", marks=LONG),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join((value[0], value[-1])),
)
def test_four_ranks_train(namespace, runs, launcher, transport):
    job = runs.train(launcher, transport)

    (lines,) = namespace.completed(f"{job}-launcher")

    assert ranks(lines) == [
        f"rank {rank} of 4 weight -4.5 on {job}-worker-{rank // 2}" for rank in range(4)
    ]


OPERATOR = "github.com/kubeflow/mpi-operator"
EXAMPLES = {
    "v2beta1": (f"{OPERATOR}@v0.8.0", "examples/v2beta1/horovod/tensorflow-mnist.yaml"),
    "v1": (f"{OPERATOR}@v0.3.0", "examples/horovod/tensorflow-mnist-elastic.yaml"),
}
"""Modules and files of the operator's Horovod examples, by the version of MPIJob."""


@pytest.fixture
def example(namespace, launch, jobs, tmp_path):
    """Function that runs a program in an example of the operator, with an image of the cluster.

    The images of the examples contain TensorFlow, and request more than a test node has.
    """

    def example(name, version, job_file, target):
        folder, program = target.rsplit("/", 1)
        source, path = EXAMPLES[version]
        try:
            text = (module(source) / path).read_text()
        except MissingError as error:
            missing(str(error))
        copy = tmp_path / "example.yaml"
        copy.write_text(text.replace("- python\n", "- python3\n"))
        spec = YAML(typ="safe").load((jobs / job_file).read_text())["spec"]
        files = {program: spec["volumes"]["code"]["files"]["train.py"]}
        code = {"mountPath": folder, "files": files}
        resources = "{cpu: 50m, memory: 256Mi}"
        settings = [f"spec.roles.{role}.resources={resources}" for role in ("launcher", "worker")]
        launch(namespace, name, copy, "horovod", f"spec.volumes.code={json.dumps(code)}", *settings)

    return example


@LONG
def test_the_operators_example_trains(namespace, example):
    name = "tensorflow-mnist"
    example(name, "v2beta1", "horovod.yaml", "/examples/tensorflow_mnist.py")

    (lines,) = namespace.completed(f"{name}-launcher")

    assert ranks(lines) == [
        f"rank {rank} of 2 weight -1.5 on {name}-worker-{rank}" for rank in range(2)
    ]


@LONG
def test_the_operators_elastic_example_trains(namespace, example):
    job, file = Elastic(namespace, "tensorflow-mnist-elastic"), "horovod-elastic.yaml"
    example(job.name, "v1", file, "/examples/elastic/tensorflow2_mnist_elastic.py")

    job.has(2)
    job.scale(3)
    job.has(3)

    assert [size_of(line) for line in job.end()[:-1]] == [2, 3]
