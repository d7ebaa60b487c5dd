"""Ray: a cluster of a head and workers, and a submitter that submits the training to it.

The commands of head and workers are those of Volcano
(pkg/controllers/job/plugins/distributed-framework/ray). The submitter is that of KubeRay:
`ray job submit` reads the head's address from RAY_ADDRESS, prints the log of the job, and exits
with its status. Without a submitter, the head's command must start Ray and run the training.
https://docs.ray.io/en/latest/cluster/cli.html
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology, Wait

GCS, DASHBOARD, CLIENT = 6379, 8265, 10001
"""The ports of the head: the cluster's control store, the dashboard with the job API, clients."""

ROLES = ("head", "worker", "submitter")

OPTIONS: dict[str, Any] = {}


def topology(job: TrainingJob) -> Topology:
    """Lay out a head and workers, which serve, and a submitter, which decides."""
    more_ports = {"head": {"dashboard": DASHBOARD, "client": CLIENT}}
    planner = Planner(job, {"head": GCS}, more_ports)
    planner.require("head")
    planner.single("head", "submitter")
    leader = "submitter" if "submitter" in job.roles else "head"
    planner.decider(leader, [leader])
    spec = job.roles.get(leader)
    if spec and not (spec.command or spec.args):
        planner.problem(
            ("roles", leader),
            f"no role runs the training: {leader} has no command",
            "add submitter: {command: [ray, job, submit, --, python, train.py]}",
        )
    if planner.collector.problems:
        return planner.topology()
    _add_cluster(planner, serves=leader == "submitter")
    if "submitter" in job.roles:
        head = job.roles["head"]
        planner.add(
            job.roles["submitter"],
            decides=True,
            env={"RAY_ADDRESS": f"http://{planner.first_host(head)}:{DASHBOARD}"},
            waits=(Wait("head", planner.hosts(head), DASHBOARD),),
        )
    return planner.topology()


def _add_cluster(planner: Planner, *, serves: bool) -> None:
    """Add the head, which decides unless it serves, and the workers."""
    head, worker = planner.job.roles["head"], planner.job.roles.get("worker")
    planner.add(head, serves=serves, decides=not serves, each=partial(_head, planner))
    if worker:
        (address,) = planner.addresses(head)
        planner.add(
            worker,
            serves=True,
            command=("ray", "start", "--block", f"--address={address}"),
            waits=(planner.wait(head),),
        )


def _head(planner: Planner, viewer: Viewer) -> RoleFields:
    """Return the command of the head."""
    head = planner.job.roles["head"]
    gcs = planner.port(head, 0, viewer)
    dashboard, client = (planner.port(head, 0, viewer, name) for name in ("dashboard", "client"))
    options = (
        f"--port={gcs}",
        "--dashboard-host=0.0.0.0",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}",
    )
    return {"command": ("ray", "start", "--head", "--block", *options)}


FRAMEWORK = Framework(
    title="Ray",
    summary="A cluster of a head and workers, and a submitter that submits the training to it.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
