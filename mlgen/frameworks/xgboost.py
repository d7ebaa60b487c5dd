"""XGBoost: a master with the tracker, and workers; LightGBM too, by its workers' addresses.

The variables are those of Kubeflow's training operator (pkg/controller.v1/xgboost/xgboost.go):
rank 0 starts a RabitTracker at MASTER_PORT, and all ranks dial it. The tracker of XGBoost before
2.1 dies of a connection that is closed at once, so there `waitFor` waits for names. LightGBM's
machine list is MASTER_ADDR and WORKER_ADDRS.
"""

from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan
from mlgen.ranks import RANK, Place, ranked
from mlgen.topology import Topology

PORT = 9999

ROLES = ("master", "worker")

OPTIONS: dict[str, Any] = {}


def topology(job: Job) -> Topology:
    """Lay out a master, which decides, and workers."""
    plan = Plan(job, dict.fromkeys((*ROLES, RANK), PORT))
    plan.require("master")
    plan.single("master")
    if "master" in job.roles:
        ranked(plan, "master", "worker", _env)
    return plan.topology()


def _env(place: Place) -> dict[str, str]:
    env = {
        "MASTER_PORT": str(place.leader_port),
        "MASTER_ADDR": place.hosts[0],
        "WORLD_SIZE": str(len(place.hosts)),
        "RANK": place.rank,
        "PYTHONUNBUFFERED": "1",
    }
    if len(place.hosts) > 1:
        env["WORKER_PORT"] = str(place.port)
        env["WORKER_ADDRS"] = ",".join(place.hosts[1:])
    return env
