"""JAX: variables for jax.distributed.initialize; process 0 is the coordinator.

Two sets of variables: COORDINATOR_ADDRESS (without a port), COORDINATOR_PORT, NUM_PROCESSES and
PROCESS_ID of Kubeflow's training operator (pkg/controller.v1/jax/envvar.go), and JAX_* of Kubeflow
Trainer 2 (pkg/runtime/framework/plugins/jax). JAX itself reads only JAX_COORDINATOR_ADDRESS
(jax/_src/distributed.py), so a program must pass num_processes and process_id.
"""

from functools import partial

from mlgen.frameworks._planner import Planner, RoleFields, Viewer, variables


def lay_out(planner: Planner) -> None:
    """Add the workers, which decide. All of them must succeed."""
    planner.decider("worker", ["worker"])
    worker = planner.job.roles["worker"]
    # JAX tries to connect for five minutes (jax/_src/distributed.py, initialization_timeout).
    coordinator_resolves = planner.wait(worker, count=1)
    planner.add(
        worker,
        decides=True,
        each=partial(_env, planner),
        waits=(coordinator_resolves,) if worker.replicas > 1 else (),
    )


def _env(planner: Planner, viewer: Viewer) -> RoleFields:
    """Return the variables of a worker."""
    worker = planner.job.roles["worker"]
    host, port = planner.first_host(worker), planner.port(worker, 0, viewer)
    return {"env": variables("jax", host=host, port=port, size=worker.replicas)}
