"""Horovod: as MPI, and elastic: a script tells horovodrun which workers are up.

`horovodrun --host-discovery-script /etc/mpi/discover_hosts.sh` asks it again and again:
https://horovod.readthedocs.io/en/stable/elastic_include.html
"""

from collections.abc import Iterator
from typing import Any

from mlgen.frameworks import mpi
from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner
from mlgen.jobfile.model import TrainingJob
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


def topology(job: TrainingJob) -> Topology:
    """Lay out a launcher and workers; an elastic launcher finds the workers at run time."""
    elastic = job.options.get("elastic")
    if not elastic:
        return mpi.topology(job)
    most = elastic["maxReplicas"]
    planner = mpi.lay_out(job, ("discover_hosts.sh", "elastic-hosts"), least=elastic["minReplicas"])
    if "worker" in job.roles:
        working = {"launcher": 1} if job.options.get("runLauncherAsWorker") else {}
        counts = {role: n for role, n in working.items() if role in job.roles} | {"worker": most}
        lines = (line for role, count in counts.items() for line in _known(planner, role, count))
        planner.files["elastic-hosts"] = "".join(lines)
        planner.between("worker", elastic["minReplicas"], most)
    return planner.topology()


def _known(planner: Planner, role: str, count: int) -> Iterator[str]:
    """Return the lines of elastic-hosts for so many replicas."""
    names, hosts = (
        mpi.reachable(planner, role, count),
        planner.hosts(planner.job.roles[role], count),
    )
    for name, host in zip(names, hosts, strict=True):
        yield f"{name}:{mpi.slots(planner.job)} {host}\n"


FRAMEWORK = Framework(
    title="Horovod",
    summary="As MPI, and elastic: a script tells horovodrun which workers are up.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
