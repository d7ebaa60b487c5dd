"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables match Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR, RANK and
so on for `init_process_group("env://")`, and PET_*, which torchrun reads as its options
(https://pytorch.org/docs/stable/elastic/run.html).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from mlgen.frameworks._lifecycle import ANY
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, variables
from mlgen.frameworks._ranks import ROLES, ranked
from mlgen.jobfile.model import RoleSpec, gpu_count
from mlgen.launch.line import lines_of, rendezvous_port
from mlgen.topology import Env

PATIENCE = "600"
"""Seconds that torchrun's c10d rendezvous has to reach rank 0, which may still pull its image.

The default is 60 (read_timeout in torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
600 seconds is also the time that torchrun waits for the other replicas (join_timeout).
"""


def lay_out(planner: Planner) -> None:
    """Add a master and workers, or workers alone."""
    job, specs = planner.job, planner.specs(*ROLES)
    port = rendezvous_port(*(specs[::-1] if "elasticPolicy" in job.options else specs))
    planner.ports = dict.fromkeys(planner.ports, port) if port else planner.ports
    _check_host_ports(planner, specs)
    if not job.roles:
        planner.require("worker")
    elif "elasticPolicy" in job.options:
        _elastic(planner)
    else:
        rows = ("pytorch", *_rows_of(planner, specs))
        env = partial(_static_env, job.options.get("nprocPerNode"), rows)
        # Like _elastic: a program may pass MASTER_ADDR to torchrun as the endpoint.
        ranked(planner, env, by_own_name=True)


def _check_host_ports(planner: Planner, specs: list[RoleSpec]) -> None:
    """Report a port in flags under host networking.

    Rank 0 listens on a port of its node, and its peers dial the port of its Service. One number
    cannot be right for both.
    """
    if not planner.job.network.on_host or sum(spec.replicas for spec in specs) == 1:
        return
    for spec in specs:
        port, flags = rendezvous_port(spec), "--rdzv-endpoint --master-port --main-process-port"
        if port:
            place = lines_of(spec).launches[0].place(flags)
            message = f"with host networking, mlgen chooses the port of rank 0, not {port}"
            hint = "write $(MASTER_PORT), or remove the flag"
            path = ("roles", spec.name, *place)
            planner.report(path, message, hint, code="launch", warn=True)


def _rows_of(planner: Planner, specs: list[RoleSpec]) -> Iterator[str]:
    """Yield the rows of variables that depend on the launchers and the number of processes.

    `schemas/frameworks/variables.json` describes the rows.
    """
    launches = [launch for spec in specs for launch in lines_of(spec).launches]
    if any(launch.literal("rdzv_backend") == "c10d" for launch in launches):
        yield "pytorch-c10d"
    if any(launch.program == "tune" for launch in launches):
        yield "pytorch-tune"
    alone = planner.job.options.get("nprocPerNode", 1) in (1, "auto", "gpu")
    alone = alone and all(gpu_count(spec) == 1 or not spec.gpus for spec in specs)
    if alone and planner.job.replicas > 1:
        yield "pytorch-one-process"


def _static_env(
    processes: int | str | None,
    rows: tuple[str, ...],
    *,
    rank: str,
    hosts: tuple[str, ...],
    leader_port: int,
    **_: object,
) -> Env:
    """Return the variables of a replica with a fixed rank; see `ranked`."""
    size = len(hosts)
    values = {
        "port": leader_port,
        "host": hosts[0],
        "world": size * processes if isinstance(processes, int) else size,
        "rank": rank,
        "processes": processes or "auto",
        "size": size,
        "patience": PATIENCE,
    }
    return {name: text for row in rows for name, text in variables(row, **values).items()}


def _elastic(planner: Planner) -> None:
    """Add replicas with a rendezvous at worker 0, where torchrun assigns their ranks.

    A master is one more replica, as in the operator, but it decides.
    """
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    planner.require("worker")
    if "worker" not in job.roles:
        return
    worker, master = job.roles["worker"], job.roles.get("master")
    count = worker.replicas + (master.replicas if master else 0)
    minimum = policy.get("minReplicas", count)
    maximum = policy.get("maxReplicas", count)
    planner.between("worker", minimum, maximum, count)
    planner.minimums["worker"] = max(1, minimum - count + worker.replicas)
    decider = planner.decider("master" if master else "worker", job.roles)
    # torchrun hosts the rendezvous if the endpoint is its own host name. Before PyTorch 2, it does
    # not recognize the name with a domain (torch/distributed/elastic/rendezvous/utils.py).
    leader = replace(planner.hosts(worker, 1), after="")
    for role in filter(None, (master, worker)):
        planner.add(
            role,
            decides=role.name == decider,
            success=ANY,
            restart="OnFailure",
            each=partial(_elastic_env, planner, next(iter(leader)), f"{minimum}:{maximum}"),
            waits=(planner.wait(worker, count=1)._replace(hosts=leader),),
            aliases=dict.fromkeys(leader, 0) if role is worker else {},
            max_replicas=maximum - count + role.replicas if role is worker else None,
        )


def _elastic_env(planner: Planner, leader: str, nodes: str, viewer: Viewer) -> RoleFields:
    """Return the variables of an elastic replica; `nodes` is `<minimum>:<maximum>`."""
    job, policy = planner.job, planner.job.options["elasticPolicy"]
    settings = {"read_timeout": PATIENCE, **policy.get("rdzvConf", {})}
    if viewer:
        # With host networking, a replica's host name is its node's name, which is not the endpoint.
        settings.setdefault("is_host", "1" if viewer == ("worker", 0) else "0")
    env = variables(
        "pytorch-elastic",
        processes=job.options.get("nprocPerNode", "auto"),
        endpoint=f"{leader}:{planner.port(job.roles['worker'], 0, viewer)}",
        nodes=nodes,
        id=policy.get("rdzvId", job.name),
    )
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    env["PET_RDZV_CONF"] = ",".join(f"{name}={value}" for name, value in settings.items())
    return {"env": env}
