"""DeepSpeed: as MPI, over ssh by default; the deepspeed launcher finds its hostfile.

`deepspeed train.py` in the launcher reads /job/hostfile by itself (deepspeed/launcher/runner.py,
DLTS_HOSTFILE) and starts the workers by pdsh, or with `--launcher openmpi` by mpirun. Over
kubectl-exec it is the latter, with `--no_ssh_check --master_addr <job>-worker-0.<job>`.
"""

from dataclasses import replace
from typing import Any

from mlgen.frameworks import mpi
from mlgen.job import Job
from mlgen.topology import Topology

HOSTFILE = "/job"
"""The folder of the hostfile that the deepspeed launcher reads if it is not told another."""

ROLES = mpi.ROLES

OPTIONS: dict[str, Any] = {
    **mpi.OPTIONS,
    "description": "What only DeepSpeed knows.",
    "properties": {
        **{
            name: given
            for name, given in mpi.OPTIONS["properties"].items()
            if name != "implementation"
        },
        "transport": {**mpi.OPTIONS["properties"]["transport"], "default": "ssh"},
    },
}


def topology(job: Job) -> Topology:
    """Lay out a launcher and workers."""
    job = replace(job, options={"transport": "ssh", **job.options})
    return mpi.plan(job, folders=(mpi.CONFIG, HOSTFILE)).topology()
