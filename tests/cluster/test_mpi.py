"""Open MPI, MPICH and Intel MPI start ranks in pods, over `kubectl exec` and over ssh."""

from pathlib import Path

import pytest
from cluster.conftest import prepare_ssh
from namespaces import temporary_namespace

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"
LONG = pytest.mark.long


def ranks(hosts, slots=2):
    """Return the sorted lines of a run that uses all slots of these hosts."""
    count = len(hosts) * slots
    total = count * (count + 1) // 2
    return sorted(f"rank {rank} sum {total} on {hosts[rank // slots]}" for rank in range(count))


ROOT = (
    "spec.security={runAsUser: 0}",
    'spec.env.OMPI_ALLOW_RUN_AS_ROOT="1"',
    'spec.env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"',
)

IMAGES = {"MPICH": "mpich", "Intel": "intelmpi"}

UNPRIVILEGED = (
    "spec.security={profile: restricted, runAsUser: 1000, runAsGroup: 1000}",
    "spec.env.HOME=/home/mpiuser",
    'spec.env.MPIR_CVAR_CH4_CMA_ENABLE="0"',  # docs/frameworks/mpi.md, "Pitfalls"
    "spec.options.sshAuthMountPath=/home/mpiuser/.ssh",
    "spec.volumes.passwd={mountPath: /etc/passwd, subPath: passwd, configMap: passwd}",
)


class Runs:
    """The jobs of these tests. Each method starts a job once, and returns its name."""

    def __init__(self, launch, namespace, restricted):
        self.launch, self.namespace, self.restricted = launch, namespace, restricted

    def launcher_as_worker(self):
        command = '["mpirun", "--allow-run-as-root", "-np", "6", "python3", "-c"]'
        works = "spec.options.runLauncherAsWorker=true"
        setting = f"spec.roles.launcher.command={command}"
        self.launch(self.namespace, "pi", "mpi.yaml", "ml", works, setting)
        return "pi"

    def open_mpi(self, image, transport, user):
        job, settings = f"{image}-{transport}-{user}", () if user else ROOT
        namespace = self.restricted if user else self.namespace
        transport = f"spec.options.transport={transport}"
        self.launch(namespace, job, "mpi-ssh.yaml", image, transport, *settings)
        return namespace, job

    def deepspeed(self):
        self.launch(self.namespace, "zero", "deepspeed-ssh.yaml", "torch")
        return "zero"

    def hydra(self, implementation, transport, user):
        job = f"{implementation}-{transport}-{user}".lower()
        options = {"implementation": implementation, "transport": transport}
        settings = (f"spec.options.{name}={value}" for name, value in options.items())
        privileges = UNPRIVILEGED if user else ()
        image = IMAGES[implementation]
        self.launch(self.namespace, job, "mpi-hydra.yaml", image, *settings, *privileges)
        return job


@pytest.fixture(scope="module")
def runs(launch, shared_namespace, environment):
    """The jobs, of which those of the quick tests have started."""
    with temporary_namespace(environment) as restricted:
        label = "pod-security.kubernetes.io/enforce=restricted"
        restricted.kubectl("label", "namespace", restricted.name, label)
        for namespace in (shared_namespace, restricted):
            prepare_ssh(namespace)
        runs = Runs(launch, shared_namespace, restricted)
        runs.hydra("MPICH", "ssh", 1000)
        runs.launcher_as_worker()
        runs.open_mpi("torch", "ssh", 1000)
        runs.open_mpi("torch", "kubectl-exec", 1000)
        runs.deepspeed()
        yield runs


@pytest.fixture(scope="module")
def namespace(runs):
    return runs.namespace


@pytest.mark.parametrize(
    ("implementation", "transport", "user"),
    [
        ("MPICH", "ssh", 1000),
        pytest.param("Intel", "kubectl-exec", 0, marks=LONG),
        pytest.param("MPICH", "ssh", 0, marks=LONG),
        pytest.param("MPICH", "kubectl-exec", 0, marks=LONG),
        pytest.param("MPICH", "kubectl-exec", 1000, marks=LONG),
        pytest.param("Intel", "ssh", 0, marks=LONG),
        pytest.param("Intel", "ssh", 1000, marks=LONG),
        pytest.param("Intel", "kubectl-exec", 1000, marks=LONG),
    ],
)
def test_hydra_uses_the_workers_that_are_ready(namespace, runs, implementation, transport, user):
    job = runs.hydra(implementation, transport, user)

    def lines():
        pods = namespace.pods(f"{job}-launcher")
        return namespace.log(pods[0]).splitlines() if pods else []

    namespace.until("a run on three hosts", lambda: len(lines()) == 3)
    namespace.kubectl("scale", "statefulset", f"{job}-worker", "--replicas=3")
    namespace.until("a run on four hosts", lambda: len(lines()) == 7)
    namespace.kubectl("scale", "statefulset", f"{job}-worker", "--replicas=2")
    (printed,) = namespace.completed(f"{job}-launcher")

    hosts = [f"{job}-launcher-0", *(f"{job}-worker-{index}" for index in range(3))]
    found = (printed[:3], printed[3:7], printed[7:])
    assert [sorted(run) for run in found] == [
        [f"{line} uid {user}" for line in ranks(hosts[:count], 1)] for count in (3, 4, 3)
    ]


def test_the_launcher_can_run_as_a_worker(namespace, runs):
    job = runs.launcher_as_worker()

    (lines,) = namespace.completed(f"{job}-launcher")

    assert sorted(lines) == ranks([f"{job}-launcher-0", f"{job}-worker-0", f"{job}-worker-1"])


@pytest.mark.parametrize(
    ("image", "transport", "user"),
    [
        ("torch", "ssh", 1000),
        ("torch", "kubectl-exec", 1000),
        pytest.param("torch", "ssh", 0, marks=LONG),
        pytest.param("torch", "kubectl-exec", 0, marks=LONG),
        pytest.param("ml", "ssh", 1000, marks=LONG),
        pytest.param("ml", "ssh", 0, marks=LONG),
    ],
)
def test_open_mpi_4_and_5_run_the_same_job(runs, image, transport, user):
    """The image torch contains Open MPI 5, ml contains Open MPI 4."""
    namespace, job = runs.open_mpi(image, transport, user)

    (lines,) = namespace.completed(f"{job}-launcher")

    variables = "ssh-ed25519 two words, a 'quote' and $dollar"
    expected = ranks([f"{job}-worker-0", f"{job}-worker-1"])
    printed = sorted(line for line in lines if line.startswith("rank"))
    assert printed == [f"{line} uid {user} {variables}" for line in expected]


def test_the_deepspeed_command_trains_with_the_variables_of_the_workers(namespace, runs):
    (lines,) = namespace.completed(f"{runs.deepspeed()}-launcher")

    found = [line.partition("world ")[2] for line in lines if "world " in line]
    assert found == ["2 sum 3.0 key ssh-ed25519 note two words"] * 2


@LONG
@pytest.mark.parametrize(("implementation", "image"), [("OpenMPI", "ml"), *IMAGES.items()])
def test_an_mpijob_also_runs_ranks_in_its_launcher(
    namespace, launch, tmp_path, implementation, image
):
    text, job = (RESOURCES / "mpijob-v2beta1.yaml").read_text(), f"mpijob-{image}"
    options = f"runLauncherAsWorker: true\n  mpiImplementation: {implementation}"
    text = text.replace("  slotsPerWorker: 2\n", f"  slotsPerWorker: 2\n  {options}\n")
    (tmp_path / "mpijob.yaml").write_text(text.replace('"4"', '"6"'))
    launch(namespace, job, tmp_path / "mpijob.yaml", image)

    (lines,) = namespace.completed(f"{job}-launcher")

    assert sorted(lines) == [f"rank {rank} sum 21 uid 1000" for rank in range(6)]
