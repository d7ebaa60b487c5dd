"""XGBoost: a master that runs the tracker, and workers. Also for LightGBM.

The variables are those of Kubeflow's training operator (pkg/controller.v1/xgboost/xgboost.go):
rank 0 starts a RabitTracker on MASTER_PORT, and all ranks connect to it. LightGBM builds its
machine list from MASTER_ADDR and WORKER_ADDRS, and its machines connect to each other. Replicas
wait for names, never for ports: a connection that is closed at once crashes the tracker before
XGBoost 2.1, and LightGBM takes it for a machine. Since 2.1, XGBoost gives up on the tracker after
some seconds, so the others also wait until rank 0 has started.
"""

from typing import Any

from mlgen.frameworks import Framework
from mlgen.frameworks._planner import Planner
from mlgen.frameworks._ranks import RANK, RankInfo, ranked
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Topology

PORT = 9999

ROLES = ("master", "worker")


def topology(job: TrainingJob) -> Topology:
    """Lay out a master, which decides, and workers."""
    planner = Planner(job, dict.fromkeys((*ROLES, RANK), PORT))
    planner.require("master")
    planner.single("master")
    if "master" in job.roles:
        ranked(planner, "master", "worker", _env)
    return planner.topology()


def _env(rank_info: RankInfo) -> dict[str, str]:
    """Return the variables of one replica."""
    env = {
        "MASTER_PORT": str(rank_info.leader_port),
        "MASTER_ADDR": rank_info.hosts[0],
        "WORLD_SIZE": str(len(rank_info.hosts)),
        "RANK": rank_info.rank,
        "PYTHONUNBUFFERED": "1",
    }
    if len(rank_info.hosts) > 1:
        env["WORKER_PORT"] = str(rank_info.port)
        env["WORKER_ADDRS"] = ",".join(rank_info.hosts[1:])
    return env


def example(replicas: int, _gpus: int) -> dict[str, Any]:
    """Return the framework's part of `spec` for a first job; see `Framework.example`."""
    workers = {"worker": {"replicas": replicas - 1}} if replicas > 1 else {}
    return {"command": ["python", "train.py"], "roles": {"master": {}, **workers}}


FRAMEWORK = Framework(
    title="XGBoost",
    summary="A master that runs the tracker, and workers. Also for LightGBM.",
    roles=ROLES,
    topology=topology,
    example=example,
)
