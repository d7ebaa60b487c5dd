"""TensorFlow: parameter servers, or all-reduce among workers, by TF_CONFIG.

With a chief (or master) and `ps`, TensorFlow's ParameterServerStrategy and the estimators of
TensorFlow 1; with workers alone, MultiWorkerMirroredStrategy. What TF_CONFIG holds:
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
The form is the one that Kubeflow's training operator gives (pkg/controller.v1/tensorflow).
"""

import json
from typing import Any

from mlgen.job import Job
from mlgen.layout import FIRST, Plan
from mlgen.topology import INDEX, Topology, Wait, hosts

PORT = 2222

ROLES = ("chief", "master", "ps", "worker", "evaluator")

OPTIONS: dict[str, Any] = {
    "type": "object",
    "description": "What only TensorFlow knows.",
    "additionalProperties": False,
    "properties": {
        "enableDynamicWorker": {
            "type": "boolean",
            "default": False,
            "description": "Workers may come and go: each sees only itself and the parameter"
            " servers (the sparse TF_CONFIG), and a worker that fails does not end the others.",
            "examples": [True],
        }
    },
}


def topology(job: Job) -> Topology:
    """Lay out chief or master, ps, worker and evaluator."""
    plan = Plan(job)
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
            port=PORT,
            env=_tf_config(job, name, sparse=sparse),
            waits=_waits(plan, name, leader),
        )
    return plan.topology()


def _port(job: Job, role: str) -> int:
    return job.roles[role].port or PORT


def _waits(plan: Plan, name: str, leader: str) -> list[Wait]:
    """Parameter servers listen first; who dials the others only needs their names.

    gRPC gives up on a name that does not exist yet, but tries an address again.
    """
    job, waits = plan.job, []
    if name == "evaluator":  # it reads checkpoints and dials nobody
        return []
    if name != "ps" and "ps" in job.roles:
        waits.append(plan.wait("ps", _port(job, "ps")))
    if name == leader and "worker" in job.roles and sum(r.replicas for r in job.roles.values()) > 1:
        waits.append(plan.wait("worker"))
    return waits


def _tf_config(job: Job, name: str, *, sparse: bool) -> dict[str, str]:
    """TF_CONFIG of one role; none where there is only one replica in all."""
    if sum(spec.replicas for spec in job.roles.values()) == 1:
        return {}
    config: dict[str, Any] = {
        "cluster": _sparse_cluster(job, name) if sparse else _cluster(job),
        "task": {"type": name, "index": "INDEX"},
    }
    if not sparse:
        config["environment"] = "cloud"
    text = json.dumps(config, separators=(",", ":"))
    # The index is a number in TF_CONFIG, so it must stand there without quotes.
    return {"TF_CONFIG": text.replace('"index":"INDEX"', f'"index":{INDEX}')}


def _cluster(job: Job) -> dict[str, list[str]]:
    return {name: _addresses(job, name) for name in sorted(job.roles)}


def _addresses(job: Job, name: str) -> list[str]:
    return [f"{host}:{_port(job, name)}" for host in hosts(job, name, job.roles[name].replicas)]


def _sparse_cluster(job: Job, name: str) -> dict[str, Any]:
    """A worker sees itself and the parameter servers; a parameter server itself; a chief nobody."""
    own = f"{job.name}-{name}-{INDEX}{hosts(job, name, 1).after}:{_port(job, name)}"
    if name == "worker":
        servers = _addresses(job, "ps") if "ps" in job.roles else None
        return {"worker": {INDEX: own}, "ps": servers}
    return {"worker": {}, "ps": [own] if name == "ps" else []}
