"""XDL: parameter servers, a scheduler and workers that meet by XDL_CONFIG and ZooKeeper.

The variables are those of KubeDL (controllers/xdl/xdl.go), and so is what counts as success: nine
tenths of the workers, unless the job says another share or number.
"""

from functools import partial
from math import ceil
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config
from mlgen.jobfile.model import TrainingJob
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


def topology(job: TrainingJob) -> Topology:
    """Lay out ps and scheduler, which serve, and workers, which decide."""
    planner = Planner(job, dict.fromkeys(ROLES, PORT))
    planner.require("worker")
    planner.single("scheduler")
    planner.decider("worker", ["worker"])
    if planner.collector.problems:
        return planner.topology()
    serving = [job.roles[name] for name in ("scheduler", "ps") if name in job.roles]
    for name in (name for name in ROLES if name in job.roles):
        trains = job.roles[name] not in serving
        planner.add(
            job.roles[name],
            serves=not trains,
            decides=name == "worker",
            success=_success(planner) if name == "worker" else None,
            each=partial(_env, planner, name),
            # They are found in ZooKeeper, which knows them once they have started.
            waits=tuple(planner.wait(peer, until="name") for peer in serving if trains),
        )
    return planner.topology()


def _success(planner: Planner) -> Success | None:
    options, replicas = planner.job.options, planner.job.roles["worker"].replicas
    number, rate = options.get("minFinishWorkNum"), options.get("minFinishWorkRate")
    if number is not None and rate is not None:
        message = "a share and a number of workers cannot both count"
        planner.problem(("options", "minFinishWorkNum"), message, "keep one of the two")
    if number is not None and number > replicas:
        message = f"{number} workers cannot succeed where there are {replicas}"
        planner.problem(("options", "minFinishWorkNum"), message, f"write at most {replicas}")
    count = number or ceil(replicas * (rate or RATE) / 100)
    return Success(count=count) if count < replicas else None


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    job = planner.job
    cluster = {role: planner.addresses(job.roles[role], viewer) for role in sorted(job.roles)}
    env = {
        "TASK_NAME": name,
        "TASK_INDEX": INDEX,
        "XDL_CONFIG": config({"cluster": cluster, "task": {"type": name, "index": INDEX}}),
    }
    if "zkAddr" in job.options:
        env["ZK_ADDR"] = f"{job.options['zkAddr'].rstrip('/')}/{job.name}"
    return {"env": env}


FRAMEWORK = Framework(
    title="XDL",
    summary="Parameter servers, a scheduler and workers that meet by XDL_CONFIG and ZooKeeper.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
