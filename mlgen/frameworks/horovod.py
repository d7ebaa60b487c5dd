"""Horovod: as MPI, and elastic: a script tells horovodrun which workers are up.

`horovodrun --host-discovery-script /etc/mpi/discover_hosts.sh` asks it again and again:
https://horovod.readthedocs.io/en/stable/elastic_include.html
"""

from typing import Any

from mlgen.frameworks import mpi
from mlgen.job import Job
from mlgen.topology import Topology

ROLES = mpi.ROLES

OPTIONS: dict[str, Any] = {
    **mpi.OPTIONS,
    "elastic": {
        "type": "object",
        "description": "Workers may come and go while training goes on: scale the StatefulSet"
        " of the workers, and discover_hosts.sh prints those that DNS knows.",
        "additionalProperties": False,
        "required": ["minReplicas", "maxReplicas"],
        "examples": [{"minReplicas": 2, "maxReplicas": 8}],
        "properties": {
            "minReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "Workers that must be up before the launcher starts.",
                "examples": [2],
            },
            "maxReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "The most workers that are ever looked for.",
                "examples": [8],
            },
        },
    },
}


def topology(job: Job) -> Topology:
    """Lay out a launcher and workers; an elastic launcher finds the workers at run time."""
    elastic = job.options.get("elastic")
    if not elastic:
        return mpi.topology(job)
    most = elastic["maxReplicas"]
    plan = mpi.plan(job, ("discover_hosts.sh", "elastic-hosts"), least=elastic["minReplicas"])
    if "worker" in job.roles:
        pairs = zip(
            mpi.reachable(plan, "worker", most), plan.hosts(job.roles["worker"], most), strict=True
        )
        known = "".join(f"{name}:{mpi.slots(job)} {host}\n" for name, host in pairs)
        plan.files["elastic-hosts"] = known
        plan.between("worker", elastic["minReplicas"], most)
    return plan.topology()
