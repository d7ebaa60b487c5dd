"""Ray: a head and workers that form a cluster, and a submitter that hands it the training.

The commands are Volcano's (pkg/controllers/job/plugins/distributed-framework/ray), the submitter
is KubeRay's: `ray job submit` finds the head by RAY_ADDRESS, follows the job's log and ends as it
does. Without a submitter the head's own command trains, and starts Ray itself.
https://docs.ray.io/en/latest/cluster/cli.html
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology, Wait

GCS, DASHBOARD, CLIENT = 6379, 8265, 10001

ROLES = ("head", "worker", "submitter")

OPTIONS: dict[str, Any] = {}


def topology(job: TrainingJob) -> Topology:
    """Lay out a head and workers, which serve, and a submitter, which decides."""
    more = {"head": {"dashboard": DASHBOARD, "client": CLIENT}}
    planner = Planner(job, {"head": GCS}, more)
    planner.require("head")
    planner.single("head", "submitter")
    leader = "submitter" if "submitter" in job.roles else "head"
    planner.decider(leader, [leader])
    spec = job.roles.get(leader)
    if spec and not (spec.command or spec.args):
        planner.problem(
            ("roles", leader),
            f"nobody trains: the {leader} has no command",
            "add submitter: {command: [ray, job, submit, --, python, train.py]}",
        )
    if planner.collector.problems:
        return planner.topology()
    _cluster(planner, serves=leader == "submitter")
    if "submitter" in job.roles:
        head = job.roles["head"]
        planner.add(
            job.roles["submitter"],
            decides=True,
            env={"RAY_ADDRESS": f"http://{planner.first(head)}:{DASHBOARD}"},
            waits=(Wait("head", planner.hosts(head), DASHBOARD),),
        )
    return planner.topology()


def _cluster(planner: Planner, *, serves: bool) -> None:
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
    summary="A head and workers that form a cluster, and a submitter that hands it the training.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
