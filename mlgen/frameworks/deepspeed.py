"""DeepSpeed: like MPI, but over ssh by default, with a hostfile for the deepspeed launcher.

With ssh, run `deepspeed train.py` in the launcher: it reads /job/hostfile by default, and starts
the workers with pdsh (deepspeed/launcher/runner.py, DLTS_HOSTFILE). With kubectl-exec, which pdsh
does not support, run `mpirun python train.py`: init_distributed then gets the rank from mpi4py
(deepspeed/comm/comm.py).
"""

from dataclasses import replace
from typing import Any

from mlgen.frameworks import Framework, mpi
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology

HOSTFILE = "/job"
"""The folder of the hostfile that the deepspeed launcher reads by default."""

ROLES = mpi.ROLES


def topology(job: TrainingJob) -> Topology:
    """Lay out a launcher and workers."""
    job = replace(job, options={"transport": "ssh", **job.options})
    return mpi.lay_out(job, folders=(mpi.CONFIG, HOSTFILE)).topology()


def example(replicas: int, _gpus: int) -> dict[str, Any]:
    """Return the framework's part of `spec` for a first job; see `Framework.example`."""
    launcher = {"command": ["deepspeed", "train.py", "--deepspeed_config", "ds.json"]}
    return {"roles": {"launcher": launcher, "worker": {"replicas": replicas}}}


FRAMEWORK = Framework(
    title="DeepSpeed",
    summary="Like MPI, but over ssh by default, with a hostfile for the deepspeed launcher.",
    roles=ROLES,
    topology=topology,
    example=example,
    idle_roles=mpi.idle_roles,
)
