"""MXNet: a scheduler, servers and workers that train, or a tracker, servers and a tuner.

The variables match Kubeflow's training operator 1.8 (pkg/controller.v1/mxnet/mxnet.go): MX_CONFIG,
and DMLC_*, which ps-lite reads
(https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training).
Scheduler and servers exit when the workers have finished, so all three roles are Jobs. The tuner's
tracker and servers do not exit. A single worker needs no scheduler and no servers.

ps-lite keeps trying to connect to the scheduler without a time limit, even while its name does not
resolve, but prints nothing meanwhile. So servers wait for the scheduler's name, and workers also
for the servers' names.
"""

from functools import partial

from mlgen.contradictions.lifecycle import unknown_role
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config, variables
from mlgen.topology import INDEX

TRAIN = ("scheduler", "server", "worker")
TUNE = ("tunertracker", "tunerserver", "tuner")

SERVING = ("tunertracker", "tunerserver")


def lay_out(planner: Planner) -> None:
    """Add the roles of a training job, or of a tuning job."""
    job = planner.job
    tuner_roles = set(TUNE) & set(job.roles)
    if tuner_roles and set(TRAIN) & set(job.roles):
        message = "tuner roles and training roles are mutually exclusive"
        hint = "move the tuner roles to a separate job"
        planner.report(("roles", min(tuner_roles)), message, hint)
        return
    for name in job.options.get("tunerServerKeys", ()):
        if name not in job.roles:
            path = ("options", "tunerServerKeys")
            planner.collector.add(unknown_role(path, name, job.roles))
    is_single_worker = set(job.roles) == {"worker"} and job.replicas == 1
    names = TUNE if tuner_roles else ("worker",) if is_single_worker else TRAIN
    first = names[0]
    planner.require(*names)
    planner.single(first)
    candidates = [name for name in names if name in job.roles and name not in SERVING]
    decider = planner.decider("tuner" if tuner_roles else first, candidates)
    if planner.collector.problems:
        return
    for index, name in enumerate(names):
        # The tuner's clients retry until the tracker listens, but its name must resolve.
        peers = names[: min(index, 1)] if tuner_roles else names[:index]
        planner.add(
            job.roles[name],
            serves=name in SERVING,
            decides=name == decider,
            each=partial(_env, planner, name),
            waits=planner.waits_for_names(*planner.specs(*peers)),
        )


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    """Return the variables of one role; in a tuning job, the variables for ps-lite are empty."""
    roles = planner.job.roles
    scheduler = roles.get("scheduler")
    sizes = {role: spec.replicas for role, spec in roles.items()}
    env = variables(
        "mxnet",
        config=_config(planner, name, viewer),
        port=planner.port(scheduler, 0, viewer) if scheduler else 0,
        host=planner.first_host(scheduler) if scheduler else "",
        servers=sizes.get("server", 0),
        workers=sizes.get("worker", 0),
        role=name,
    )
    return {"env": env | ({"DMLC_WORKER_ID": INDEX} if name == "worker" else {})}


def _config(planner: Planner, name: str, viewer: Viewer) -> str:
    """Return MX_CONFIG."""
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
