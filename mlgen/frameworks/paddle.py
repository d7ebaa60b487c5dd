"""PaddlePaddle: collective training among workers, or masters that serve parameters to them.

The variables are those of Kubeflow's training operator (pkg/controller.v1/paddlepaddle/envvar.go),
which `python -m paddle.distributed.launch` reads as its own options. Its launcher becomes the
rendezvous where the host of PADDLE_MASTER is, letter by letter, its own POD_IP
(paddle/distributed/launch/controllers/master.py), so a name in both lets all replicas share a Job.
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import INDEX, POD_IP, Env, Topology

PORT = 36543

ROLES = ("master", "worker")

OPTIONS: dict[str, Any] = {}


def topology(job: TrainingJob) -> Topology:
    """Lay out masters and workers; the masters decide, or else all workers."""
    planner = Planner(job, dict.fromkeys(ROLES, PORT))
    leader = "master" if "master" in job.roles else "worker"
    planner.require("worker")
    planner.decider(leader, [leader])
    if planner.collector.problems:
        return planner.topology()
    meeting = planner.wait(job.roles[leader], count=1)
    for name in (name for name in ROLES if name in job.roles):
        planner.add(
            job.roles[name],
            decides=name == leader,
            restart="OnFailure",
            each=partial(_env, planner, leader, name),
            waits=(meeting,) if job.replicas > 1 else (),
        )
    return planner.topology()


def _env(planner: Planner, leader: str, name: str, viewer: Viewer) -> RoleFields:
    env: dict[str, Any] = {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": planner.job.name,
        "PADDLE_NNODES": str(planner.job.replicas),
    }
    env |= _meeting(planner, leader, name, viewer)
    if leader == "worker":
        env["PADDLE_RANK"] = INDEX
    else:
        env["PADDLE_SERVER_NUM" if name == leader else "PADDLE_TRAINER_NUM"] = "1"
    return {"env": env}


def _meeting(planner: Planner, leader: str, name: str, viewer: Viewer) -> Env:
    """Where the launchers meet, by name; on the network of the nodes by address.

    There a name leads to a Service, which passes on one port, but trainers dial any.
    """
    roles = planner.job.roles
    port = planner.port(roles[leader], 0, viewer)
    host = planner.first(roles[leader])
    if viewer is None:
        own = planner.hosts(roles[name], 1)
        return {"POD_IP": f"{own.before}{INDEX}{own.after}", "PADDLE_MASTER": f"{host}:{port}"}
    host = "$(POD_IP)" if viewer == (leader, 0) else host
    return {"POD_IP": POD_IP, "PADDLE_MASTER": f"{host}:{port}"}


FRAMEWORK = Framework(
    title="PaddlePaddle",
    summary="Collective training among workers, or masters that serve parameters to them.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
