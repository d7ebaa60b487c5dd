"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables are those of Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR
and its kin for `init_process_group("env://")`, and the PET_* set, which torchrun reads as its own
options (https://pytorch.org/docs/stable/elastic/run.html).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import ANY, Planner, RoleFields, Viewer
from mlgen.frameworks._ranks import RANK, RankInfo, ranked
from mlgen.jobfile.model import TrainingJob
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


def topology(job: TrainingJob) -> Topology:
    """Lay out a master and workers, or workers alone."""
    planner = Planner(job, dict.fromkeys((*ROLES, RANK), PORT))
    planner.single("master")
    if not job.roles:
        planner.require("worker")
    elif "elasticPolicy" in job.options:
        _elastic(planner)
    else:
        ranked(planner, "master", "worker", partial(_static_env, job.options.get("nprocPerNode")))
    return planner.topology()


def _static_env(processes: int | str | None, rank_info: RankInfo) -> dict[str, str]:
    """Every replica has its rank from the start."""
    size, port = len(rank_info.hosts), str(rank_info.leader_port)
    world = size * processes if isinstance(processes, int) else size
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": rank_info.hosts[0],
        "PET_MASTER_ADDR": rank_info.hosts[0],
        "WORLD_SIZE": str(world),
        "RANK": rank_info.rank,
        "PET_NPROC_PER_NODE": str(processes or "auto"),
        "PET_NODE_RANK": rank_info.rank,
        "PET_NNODES": str(size),
    }


def _elastic(planner: Planner) -> None:
    """Workers find each other at worker 0, and get their ranks there."""
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    planner.require("worker")
    if "master" in job.roles:
        message = "an elastic job has no master: torchrun gives the ranks at run time"
        planner.problem(("roles", "master"), message, "make it one more worker")
    if "worker" not in job.roles:
        return
    worker = job.roles["worker"]
    least = policy.get("minReplicas", worker.replicas)
    most = policy.get("maxReplicas", worker.replicas)
    planner.between("worker", least, most)
    planner.decider("worker", ["worker"])
    # torchrun becomes the rendezvous where the endpoint is its own host's name, and before
    # PyTorch 2 it does not look through a domain (torch/distributed/elastic/rendezvous/utils.py).
    leader = replace(planner.hosts(worker, 1), after="")
    planner.add(
        worker,
        decides=True,
        success=ANY,
        restart="OnFailure",
        each=partial(_elastic_env, planner, next(iter(leader)), f"{least}:{most}"),
        waits=(Wait("worker", leader, planner.listens(worker)),),
        bare_name=True,
    )


def _elastic_env(planner: Planner, leader: str, nodes: str, viewer: Viewer) -> RoleFields:
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    settings = dict(policy.get("rdzvConf", {}))
    if viewer:
        # On the network of its node a replica has the node's name, by which nobody knows it.
        settings.setdefault("is_host", "1" if viewer[1] == 0 else "0")
    env = {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": str(job.options.get("nprocPerNode", "auto")),
        "PET_RDZV_ENDPOINT": f"{leader}:{planner.port(job.roles['worker'], 0, viewer)}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": nodes,
        "PET_RDZV_ID": policy.get("rdzvId", job.name),
    }
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if settings:
        env["PET_RDZV_CONF"] = ",".join(f"{name}={value}" for name, value in settings.items())
    return {"env": env}


FRAMEWORK = Framework(
    title="PyTorch",
    summary="Ranks for torch.distributed and torchrun, static or elastic.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
