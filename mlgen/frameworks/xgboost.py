"""XGBoost: a master that runs the tracker, and workers. Also for LightGBM.

The variables match Kubeflow's training operator (pkg/controller.v1/xgboost/xgboost.go): rank 0
starts a RabitTracker on MASTER_PORT, and all ranks connect to it. LightGBM builds its machine list
from MASTER_ADDR and WORKER_ADDRS, and its machines connect to each other. Replicas wait for names,
never for ports: a connection that closes at once crashes the tracker before XGBoost 2.1, and
LightGBM treats it as a machine. Since 2.1, XGBoost stops trying to reach the tracker after some
seconds, so the other replicas also wait until rank 0 has started.
"""

from mlgen.frameworks._planner import Planner, variables
from mlgen.frameworks.pytorch import ranked
from mlgen.topology import Env


def lay_out(planner: Planner) -> None:
    """Add a master, which decides, and workers."""
    ranked(planner, _env)


def _env(rank: str, hosts: tuple[str, ...], leader_port: int, port: int | None) -> Env:
    """Return the variables of one replica; see `ranked`."""
    env = variables("xgboost", port=leader_port, host=hosts[0], size=len(hosts), rank=rank)
    if len(hosts) > 1:
        env |= {"WORKER_PORT": str(port), "WORKER_ADDRS": ",".join(hosts[1:])}
    return env
