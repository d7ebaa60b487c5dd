"""TensorFlow: TF_CONFIG for parameter servers, or for all-reduce among workers.

Jobs with a chief (or master) and `ps` use ParameterServerStrategy or the estimators of
TensorFlow 1. Jobs with only workers use MultiWorkerMirroredStrategy. The content of TF_CONFIG:
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
Its format matches Kubeflow's training operator (pkg/controller.v1/tensorflow).

The evaluator is not a part of the training cluster, as in tf-operator v1.0
(pkg/controller.v1/tensorflow/tensorflow.go, genClusterSpec) and in TensorFlow
(python/distribute/multi_worker_util.py, worker_count: "in its own cluster or its own partition").
Only the evaluator's own TF_CONFIG lists it: ParameterServerStrategy of TensorFlow 2.16 and later
connects to every task in its cluster, so a chief would wait for the evaluator forever. The
training operator 1.7 lists it everywhere.

TensorFlow itself waits for late peers. Servers and sessions wait forever, but all-reduce fails
after an hour (tsl/distributed_runtime/coordination/coordination_service_agent.cc), and retries can
be two minutes apart. So replicas wait until the names that they connect to resolve.
"""

from functools import partial
from typing import Any

from mlgen.frameworks._lifecycle import FIRST
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config
from mlgen.topology import INDEX


def lay_out(planner: Planner) -> None:
    """Add chief or master, ps, worker and evaluator."""
    job = planner.job
    if {"chief", "master"} <= set(job.roles):
        message = "chief and master are mutually exclusive"
        planner.report(("roles", "master"), message, "remove one of them")
    if not {"chief", "master", "worker"} & set(job.roles):
        planner.report(("roles",), "the job has no worker, chief or master", "add one of them")
        return
    sparse = job.options.get("enableDynamicWorker", False)
    leader = next((name for name in ("chief", "master") if name in job.roles), "worker")
    decider = planner.decider(leader, [name for name in job.roles if name != "ps"])
    # Chief and workers connect to the parameter servers. Without any, they connect to each other.
    others = [] if sparse else planner.specs("chief", "master", "worker")
    peers = planner.specs("ps") or (others if sum(spec.replicas for spec in others) > 1 else [])
    waits = planner.waits_for_names(*peers)
    for spec in planner.specs("chief", "master", "ps", "worker", "evaluator"):
        is_worker = spec.name == "worker"
        planner.add(
            spec,
            serves=spec.name == "ps",
            decides=spec.name == decider,
            success=FIRST if is_worker else None,
            tolerates_failure=sparse and is_worker,
            evaluates=spec.name == "evaluator",
            each=partial(_env, planner, spec.name, sparse),
            waits=() if spec.name in ("ps", "evaluator") else waits,
        )


def _env(planner: Planner, name: str, sparse: bool, viewer: Viewer) -> RoleFields:  # noqa: FBT001
    """Return TF_CONFIG for one role; no variables if the job has only one replica."""
    roles = planner.job.roles
    if planner.job.replicas == 1:
        return {}
    task = {"type": name, "index": INDEX}
    if sparse:
        value: dict[str, Any] = {"cluster": _sparse_cluster(planner, name, viewer), "task": task}
    else:
        names = sorted(role for role in roles if role != "evaluator" or name == role)
        cluster = {role: planner.addresses(roles[role], viewer) for role in names}
        value = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"env": {"TF_CONFIG": config(value)}}


def _sparse_cluster(planner: Planner, name: str, viewer: Viewer) -> dict[str, Any]:
    """Return the addresses in a sparse TF_CONFIG.

    A worker gets its own address and the parameter servers, a parameter server gets its own
    address, and all other replicas get none.
    """
    roles = planner.job.roles
    own_address = planner.own_address(roles[name], viewer)
    if name == "worker":
        return {
            "worker": {INDEX: own_address},
            "ps": planner.addresses(roles["ps"]) if "ps" in roles else None,
        }
    return {"worker": {}, "ps": [own_address] if name == "ps" else []}
