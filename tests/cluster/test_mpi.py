"""Open MPI, MPICH and Intel MPI start ranks in pods, over `kubectl exec` and over ssh."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"
LONG = pytest.mark.long


def ranks(hosts, slots=2):
    """Return the sorted lines of a run that uses all slots of these hosts."""
    count = len(hosts) * slots
    total = count * (count + 1) // 2
    return sorted(f"rank {rank} sum {total} on {hosts[rank // slots]}" for rank in range(count))


def test_the_launcher_can_run_as_a_worker(namespace, launch):
    command = '["mpirun", "--allow-run-as-root", "-np", "6", "python3", "-c"]'
    works = "spec.options.runLauncherAsWorker=true"
    launch("mpi.yaml", "ml", works, f"spec.roles.launcher.command={command}")

    (lines,) = namespace.completed("pi-launcher")

    assert sorted(lines) == ranks(["pi-launcher-0", "pi-worker-0", "pi-worker-1"])


ROOT = (
    "spec.security={runAsUser: 0}",
    'spec.env.OMPI_ALLOW_RUN_AS_ROOT="1"',
    'spec.env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"',
)


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
def test_open_mpi_4_and_5_run_the_same_job(namespace, launch, image, transport, user):
    """The image torch contains Open MPI 5, ml contains Open MPI 4."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    if user:
        namespace.kubectl("label", "namespace", namespace.name, label)
    launch("mpi-ssh.yaml", image, f"spec.options.transport={transport}", *(() if user else ROOT))

    (lines,) = namespace.completed("cfd-launcher")

    variables = "ssh-ed25519 two words, a 'quote' and $dollar"
    expected = ranks(["cfd-worker-0", "cfd-worker-1"])
    printed = sorted(line for line in lines if line.startswith("rank"))
    assert printed == [f"{line} uid {user} {variables}" for line in expected]


def test_the_deepspeed_command_trains_with_the_variables_of_the_workers(namespace, launch):
    launch("deepspeed-ssh.yaml", "torch")

    (lines,) = namespace.completed("zero-launcher", 300)

    found = [line.partition("world ")[2] for line in lines if "world " in line]
    assert found == ["2 sum 3.0 key ssh-ed25519 note two words"] * 2


def test_mpi_over_ssh_trains_on_the_host_network(namespace, launch):
    """The sshd of each worker listens on another port than the one that mpirun dials."""
    user = "spec.security={runAsUser: 1000, runAsGroup: 1000}"
    launch("mpi-ssh.yaml", "ml", user, "spec.network.host=true")

    (lines,) = namespace.completed("cfd-launcher")

    assert sorted(line.partition(" on ")[0] for line in lines) == [
        f"rank {rank} sum 10" for rank in range(4)
    ]


IMAGES = {"MPICH": "mpich", "Intel": "intelmpi"}

UNPRIVILEGED = (
    "spec.security={profile: restricted, runAsUser: 1000, runAsGroup: 1000}",
    "spec.env.HOME=/home/mpiuser",
    'spec.env.MPIR_CVAR_CH4_CMA_ENABLE="0"',  # docs/frameworks/mpi.md, "Pitfalls"
    "spec.options.sshAuthMountPath=/home/mpiuser/.ssh",
    "spec.volumes.passwd={mountPath: /etc/passwd, subPath: passwd, configMap: passwd}",
)


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
def test_hydra_uses_the_workers_that_are_ready(namespace, launch, implementation, transport, user):
    options = {"implementation": implementation, "transport": transport}
    settings = (f"spec.options.{name}={value}" for name, value in options.items())
    privileges = UNPRIVILEGED if user else ()
    launch("mpi-hydra.yaml", IMAGES[implementation], *settings, *privileges)

    def lines():
        pods = namespace.pods("wrf-launcher")
        return namespace.log(pods[0]).splitlines() if pods else []

    namespace.until("a run on three hosts", lambda: len(lines()) == 3, 300)
    namespace.kubectl("scale", "statefulset", "wrf-worker", "--replicas=3")
    namespace.until("a run on four hosts", lambda: len(lines()) == 7, 300)
    namespace.kubectl("scale", "statefulset", "wrf-worker", "--replicas=2")
    (printed,) = namespace.completed("wrf-launcher", 300)

    hosts = ["wrf-launcher-0", *(f"wrf-worker-{index}" for index in range(3))]
    runs = (printed[:3], printed[3:7], printed[7:])
    assert [sorted(run) for run in runs] == [
        [f"{line} uid {user}" for line in ranks(hosts[:count], 1)] for count in (3, 4, 3)
    ]


@LONG
@pytest.mark.parametrize(("implementation", "image"), [("OpenMPI", "ml"), *IMAGES.items()])
def test_an_mpijob_also_runs_ranks_in_its_launcher(
    namespace, launch, tmp_path, implementation, image
):
    text = (RESOURCES / "mpijob-v2beta1.yaml").read_text()
    options = f"runLauncherAsWorker: true\n  mpiImplementation: {implementation}"
    text = text.replace("  slotsPerWorker: 2\n", f"  slotsPerWorker: 2\n  {options}\n")
    (tmp_path / "mpijob.yaml").write_text(text.replace('"4"', '"6"'))
    launch(tmp_path / "mpijob.yaml", image)

    (lines,) = namespace.completed("pi-launcher", 300)

    assert sorted(lines) == [f"rank {rank} sum 21 uid 1000" for rank in range(6)]
