"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables are those of Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR,
RANK and so on for `init_process_group("env://")`, and PET_*, which torchrun reads as its options
(https://pytorch.org/docs/stable/elastic/run.html).
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
        "description": "The number of processes that torchrun starts in each replica: a number, or"
        " one per CPU (cpu) or GPU (gpu); auto means gpu if the node has one, else cpu. Unless it"
        " is a number, WORLD_SIZE is the number of replicas.",
        "examples": [8, "gpu"],
    },
    "elasticPolicy": {
        "type": "object",
        "description": "Elastic training: workers find each other at run time with torchrun's c10d"
        " rendezvous. Training runs with any number of workers from minReplicas to maxReplicas.",
        "additionalProperties": False,
        "examples": [{"minReplicas": 2, "maxReplicas": 4, "maxRestarts": 3}],
        "properties": {
            "minReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "The minimum number of workers. Defaults to replicas.",
                "examples": [2],
            },
            "maxReplicas": {
                "type": "integer",
                "minimum": 1,
                "description": "The maximum number of workers. Defaults to replicas.",
                "examples": [4],
            },
            "maxRestarts": {
                "type": "integer",
                "minimum": 0,
                "description": "The number of times that torchrun restarts all processes before it"
                " fails.",
                "examples": [3],
            },
            "rdzvId": {
                "type": "string",
                "minLength": 1,
                "description": "The ID of the rendezvous. Defaults to the name of the job.",
                "examples": ["bert-7"],
            },
            "rdzvConf": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Additional settings of the rendezvous, as strings.",
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
    """Return the variables of a replica whose rank is known."""
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
    """Add workers that meet at worker 0, where torchrun assigns their ranks."""
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    planner.require("worker")
    if "master" in job.roles:
        message = "with elasticPolicy there is no master: torchrun assigns the ranks"
        planner.problem(("roles", "master"), message, "remove it, and add a replica to worker")
    if "worker" not in job.roles:
        return
    worker = job.roles["worker"]
    minimum = policy.get("minReplicas", worker.replicas)
    maximum = policy.get("maxReplicas", worker.replicas)
    planner.between("worker", minimum, maximum)
    planner.decider("worker", ["worker"])
    # torchrun hosts the rendezvous if the endpoint is its own host name. Before PyTorch 2 it does
    # not recognize that name with a domain (torch/distributed/elastic/rendezvous/utils.py).
    leader = replace(planner.hosts(worker, 1), after="")
    planner.add(
        worker,
        decides=True,
        success=ANY,
        restart="OnFailure",
        each=partial(_elastic_env, planner, next(iter(leader)), f"{minimum}:{maximum}"),
        waits=(Wait("worker", leader, planner.peer_port(worker)),),
        bare_name=True,
    )


def _elastic_env(planner: Planner, leader: str, nodes: str, viewer: Viewer) -> RoleFields:
    """Return the variables of an elastic worker; `nodes` is `<minimum>:<maximum>`."""
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    settings = dict(policy.get("rdzvConf", {}))
    if viewer:
        # With host networking a replica has the host name of its node, which is not the endpoint's.
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
    summary="Sets ranks and addresses for torch.distributed and torchrun, static or elastic.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
