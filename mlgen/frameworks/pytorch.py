"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables are those of Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR
and its kin for `init_process_group("env://")`, and the PET_* set, which torchrun reads as its own
options (https://pytorch.org/docs/stable/elastic/run.html).
"""

from dataclasses import replace
from typing import Any

from mlgen.job import Job
from mlgen.layout import ANY, FIRST, Plan, Rank, ranks
from mlgen.topology import INDEX, Topology, Wait, hosts

PORT = 23456

ROLES = ("master", "worker")

OPTIONS: dict[str, Any] = {
    "type": "object",
    "description": "What only PyTorch knows.",
    "additionalProperties": False,
    "properties": {
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
    },
}


def topology(job: Job) -> Topology:
    """Lay out a master and workers, or workers alone."""
    plan = Plan(job)
    plan.single("master")
    if not job.roles:
        plan.require("worker")
    elif "elasticPolicy" in job.options:
        _elastic(plan)
    else:
        _static(plan)
    return plan.topology()


def _static(plan: Plan) -> None:
    """Every replica has its rank from the start; rank 0 is the rendezvous."""
    job = plan.job
    members = ranks(job, "master", "worker", INDEX)
    size = sum(member.replicas for member in members)
    plan.decider(members[0].spec.name, [members[0].spec.name, *_aliases(members)])
    leader = next(iter(hosts(job, members[0].spec.name, 1)))
    port = members[0].spec.port or PORT
    for member in members:
        decides = member is members[0]
        plan.add(
            member.spec,
            replicas=member.replicas,
            index=member.index,
            decides=decides,
            success=None if member.spec.name == "worker" else FIRST,
            port=PORT,
            env=_static_env(job, member.rank, size, leader, port),
            waits=() if member.replicas == 1 and decides else _waits(plan, members[0], port),
        )


def _aliases(members: list[Rank]) -> list[str]:
    """The role whose replica is rank 0, where master and workers are folded into one."""
    return ["master"] if members[0].spec.name == "rank" else []


def _waits(plan: Plan, leader: Rank, port: int) -> list[Wait]:
    """Everybody waits until rank 0 listens; rank 0 itself passes over its own address."""
    return [Wait(leader.spec.name, hosts(plan.job, leader.spec.name, 1), port)]


def _static_env(job: Job, rank: str, size: int, leader: str, port: int) -> dict[str, str]:
    processes = job.options.get("nprocPerNode", "auto")
    world = size * processes if isinstance(processes, int) else size
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": str(port),
        "PET_MASTER_PORT": str(port),
        "MASTER_ADDR": leader,
        "PET_MASTER_ADDR": leader,
        "WORLD_SIZE": str(world),
        "RANK": rank,
        "PET_NPROC_PER_NODE": str(processes),
        "PET_NODE_RANK": rank,
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
    # torchrun becomes the rendezvous where the endpoint is its own host's name, and before
    # PyTorch 2 it does not look through a domain (torch/distributed/elastic/rendezvous/utils.py).
    leader = replace(hosts(job, "worker", 1), after="")
    port = worker.port or PORT
    env = {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": str(job.options.get("nprocPerNode", "auto")),
        "PET_RDZV_ENDPOINT": f"{next(iter(leader))}:{port}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_ID": policy.get("rdzvId", job.name),
    }
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if "rdzvConf" in policy:
        env["PET_RDZV_CONF"] = ",".join(f"{k}={v}" for k, v in policy["rdzvConf"].items())
    plan.decider("worker", ["worker"])
    plan.add(
        worker,
        decides=True,
        success=ANY,
        restart="OnFailure",
        port=PORT,
        env=env,
        waits=[Wait("worker", leader, port)],
        bare_name=True,
    )
