"""MXNet: a scheduler, servers and workers by DMLC_* and MX_CONFIG; or the tuner's three roles.

The variables are those of Kubeflow's training operator 1.8 (pkg/controller.v1/mxnet/mxnet.go);
ps-lite reads the DMLC_* set (https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training).
Scheduler and servers end by themselves when the workers are done, so all of them are Jobs; the
tuner's tracker and servers do not. A worker alone, which shares its parameters with nobody, needs
neither of them.
"""

from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan, Viewer, config
from mlgen.topology import INDEX, Topology

PORT = 9091

TRAIN = ("scheduler", "server", "worker")
TUNE = ("tunertracker", "tunerserver", "tuner")

ROLES = (*TRAIN, *TUNE)

SERVING = ("tunertracker", "tunerserver")

OPTIONS: dict[str, Any] = {
    "tunerServerKeys": {
        "type": "object",
        "description": "By role, what its devices are called in the tuner's tracker: the"
        " labels of MX_CONFIG.",
        "examples": [{"tunerserver": "2080ti"}],
        "additionalProperties": {"type": "string"},
    }
}


def topology(job: Job) -> Topology:
    """Lay out a training job, or a tuning job."""
    plan = Plan(job, dict.fromkeys(ROLES, PORT))
    tunes = set(TUNE) & set(job.roles)
    if tunes and set(TRAIN) & set(job.roles):
        message = "a job either trains (scheduler, server, worker) or tunes"
        plan.problem(("roles", min(tunes)), message, "make two jobs of it")
        return plan.topology()
    alone = set(job.roles) == {"worker"} and job.replicas == 1
    names = TUNE if tunes else ("worker",) if alone else TRAIN
    first = names[0]
    plan.require(*names)
    plan.single(first)
    able = [name for name in names if name in job.roles and name not in SERVING]
    decider = plan.decider("tuner" if tunes else first, able)
    if plan.problems:
        return plan.topology()
    # A tuner's tracker listens where its own command says, and its clients try again.
    meeting = plan.wait(job.roles[first], until="name" if tunes else "port")
    for name in names:
        plan.add(
            job.roles[name],
            serves=name in SERVING,
            decides=name == decider,
            each=partial(_env, plan, name),
            waits=() if name == first else (meeting,),
        )
    return plan.topology()


def _env(plan: Plan, name: str, viewer: Viewer) -> dict[str, Any]:
    """One role's variables; where it tunes there is nothing for ps-lite."""
    roles = plan.job.roles
    scheduler = roles.get("scheduler")
    sizes = {role: spec.replicas for role, spec in roles.items()}
    env = {
        "MX_CONFIG": _config(plan, name, viewer),
        "DMLC_PS_ROOT_PORT": str(plan.port(scheduler, 0, viewer)) if scheduler else "0",
        "DMLC_PS_ROOT_URI": plan.first(scheduler) if scheduler else "",
        "DMLC_NUM_SERVER": str(sizes.get("server", 0)),
        "DMLC_NUM_WORKER": str(sizes.get("worker", 0)),
        "DMLC_ROLE": name,
        "DMLC_USE_KUBERNETES": "1",
    }
    if name == "worker":
        env["DMLC_WORKER_ID"] = INDEX
    return {"env": env}


def _config(plan: Plan, name: str, viewer: Viewer) -> str:
    roles = dict(sorted(plan.job.roles.items()))
    keys = plan.job.options.get("tunerServerKeys", {})
    cluster = {
        role: [
            {"url": host, "port": plan.port(spec, i, viewer)}
            for i, host in enumerate(plan.hosts(spec))
        ]
        for role, spec in roles.items()
    }
    return config(
        {
            "cluster": cluster,
            "labels": {role: keys.get(role, "") for role in roles},
            "task": {"type": name, "index": INDEX},
        }
    )
