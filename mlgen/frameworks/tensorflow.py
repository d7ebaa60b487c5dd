"""TensorFlow: parameter servers, or all-reduce among workers, by TF_CONFIG.

With a chief (or master) and `ps`, TensorFlow's ParameterServerStrategy and the estimators of
TensorFlow 1; with workers alone, MultiWorkerMirroredStrategy. What TF_CONFIG holds:
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
The form is the one that Kubeflow's training operator gives (pkg/controller.v1/tensorflow).
"""

from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import FIRST, Plan, Viewer, config
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


def topology(job: Job) -> Topology:
    """Lay out chief or master, ps, worker and evaluator."""
    plan = Plan(job, dict.fromkeys(ROLES, PORT))
    plan.single("chief", "master", "evaluator")
    if {"chief", "master"} <= set(job.roles):
        plan.problem(("roles", "master"), "a job has a chief or a master, not both", "keep one")
    if not {"chief", "master", "worker"} & set(job.roles):
        plan.problem(("roles",), "nobody trains: there is no worker, chief or master", "add one")
        return plan.topology()
    sparse = job.options.get("enableDynamicWorker", False)
    leader = next((name for name in ("chief", "master") if name in job.roles), "worker")
    decider = plan.decider(leader, [name for name in job.roles if name != "ps"])
    for name in (name for name in ROLES if name in job.roles):
        plan.add(
            job.roles[name],
            serves=name == "ps",
            decides=name == decider,
            success=FIRST if name == "worker" else None,
            tolerates_failure=sparse and name == "worker",
            each=partial(_env, plan, name, sparse),
            waits=_waits(plan, name, leader),
        )
    return plan.topology()


def _waits(plan: Plan, name: str, leader: str) -> list[Wait]:
    """Parameter servers listen first; who dials the others only needs their names.

    gRPC gives up on a name that does not exist yet, but tries an address again.
    """
    roles, waits = plan.job.roles, []
    if name == "evaluator":  # it reads checkpoints and dials nobody
        return []
    if name != "ps" and "ps" in roles:
        waits.append(plan.wait(roles["ps"]))
    if name == leader and "worker" in roles and plan.job.replicas > 1:
        waits.append(plan.wait(roles["worker"], until="name"))
    return waits


def _env(plan: Plan, name: str, sparse: bool, viewer: Viewer) -> dict[str, Any]:  # noqa: FBT001
    """TF_CONFIG of one role; none where there is only one replica in all."""
    roles = plan.job.roles
    if plan.job.replicas == 1:
        return {}
    task = {"type": name, "index": INDEX}
    if sparse:
        found: dict[str, Any] = {"cluster": _sparse_cluster(plan, name, viewer), "task": task}
    else:
        cluster = {role: plan.addresses(roles[role], viewer) for role in sorted(roles)}
        found = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"env": {"TF_CONFIG": config(found)}}


def _sparse_cluster(plan: Plan, name: str, viewer: Viewer) -> dict[str, Any]:
    """A worker sees itself and the parameter servers; a parameter server itself; a chief nobody."""
    roles = plan.job.roles
    own = plan.own_address(roles[name], viewer)
    if name == "worker":
        return {
            "worker": {INDEX: own},
            "ps": plan.addresses(roles["ps"]) if "ps" in roles else None,
        }
    return {"worker": {}, "ps": [own] if name == "ps" else []}
