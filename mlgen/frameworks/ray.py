"""Ray: a head and workers that form a cluster, and a submitter that hands it the training.

The commands are Volcano's (pkg/controllers/job/plugins/distributed-framework/ray), the submitter
is KubeRay's: `ray job submit` finds the head by RAY_ADDRESS, follows the job's log and ends as it
does. Without a submitter the head's own command trains, and starts Ray itself.
https://docs.ray.io/en/latest/cluster/cli.html
"""

from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan, Viewer
from mlgen.topology import Topology, Wait

GCS, DASHBOARD, CLIENT = 6379, 8265, 10001

ROLES = ("head", "worker", "submitter")

OPTIONS: dict[str, Any] = {}


def topology(job: Job) -> Topology:
    """Lay out a head and workers, which serve, and a submitter, which decides."""
    more = {"head": {"dashboard": DASHBOARD, "client": CLIENT}}
    plan = Plan(job, {"head": GCS}, more)
    plan.require("head")
    plan.single("head", "submitter")
    leader = "submitter" if "submitter" in job.roles else "head"
    plan.decider(leader, [leader])
    spec = job.roles.get(leader)
    if spec and not (spec.command or spec.args):
        plan.problem(
            ("roles", leader),
            f"nobody trains: the {leader} has no command",
            "add submitter: {command: [ray, job, submit, --, python, train.py]}",
        )
    if plan.problems:
        return plan.topology()
    _cluster(plan, serves=leader == "submitter")
    if "submitter" in job.roles:
        head = job.roles["head"]
        plan.add(
            job.roles["submitter"],
            decides=True,
            env={"RAY_ADDRESS": f"http://{plan.first(head)}:{DASHBOARD}"},
            waits=(Wait("head", plan.hosts(head), DASHBOARD),),
        )
    return plan.topology()


def _cluster(plan: Plan, *, serves: bool) -> None:
    head, worker = plan.job.roles["head"], plan.job.roles.get("worker")
    plan.add(head, serves=serves, decides=not serves, each=partial(_head, plan))
    if worker:
        (address,) = plan.addresses(head)
        plan.add(
            worker,
            serves=True,
            command=("ray", "start", "--block", f"--address={address}"),
            waits=(plan.wait(head),),
        )


def _head(plan: Plan, viewer: Viewer) -> dict[str, Any]:
    head = plan.job.roles["head"]
    gcs = plan.port(head, 0, viewer)
    dashboard, client = (plan.port(head, 0, viewer, name) for name in ("dashboard", "client"))
    options = (
        f"--port={gcs}",
        "--dashboard-host=0.0.0.0",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}",
    )
    return {"command": ("ray", "start", "--head", "--block", *options)}
