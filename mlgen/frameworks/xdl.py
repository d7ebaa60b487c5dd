"""XDL: parameter servers, a scheduler and workers with XDL_CONFIG and ZooKeeper.

The variables and the condition for success match KubeDL (controllers/xdl/xdl.go): 90 % of the
workers must succeed, unless the options set another percentage or a number.
"""

from functools import partial
from math import ceil

from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config, variables
from mlgen.topology import INDEX, Success

DEFAULT_RATE = 90
"""The default of minFinishWorkRate, in percent."""


def lay_out(planner: Planner) -> None:
    """Add ps and scheduler, which serve, and workers, which decide."""
    planner.decider("worker", ["worker"])
    serving = planner.specs("scheduler", "ps")
    for spec in planner.specs("ps", "scheduler", "worker", "extendrole"):
        trains = spec not in serving
        planner.add(
            spec,
            serves=not trains,
            decides=spec.name == "worker",
            success=_success(planner) if spec.name == "worker" else None,
            each=partial(_env, planner, spec.name),
            # The servers register in ZooKeeper once they have started.
            waits=tuple(planner.wait(peer, until="name") for peer in serving if trains),
        )


def _success(planner: Planner) -> Success | None:
    """Return the number of workers that must succeed; None if all of them must."""
    options, replicas = planner.job.options, planner.job.roles["worker"].replicas
    number, rate = options.get("minFinishWorkNum"), options.get("minFinishWorkRate")
    path = ("options", "minFinishWorkNum")
    if number is not None and rate is not None:
        message = "minFinishWorkNum and minFinishWorkRate are mutually exclusive"
        planner.report(path, message, "remove one of them")
    if number is not None and number > replicas:
        message = f"{number} workers must succeed, but the job has only {replicas}"
        planner.report(path, message, f"write at most {replicas}")
    count = number or ceil(replicas * (rate or DEFAULT_RATE) / 100)
    return Success(count=count, needed=True) if count < replicas else None


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    """Return the variables of one role."""
    job = planner.job
    cluster = {role: planner.addresses(job.roles[role], viewer) for role in sorted(job.roles)}
    value = config({"cluster": cluster, "task": {"type": name, "index": INDEX}})
    env = variables("xdl", role=name, config=value)
    if "zkAddr" in job.options:
        env["ZK_ADDR"] = f"{job.options['zkAddr'].rstrip('/')}/{job.name}"
    return {"env": env}
