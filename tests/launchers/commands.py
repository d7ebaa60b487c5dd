"""The launchers that start ranks, and the part of the job file for each."""

from dataclasses import dataclass, field
from typing import Any

PROGRAM = "/code/train.py"
PYTHON = ["python3", PROGRAM]
OWN_PROCESS = {"template": {"spec": {"shareProcessNamespace": True}}}
"""Python is not the first process of the container, because signals do not end that one."""

AGENT = "until ray job submit -- true; do sleep 1; done"
"""`ray job submit` fails with "No available agent" until all of the head runs, which takes time on
a busy machine."""

SUBMIT = "exec ray job submit --"


@dataclass(frozen=True, eq=False)
class Launcher:
    """A launcher.

    Attributes:
        name: the name in the table.
        image: the image, without `mlgen.test/`.
        spec: fields of the job file, in addition to the common ones.
        roles: the roles of the job file. Rank 1 is in a `worker`.
    """

    name: str
    image: str
    spec: dict[str, Any]
    roles: dict[str, Any] = field(default_factory=lambda: {"worker": {"replicas": 2}})
    library: tuple[str, ...] = ()
    """Packages that are missing in the image."""

    aborts: bool = False
    """True if a process that ends alone ends with SIGABRT, regardless of its exit code."""

    memory: str = "1Gi"
    """Memory limit of a worker that exceeds it."""

    @property
    def decider(self):
        """The role whose end is the end of the job."""
        return next((name for name in ("launcher", "submitter") if name in self.roles), "worker")

    @property
    def serves(self):
        """True if its workers are pods of a StatefulSet."""
        return self.decider != "worker"


def started_by(*command):
    return {
        "launcher": {"command": [*command]},
        "worker": {"replicas": 2},
    }


LAUNCHERS = (
    Launcher("python", "ml:1", {"framework": "pytorch", "command": PYTHON, **OWN_PROCESS}),
    Launcher("python-2", "torch:2", {"framework": "pytorch", "command": PYTHON, **OWN_PROCESS}),
    Launcher(
        "torchrun",
        "torch:2",
        {"framework": "pytorch", "command": ["torchrun", PROGRAM], "options": {"nprocPerNode": 1}},
    ),
    Launcher(
        # Without --multi_gpu, it starts each process by itself. The program uses the CPU.
        "accelerate",
        "torch:2",
        {
            "framework": "pytorch",
            "command": [
                *("accelerate", "launch", "--multi_gpu", "--num_machines=2", "--num_processes=2"),
                *("--mixed_precision=no", "--dynamo_backend=no", "--num_cpu_threads_per_process=1"),
                *("--machine_rank=$(RANK)", "--main_process_ip=$(MASTER_ADDR)"),
                *("--main_process_port=$(MASTER_PORT)", PROGRAM, "accelerate"),
            ],
        },
    ),
    Launcher(
        "deepspeed",
        "torch:2",
        {"framework": "deepspeed", "options": {"transport": "ssh", "sshSecret": "keys"}},
        started_by("deepspeed", PROGRAM, "deepspeed"),
    ),
    Launcher(
        "mpirun",
        "ml:1",
        {"framework": "mpi", "options": {"transport": "kubectl-exec"}},
        # Without `-m mpi4py`, a rank that raises an exception waits for the others in MPI_Finalize.
        started_by(
            *("mpirun", "--allow-run-as-root", "-np", "2", "python3", "-m", "mpi4py"),
            *(PROGRAM, "mpi"),
        ),
    ),
    Launcher(
        "horovodrun",
        "horovod:1",
        {"framework": "horovod", "options": {"transport": "ssh", "sshSecret": "keys"}},
        started_by(
            *("horovodrun", "-np", "2", "--start-timeout", "300", "--gloo"),
            *("--hostfile", "/etc/mpi/hostfile", *PYTHON, "horovod"),
        ),
    ),
    Launcher(
        "jax",
        "ml:1",
        {
            "framework": "jax",
            "command": [*PYTHON, "jax"],
            "env": {"PYTHONPATH": "/opt/jax"},
            **OWN_PROCESS,
        },
        aborts=True,
    ),
    Launcher(
        "tensorflow",
        "ml:1",
        {
            "framework": "tensorflow",
            "command": [*PYTHON, "tensorflow"],
            "env": {"PYTHONPATH": "/opt/tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
            "successPolicy": {"replicas": "All"},
            **OWN_PROCESS,
        },
    ),
    Launcher(
        "ray",
        "ml:1",
        {"framework": "ray", "env": {"PYTHONPATH": "/opt/ray", "RAY_USAGE_STATS_ENABLED": "0"}},
        {
            "head": {},
            "worker": {},
            "submitter": {"command": ["sh", "-c", f"{AGENT}; {SUBMIT} {' '.join(PYTHON)} ray"]},
        },
        library=("ray[default]",),
        memory="3Gi",
    ),
)
BY_NAME = {launcher.name: launcher for launcher in LAUNCHERS}
