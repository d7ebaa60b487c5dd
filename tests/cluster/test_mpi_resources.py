"""Custom resources whose operator creates ssh keys and hostfiles for MPI, and their variants.

All run at once in one namespace.
"""

import copy
from pathlib import Path

import pytest
import yaml
from cluster.conftest import PASSWD

from mlgen.dialects.trainer.job import published

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"

IMAGE = {
    "passwd": PASSWD,
    "ssh_config": "Host *\n  Port 2222\n  StrictHostKeyChecking no\n"
    "  UserKnownHostsFile /dev/null\n",
    ".sshd_config": "Port 2222\nHostKey /home/mpiuser/.ssh/id_rsa\nPidFile none\nStrictModes no\n",
}
"""Files of the images of Trainer's runtimes for MPI."""

MOUNTS = [
    {"name": "image", "mountPath": path, "subPath": name}
    for name, path in {
        "passwd": "/etc/passwd",
        "ssh_config": "/etc/ssh/ssh_config",
        ".sshd_config": "/home/mpiuser/.sshd_config",
    }.items()
]

PROGRAM = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total, name = world.allreduce(world.rank + 1), MPI.Get_processor_name()
print("rank", world.rank, "sum", total, "on", name, "uid", os.getuid(), flush=True)
"""

VERSIONS = ("2.2", "2.3")
"""The versions of Trainer with different runtimes for MPI: 2.1 has the runtimes of 2.2."""


def job_of(version):
    return f"mlx{version.replace('.', '')}"


def trainjob(version):
    """A TrainJob with the runtime that a version of Trainer publishes, in an image of the tests."""
    (runtime,) = (
        copy.deepcopy(each.data)
        for each in published(version)
        if each.data["metadata"]["name"] == "mlx-distributed"
    )
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        pod["volumes"] = [{"name": "image", "configMap": {"name": "image"}}]
        (main,) = pod["containers"]
        main |= {"image": "mlgen.test/ml:1", "volumeMounts": MOUNTS}
        main["env"] = [{"name": "HOME", "value": "/home/mpiuser"}]
    command = ["mpirun", "-n", "2", "python3", "-c", PROGRAM]
    job = {
        "apiVersion": runtime["apiVersion"],
        "kind": "TrainJob",
        "metadata": {"name": job_of(version)},
        "spec": {
            "runtimeRef": {"name": "mlx-distributed"},
            "trainer": {"numNodes": 2, "command": command},
        },
    }
    return yaml.safe_dump_all([job, runtime])


@pytest.fixture(scope="module")
def namespace(shared_namespace, tmp_path_factory):
    namespace, folder = shared_namespace, tmp_path_factory.mktemp("jobs")
    files = [f"--from-literal={name}={text}" for name, text in IMAGE.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    keys = (
        "phi-ssh",
        "psi-ssh",
        *(f"mlx{version.replace('.', '')}-mpi-ssh-auth" for version in VERSIONS),
    )
    for secret in keys:
        namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", secret))
    namespace.start(RESOURCES / "volcano-mpi.yaml")
    namespace.start(RESOURCES / "volcano-ssh.yaml")
    for version in VERSIONS:
        file = folder / f"{version}.yaml"
        file.write_text(trainjob(version))
        namespace.start(file)
    return namespace


def ranks(printed):
    return sorted(line for lines in printed for line in lines if line.startswith("rank"))


def test_the_plugin_mpi_of_a_volcano_job_trains_and_its_workers_end(namespace):
    """Without a policy for the end of the master, and with slots from -np."""
    printed = namespace.completed("phi-master")

    assert ranks(printed) == [f"rank {rank} sum 10 on phi-worker-{rank // 2}" for rank in range(4)]
    namespace.completed("phi-supervisor")
    assert not namespace.active("phi")


def test_the_plugin_ssh_of_a_volcano_job_trains(namespace):
    printed = namespace.completed("psi-mpimaster")

    assert ranks(printed) == [f"rank {rank} sum 3 on psi-mpiworker-{rank}" for rank in range(2)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_mpi_runtimes_of_trainer_train(namespace, version):
    job = job_of(version)

    printed = namespace.completed(f"{job}-launcher-0")

    hosts = [f"{job}-launcher-0-0", f"{job}-node-0-0"]  # Open MPI starts with its own host
    assert ranks(printed) == [
        f"rank {rank} sum 3 on {host} uid 1000" for rank, host in enumerate(hosts)
    ]
