"""DeepSpeed: like MPI, but over ssh by default, with a hostfile for the deepspeed launcher.

With ssh, run `deepspeed train.py` in the launcher: it reads /job/hostfile by default, and starts
the workers with pdsh (deepspeed/launcher/runner.py, DLTS_HOSTFILE). With kubectl-exec, which pdsh
does not support, run `mpirun python train.py`: init_distributed then gets the rank from mpi4py
(deepspeed/comm/comm.py).
"""

from mlgen.frameworks import mpi
from mlgen.frameworks._planner import Planner

HOSTFILE = "/job"
"""The folder of the hostfile that the deepspeed launcher reads by default."""


def lay_out(planner: Planner) -> None:
    """Add a launcher and workers."""
    planner.job = planner.job._replace(options={"transport": "ssh", **planner.job.options})
    mpi.lay_out(planner, folders=(mpi.CONFIG, HOSTFILE))
