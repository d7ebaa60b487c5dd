"""TensorFlow: parameter servers, or all-reduce among workers, by TF_CONFIG.

With a chief (or master) and `ps`, TensorFlow's ParameterServerStrategy and the estimators of
TensorFlow 1; with workers alone, MultiWorkerMirroredStrategy. What TF_CONFIG holds:
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
The form is the one that Kubeflow's training operator gives (pkg/controller.v1/tensorflow).
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import FIRST, Planner, RoleFields, Viewer, config
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import INDEX, Topology, Wait

PORT = 2222

ROLES = ("chief", "master", "ps", "worker", "evaluator")

OPTIONS: dict[str, Any] = {
    "enableDynamicWorker": {
        "type": "boolean",
        "default": False,
        "description": "Workers may come and go: each sees only itself and the parameter"
        " servers (the sparse TF_CONFIG), and a worker that fails does not end the others.",
        "examples": [True],
    }
}


def topology(job: TrainingJob) -> Topology:
    """Lay out chief or master, ps, worker and evaluator."""
    planner = Planner(job, dict.fromkeys(ROLES, PORT))
    planner.single("chief", "master", "evaluator")
    if {"chief", "master"} <= set(job.roles):
        planner.problem(("roles", "master"), "a job has a chief or a master, not both", "keep one")
    if not {"chief", "master", "worker"} & set(job.roles):
        planner.problem(("roles",), "nobody trains: there is no worker, chief or master", "add one")
        return planner.topology()
    sparse = job.options.get("enableDynamicWorker", False)
    leader = next((name for name in ("chief", "master") if name in job.roles), "worker")
    decider = planner.decider(leader, [name for name in job.roles if name != "ps"])
    for name in (name for name in ROLES if name in job.roles):
        planner.add(
            job.roles[name],
            serves=name == "ps",
            decides=name == decider,
            success=FIRST if name == "worker" else None,
            tolerates_failure=sparse and name == "worker",
            each=partial(_env, planner, name, sparse),
            waits=_waits(planner, name, leader),
        )
    return planner.topology()


def _waits(planner: Planner, name: str, leader: str) -> tuple[Wait, ...]:
    """Parameter servers listen first; who dials the others only needs their names.

    gRPC gives up on a name that does not exist yet, but tries an address again.
    """
    roles = planner.job.roles
    waits: list[Wait] = []
    if name == "evaluator":  # it reads checkpoints and dials nobody
        return ()
    if name != "ps" and "ps" in roles:
        waits.append(planner.wait(roles["ps"]))
    if name == leader and "worker" in roles and planner.job.replicas > 1:
        waits.append(planner.wait(roles["worker"], until="name"))
    return tuple(waits)


def _env(planner: Planner, name: str, sparse: bool, viewer: Viewer) -> RoleFields:  # noqa: FBT001
    """TF_CONFIG of one role; none where there is only one replica in all."""
    roles = planner.job.roles
    if planner.job.replicas == 1:
        return {}
    task = {"type": name, "index": INDEX}
    if sparse:
        found: dict[str, Any] = {"cluster": _sparse_cluster(planner, name, viewer), "task": task}
    else:
        cluster = {role: planner.addresses(roles[role], viewer) for role in sorted(roles)}
        found = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"env": {"TF_CONFIG": config(found)}}


def _sparse_cluster(planner: Planner, name: str, viewer: Viewer) -> dict[str, Any]:
    """A worker sees itself and the parameter servers; a parameter server itself; a chief nobody."""
    roles = planner.job.roles
    own = planner.own_address(roles[name], viewer)
    if name == "worker":
        return {
            "worker": {INDEX: own},
            "ps": planner.addresses(roles["ps"]) if "ps" in roles else None,
        }
    return {"worker": {}, "ps": [own] if name == "ps" else []}


FRAMEWORK = Framework(
    title="TensorFlow",
    summary="Parameter servers, or all-reduce among workers, by TF_CONFIG.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
