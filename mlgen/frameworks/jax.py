"""JAX: processes that meet at process 0, for jax.distributed.initialize.

Both spellings are given: COORDINATOR_ADDRESS (without a port), COORDINATOR_PORT, NUM_PROCESSES and
PROCESS_ID of Kubeflow's training operator (pkg/controller.v1/jax/envvar.go), and the JAX_* set of
its Trainer 2 (pkg/runtime/framework/plugins/jax). JAX itself reads JAX_COORDINATOR_ADDRESS alone
(jax/_src/distributed.py), so a program passes num_processes and process_id.
"""

from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan, Viewer
from mlgen.topology import INDEX, Topology

PORT = 6666

ROLES = ("worker",)

OPTIONS: dict[str, Any] = {}


def topology(job: Job) -> Topology:
    """Lay out the workers; all of them decide."""
    plan = Plan(job, {"worker": PORT})
    plan.require("worker")
    plan.decider("worker", ["worker"])
    if "worker" in job.roles:
        worker = job.roles["worker"]
        meeting = plan.wait(worker, count=1)
        plan.add(
            worker,
            decides=True,
            each=partial(_env, plan),
            waits=[meeting] if worker.replicas > 1 else (),
        )
    return plan.topology()


def _env(plan: Plan, viewer: Viewer) -> dict[str, Any]:
    worker = plan.job.roles["worker"]
    host, port = plan.first(worker), plan.port(worker, 0, viewer)
    env = {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(port),
        "COORDINATOR_ADDRESS": host,
        "NUM_PROCESSES": str(worker.replicas),
        "PROCESS_ID": INDEX,
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "JAX_NUM_PROCESSES": str(worker.replicas),
        "JAX_PROCESS_ID": INDEX,
    }
    return {"env": env}
