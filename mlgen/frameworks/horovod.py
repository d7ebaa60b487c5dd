"""Horovod: like MPI; with `elasticPolicy`, a script prints the workers that are running.

`horovodrun --host-discovery-script /etc/mpi/discover_hosts.sh` runs the script periodically:
https://horovod.readthedocs.io/en/stable/elastic_include.html
"""

from collections.abc import Iterator
from dataclasses import replace

from mlgen.frameworks import Framework, mpi
from mlgen.frameworks._planner import Planner
from mlgen.frameworks._slots import per_worker
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology

ROLES = mpi.ROLES


def topology(job: TrainingJob) -> Topology:
    """Lay out a launcher and workers; an elastic launcher discovers the workers at run time."""
    policy = job.options.get("elasticPolicy")
    if not policy:
        return mpi.topology(job)
    minimum, maximum = policy["minReplicas"], policy["maxReplicas"]
    planner = mpi.lay_out(job, ("discover_hosts.sh", "elastic-hosts"), min_workers=minimum)
    if "worker" in job.roles:
        counts = {"worker": maximum}
        if job.options.get("runLauncherAsWorker") and "launcher" in job.roles:
            counts = {"launcher": 1, **counts}
        lines = (line for role, count in counts.items() for line in _lines(planner, role, count))
        planner.files["elastic-hosts"] = "".join(lines)
        planner.between("worker", minimum, maximum)
        if planner.is_split(job.roles["worker"]):
            message = "with host networking, no worker can be added or removed over ssh"
            hint = "remove elasticPolicy, or write transport: kubectl-exec"
            planner.problem(("options", "elasticPolicy"), message, hint)
    # A worker that still pulls its image has an address, too, and horovodrun would fail to start a
    # process there, and often the whole job. The operators also list only workers that run.
    return replace(planner.topology(), only_ready=True)


def _lines(planner: Planner, role: str, count: int) -> Iterator[str]:
    """Yield a line of elastic-hosts for each replica: `<name>:<slots> <host to resolve>`."""
    names = mpi.reachable(planner, role, count)
    hosts = planner.hosts(planner.job.roles[role], count)
    for name, host in zip(names, hosts, strict=True):
        yield f"{name}:{per_worker(planner.job)} {host}\n"


FRAMEWORK = Framework(
    title="Horovod",
    summary="Like MPI; elastic training with a script that lists the running workers.",
    roles=ROLES,
    renamed_options={"elastic": "elasticPolicy"},
    topology=topology,
    example=mpi.example,
    idle_roles=mpi.idle_roles,
)
