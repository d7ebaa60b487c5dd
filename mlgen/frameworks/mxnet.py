"""MXNet: a scheduler, servers and workers by DMLC_* and MX_CONFIG; or the tuner's three roles.

The variables are those of Kubeflow's training operator 1.8 (pkg/controller.v1/mxnet/mxnet.go);
ps-lite reads the DMLC_* set (https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training).
Scheduler and servers end by themselves when the workers are done, so all of them are Jobs; the
tuner's tracker and servers do not. A worker alone, which shares its parameters with nobody, needs
neither of them.
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config
from mlgen.jobfile.model import TrainingJob
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


def topology(job: TrainingJob) -> Topology:
    """Lay out a training job, or a tuning job."""
    planner = Planner(job, dict.fromkeys(ROLES, PORT))
    tunes = set(TUNE) & set(job.roles)
    if tunes and set(TRAIN) & set(job.roles):
        message = "a job either trains (scheduler, server, worker) or tunes"
        planner.problem(("roles", min(tunes)), message, "make two jobs of it")
        return planner.topology()
    alone = set(job.roles) == {"worker"} and job.replicas == 1
    names = TUNE if tunes else ("worker",) if alone else TRAIN
    first = names[0]
    planner.require(*names)
    planner.single(first)
    able = [name for name in names if name in job.roles and name not in SERVING]
    decider = planner.decider("tuner" if tunes else first, able)
    if planner.collector.problems:
        return planner.topology()
    # A tuner's tracker listens where its own command says, and its clients try again.
    meeting = planner.wait(job.roles[first], until="name" if tunes else "port")
    for name in names:
        planner.add(
            job.roles[name],
            serves=name in SERVING,
            decides=name == decider,
            each=partial(_env, planner, name),
            waits=() if name == first else (meeting,),
        )
    return planner.topology()


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    """One role's variables; where it tunes there is nothing for ps-lite."""
    roles = planner.job.roles
    scheduler = roles.get("scheduler")
    sizes = {role: spec.replicas for role, spec in roles.items()}
    env = {
        "MX_CONFIG": _config(planner, name, viewer),
        "DMLC_PS_ROOT_PORT": str(planner.port(scheduler, 0, viewer)) if scheduler else "0",
        "DMLC_PS_ROOT_URI": planner.first(scheduler) if scheduler else "",
        "DMLC_NUM_SERVER": str(sizes.get("server", 0)),
        "DMLC_NUM_WORKER": str(sizes.get("worker", 0)),
        "DMLC_ROLE": name,
        "DMLC_USE_KUBERNETES": "1",
    }
    if name == "worker":
        env["DMLC_WORKER_ID"] = INDEX
    return {"env": env}


def _config(planner: Planner, name: str, viewer: Viewer) -> str:
    roles = dict(sorted(planner.job.roles.items()))
    keys = planner.job.options.get("tunerServerKeys", {})
    cluster = {
        role: [
            {"url": host, "port": planner.port(spec, i, viewer)}
            for i, host in enumerate(planner.hosts(spec))
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


FRAMEWORK = Framework(
    title="MXNet",
    summary="A scheduler, servers and workers by DMLC_* and MX_CONFIG; or the tuner's three roles.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
