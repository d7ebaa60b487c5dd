"""XDL: parameter servers, a scheduler and workers that meet by XDL_CONFIG and ZooKeeper.

The variables are those of KubeDL (controllers/xdl/xdl.go), and so is what counts as success: nine
tenths of the workers, unless the job says another share or number.
"""

from functools import partial
from math import ceil
from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan, Viewer, config
from mlgen.topology import INDEX, Success, Topology

PORT = 2222

ROLES = ("ps", "scheduler", "worker", "extendrole")

RATE = 90

OPTIONS: dict[str, Any] = {
    "minFinishWorkRate": {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": RATE,
        "description": "The share of workers, in percent, that must have succeeded.",
        "examples": [80],
    },
    "minFinishWorkNum": {
        "type": "integer",
        "minimum": 1,
        "description": "The number of workers that must have succeeded, instead of a share.",
        "examples": [8],
    },
    "zkAddr": {
        "type": "string",
        "minLength": 1,
        "description": "The folder of ZooKeeper under which the job has its own: ZK_ADDR.",
        "examples": ["zfs://zookeeper.example:2181/xdl"],
    },
}


def topology(job: Job) -> Topology:
    """Lay out ps and scheduler, which serve, and workers, which decide."""
    plan = Plan(job, dict.fromkeys(ROLES, PORT))
    plan.require("worker")
    plan.single("scheduler")
    plan.decider("worker", ["worker"])
    if plan.problems:
        return plan.topology()
    serving = [job.roles[name] for name in ("scheduler", "ps") if name in job.roles]
    for name in (name for name in ROLES if name in job.roles):
        trains = job.roles[name] not in serving
        plan.add(
            job.roles[name],
            serves=not trains,
            decides=name == "worker",
            success=_success(plan) if name == "worker" else None,
            each=partial(_env, plan, name),
            # They are found in ZooKeeper, which knows them once they have started.
            waits=[plan.wait(peer, until="name") for peer in serving] if trains else (),
        )
    return plan.topology()


def _success(plan: Plan) -> Success | None:
    options, replicas = plan.job.options, plan.job.roles["worker"].replicas
    number, rate = options.get("minFinishWorkNum"), options.get("minFinishWorkRate")
    if number is not None and rate is not None:
        message = "a share and a number of workers cannot both count"
        plan.problem(("options", "minFinishWorkNum"), message, "keep one of the two")
    if number is not None and number > replicas:
        message = f"{number} workers cannot succeed where there are {replicas}"
        plan.problem(("options", "minFinishWorkNum"), message, f"write at most {replicas}")
    count = number or ceil(replicas * (rate or RATE) / 100)
    return Success(count=count) if count < replicas else None


def _env(plan: Plan, name: str, viewer: Viewer) -> dict[str, Any]:
    job = plan.job
    cluster = {role: plan.addresses(job.roles[role], viewer) for role in sorted(job.roles)}
    env = {
        "TASK_NAME": name,
        "TASK_INDEX": INDEX,
        "XDL_CONFIG": config({"cluster": cluster, "task": {"type": name, "index": INDEX}}),
    }
    if "zkAddr" in job.options:
        env["ZK_ADDR"] = f"{job.options['zkAddr'].rstrip('/')}/{job.name}"
    return {"env": env}
