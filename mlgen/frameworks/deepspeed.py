"""DeepSpeed: as MPI, over ssh by default; the deepspeed launcher finds its hostfile.

`deepspeed train.py` in the launcher reads /job/hostfile by itself and starts the workers by pdsh
(deepspeed/launcher/runner.py, DLTS_HOSTFILE). Over kubectl-exec, which pdsh does not know, it is
`mpirun python train.py`: init_distributed then asks mpi4py for its rank (deepspeed/comm/comm.py).
"""

from dataclasses import replace
from typing import Any

from mlgen.frameworks import mpi
from mlgen.frameworks._framework import Framework
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology

HOSTFILE = "/job"
"""The folder of the hostfile that the deepspeed launcher reads if it is not told another."""

ROLES = mpi.ROLES

OPTIONS: dict[str, Any] = {
    **{name: given for name, given in mpi.OPTIONS.items() if name != "implementation"},
    "transport": {**mpi.OPTIONS["transport"], "default": "ssh"},
}


def topology(job: TrainingJob) -> Topology:
    """Lay out a launcher and workers."""
    job = replace(job, options={"transport": "ssh", **job.options})
    return mpi.lay_out(job, folders=(mpi.CONFIG, HOSTFILE)).topology()


FRAMEWORK = Framework(
    title="DeepSpeed",
    summary="As MPI, over ssh by default; the deepspeed launcher finds its hostfile.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
