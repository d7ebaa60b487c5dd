"""Horovod: like MPI; with `elasticPolicy`, a script prints the workers that are running.

`horovodrun --host-discovery-script /etc/mpi/discover_hosts.sh` runs the script periodically:
https://horovod.readthedocs.io/en/stable/elastic_include.html
"""

from collections.abc import Iterator

from mlgen.frameworks import mpi
from mlgen.frameworks._planner import Planner
from mlgen.launch.mpi import per_worker


def lay_out(planner: Planner) -> None:
    """Add a launcher and workers. An elastic launcher discovers the workers at run time."""
    job = planner.job
    policy = job.options.get("elasticPolicy")
    if not policy:
        mpi.lay_out(planner)
        return
    minimum, maximum = policy["minReplicas"], policy["maxReplicas"]
    mpi.lay_out(planner, ("discover_hosts.sh", "elastic-hosts"), min_workers=minimum)
    counts = {"launcher": 1} if job.options.get("runLauncherAsWorker") else {}
    counts["worker"] = maximum
    lines = (line for role, count in counts.items() for line in _lines(planner, role, count))
    planner.files["elastic-hosts"] = "".join(lines)
    planner.between("worker", minimum, maximum)
    if planner.is_split(job.roles["worker"]):
        message = "with host networking, elasticPolicy cannot be used with transport: ssh"
        hint = "remove elasticPolicy, or write transport: kubectl-exec"
        planner.report(("options", "elasticPolicy"), message, hint)
    # A worker that still pulls its image also has an address. horovodrun would fail to start a
    # process there, which often fails the whole job. The operators also list only running workers.
    planner.only_ready = True


def _lines(planner: Planner, role: str, count: int) -> Iterator[str]:
    """Yield a line of elastic-hosts for each replica: `<name>:<slots> <host to resolve>`."""
    names = mpi.reachable(planner, role, count)
    hosts, slots = planner.hosts(planner.job.roles[role], count), per_worker(planner.job)
    for name, host in zip(names, hosts, strict=True):
        yield f"{name}:{slots} {host}\n"
