"""XGBoost: a master that runs the tracker, and workers. Also for LightGBM.

The variables are those of Kubeflow's training operator (pkg/controller.v1/xgboost/xgboost.go):
rank 0 starts a RabitTracker on MASTER_PORT, and all ranks connect to it. LightGBM builds its
machine list from MASTER_ADDR and WORKER_ADDRS, and its machines connect to each other. Replicas
wait for names, never for ports: a connection that is closed at once crashes the tracker before
XGBoost 2.1, and LightGBM takes it for a machine. Since 2.1, XGBoost gives up on the tracker after
some seconds, so the others also wait until rank 0 has started.
"""

from mlgen.frameworks._planner import Planner
from mlgen.frameworks._ranks import RankInfo, ranked


def lay_out(planner: Planner) -> None:
    """Add a master, which decides, and workers."""
    ranked(planner, "master", "worker", _env)


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
