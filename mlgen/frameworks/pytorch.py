"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables are those of Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR
and its kin for `init_process_group("env://")`, and the PET_* set, which torchrun reads as its own
options (https://pytorch.org/docs/stable/elastic/run.html).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import ANY, Plan, Viewer
from mlgen.ranks import RANK, Place, ranked
from mlgen.topology import Topology, Wait

PORT = 23456

ROLES = ("master", "worker")

OPTIONS: dict[str, Any] = {
    "nprocPerNode": {
        "type": ["integer", "string"],
        "minimum": 1,
        "pattern": "^(auto|cpu|gpu)$",
        "default": "auto",
        "description": "Processes that torchrun starts in each replica: a number, or one for"
        " each CPU or GPU; auto is gpu where there is one, else cpu. Left at auto, WORLD_SIZE"
        " counts replicas.",
        "examples": [8, "gpu"],
    },
    "elasticPolicy": {
        "type": "object",
        "description": "torchrun finds its peers at run time (the c10d rendezvous), and goes"
        " on while between minReplicas and maxReplicas workers are there.",
        "additionalProperties": False,
        "examples": [{"minReplicas": 2, "maxReplicas": 4, "maxRestarts": 3}],
        "properties": {
            "minReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "With fewer workers training waits; by default replicas.",
                "examples": [2],
            },
            "maxReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "More workers do not take part; by default replicas.",
                "examples": [4],
            },
            "maxRestarts": {
                "type": "integer",
                "minimum": 0,
                "description": "How often torchrun starts all processes again before it fails.",
                "examples": [3],
            },
            "rdzvId": {
                "type": "string",
                "minLength": 1,
                "description": "The rendezvous id; by default the job's name.",
                "examples": ["bert-7"],
            },
            "rdzvConf": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Further settings of the rendezvous.",
                "examples": [{"join_timeout": "600"}],
            },
        },
    },
}


def topology(job: Job) -> Topology:
    """Lay out a master and workers, or workers alone."""
    plan = Plan(job, dict.fromkeys((*ROLES, RANK), PORT))
    plan.single("master")
    if not job.roles:
        plan.require("worker")
    elif "elasticPolicy" in job.options:
        _elastic(plan)
    else:
        ranked(plan, "master", "worker", partial(_static_env, job.options.get("nprocPerNode")))
    return plan.topology()


def _static_env(processes: int | str | None, place: Place) -> dict[str, str]:
    """Every replica has its rank from the start."""
    size, port = len(place.hosts), str(place.leader_port)
    world = size * processes if isinstance(processes, int) else size
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": place.hosts[0],
        "PET_MASTER_ADDR": place.hosts[0],
        "WORLD_SIZE": str(world),
        "RANK": place.rank,
        "PET_NPROC_PER_NODE": str(processes or "auto"),
        "PET_NODE_RANK": place.rank,
        "PET_NNODES": str(size),
    }


def _elastic(plan: Plan) -> None:
    """Workers find each other at worker 0, and get their ranks there."""
    job, policy = plan.job, plan.job.options["elasticPolicy"]
    plan.require("worker")
    if "master" in job.roles:
        message = "an elastic job has no master: torchrun gives the ranks at run time"
        plan.problem(("roles", "master"), message, "make it one more worker")
    if "worker" not in job.roles:
        return
    worker = job.roles["worker"]
    least = policy.get("minReplicas", worker.replicas)
    most = policy.get("maxReplicas", worker.replicas)
    plan.between("worker", least, most)
    plan.decider("worker", ["worker"])
    # torchrun becomes the rendezvous where the endpoint is its own host's name, and before
    # PyTorch 2 it does not look through a domain (torch/distributed/elastic/rendezvous/utils.py).
    leader = replace(plan.hosts(worker, 1), after="")
    plan.add(
        worker,
        decides=True,
        success=ANY,
        restart="OnFailure",
        each=partial(_elastic_env, plan, next(iter(leader)), f"{least}:{most}"),
        waits=[Wait("worker", leader, plan.listens(worker))],
        bare_name=True,
    )


def _elastic_env(plan: Plan, leader: str, nodes: str, viewer: Viewer) -> dict[str, Any]:
    job, policy = plan.job, plan.job.options["elasticPolicy"]
    settings = dict(policy.get("rdzvConf", {}))
    if viewer:
        # On the network of its node a replica has the node's name, by which nobody knows it.
        settings.setdefault("is_host", "1" if viewer[1] == 0 else "0")
    env = {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": str(job.options.get("nprocPerNode", "auto")),
        "PET_RDZV_ENDPOINT": f"{leader}:{plan.port(job.roles['worker'], 0, viewer)}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": nodes,
        "PET_RDZV_ID": policy.get("rdzvId", job.name),
    }
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if settings:
        env["PET_RDZV_CONF"] = ",".join(f"{name}={value}" for name, value in settings.items())
    return {"env": env}
