"""PyTorch: ranks for torch.distributed and torchrun, static or elastic.

The variables match Kubeflow's training operator (pkg/controller.v1/pytorch): MASTER_ADDR, RANK and
so on for `init_process_group("env://")`, and PET_*, which torchrun reads as its options
(https://pytorch.org/docs/stable/elastic/run.html).

`ranked` is also for other frameworks with the roles master and worker, whose replicas get their
ranks before they start. The replicas of the master have the first ranks. The rendezvous is at rank
0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from mlgen.frameworks._lifecycle import ANY, FIRST
from mlgen.frameworks._planner import Planner, RoleFields, Viewer, variables
from mlgen.jobfile.hints import distinguishes
from mlgen.jobfile.model import RoleSpec, SuccessPolicy, TrainingJob, WaitFor, gpu_count
from mlgen.launch.line import lines_of, rendezvous_port
from mlgen.topology import INDEX, Env, Wait

PATIENCE = "600"
"""Seconds that torchrun's c10d rendezvous has to reach rank 0, which may still pull its image.

The default is 60 (read_timeout in torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
600 seconds is also the time that torchrun waits for the other replicas (join_timeout).
"""

ROLES = ("master", "worker")
"""The roles in the order of their ranks. A job may have only one of them."""

RANK = "rank"
"""The name of the role into which the two are merged if they have the same fields."""

ENDPOINT = "PET_RDZV_ENDPOINT"
"""The variable for torchrun's option --rdzv-endpoint."""


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


@dataclass(frozen=True)
class Member:
    """Replicas that are rendered as one role.

    Attributes:
        spec: their role.
        replicas: the number of replicas.
        rank: the text of their rank: a number, or `topology.INDEX` if it equals the index.
        index: the index of a single replica that has its own Job; else None.
    """

    spec: RoleSpec
    replicas: int
    rank: str
    index: int | None = None


def members(job: TrainingJob) -> list[Member]:
    """Return the replicas of master and worker in the order of their ranks.

    Kubernetes can insert a replica's index into a value, but cannot add a number to it. So two
    roles with the same fields are merged into one, `rank`, whose index is the rank. Otherwise,
    each replica of the second role gets its own Job, with its rank as a literal value. They are not
    merged if they read their role, or their index in it.

    Args:
        job: has at least one of the two roles.
    """
    first, *others = (job.roles[name] for name in ROLES if name in job.roles)
    if not others:
        return [Member(first, first.replicas, INDEX)]
    (rest,) = others
    is_alike = replace(first, name=RANK, replicas=0) == replace(rest, name=RANK, replicas=0)
    named_alike = all((first.name in names) == (rest.name in names) for names in _named(job))
    if is_alike and named_alike and not _meet_at(job) and not distinguishes(first):
        size = first.replicas + rest.replicas
        waits = _merged_waits(first.wait_for)
        return [Member(replace(first, name=RANK, replicas=size, wait_for=waits), size, INDEX)]
    return [
        Member(first, first.replicas, INDEX),
        *(Member(rest, 1, str(first.replicas + i), i) for i in range(rest.replicas)),
    ]


def _named(job: TrainingJob) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the role names in restartScope, and the role names in successPolicy.roles."""
    scope = job.run_policy.restart_scope
    return scope if isinstance(scope, tuple) else (), job.success_policy.roles


def _with_merged_names(job: TrainingJob) -> TrainingJob:
    """Return the job with policies that name the merged role instead of the two roles."""
    scope, deciders = _named(job)
    if set(ROLES) & set(scope):
        names = (*(name for name in scope if name not in ROLES), RANK)
        job = job._replace(run_policy=job.run_policy._replace(restart_scope=names))
    if set(ROLES) & set(deciders):
        job = job._replace(success_policy=SuccessPolicy(replicas="All"))
    return job


def _meet_at(job: TrainingJob) -> bool:
    """Return True if torchrun's endpoint is the bare name of a replica of the two roles.

    torchrun before 2.0 compares that name with its own host name, which would contain the merged
    role's name (torch/distributed/elastic/rendezvous/utils.py).
    """
    spec = job.roles[ROLES[0]]
    endpoints = [launch.literal("rdzv_endpoint") for launch in lines_of(spec).launches]
    names = {job.name, job.written_name}
    prefixes = tuple(f"{name}-{role}-" for name in names for role in ROLES)
    return any(str(text).startswith(prefixes) for text in (*endpoints, spec.env.get(ENDPOINT)))


def _merged_waits(waits: tuple[WaitFor, ...] | None) -> tuple[WaitFor, ...] | None:
    """Return waits in which the merged role replaces master and worker."""
    if waits is None:
        return None
    renamed = (wait._replace(role=RANK) if wait.role in ROLES else wait for wait in waits)
    return tuple(dict.fromkeys(renamed))


def ranked(planner: Planner, env: Callable[..., Env], *, by_own_name: bool = False) -> None:
    """Add master and worker, whose ranks are set before they start.

    The master decides; without a master, the workers decide.

    Args:
        planner: the planner of a job that has at least one of the two roles.
        env: a function that returns the variables of a replica. Its arguments:
            rank: as in `Member`.
            hosts: the host names of all replicas, by rank.
            leader_port: the port of rank 0, as the replica sees it.
            port: the port of the other replicas; None if there is only one replica.
        by_own_name: True if all replicas connect to rank 0, at its `Planner.own_name`, and wait for
            it. Otherwise all replicas connect to each other, and wait for the names of all. Except
            on the host network, they also wait until rank 0 has started.
    """
    replicas_by_rank = members(planner.job)
    first, last = replicas_by_rank[0], replicas_by_rank[-1]
    if first.spec.name == RANK:
        planner.job = _with_merged_names(planner.job)
        planner.ports = {RANK: planner.ports[ROLES[0]]}
    planner.own_jobs = () if last.index is None else (last.spec.name,)
    candidates = [ROLES[0], RANK] if first.spec.name == RANK else [first.spec.name]
    planner.decider(first.spec.name, candidates)
    hosts = tuple(
        host
        for member in replicas_by_rank
        for host in planner.hosts(member.spec, member.replicas, member.index or 0)
    )
    specs = {member.spec.name: member.spec for member in replicas_by_rank}
    aliases: dict[str, int] = {}
    waits = tuple(planner.wait(spec, until="name") for spec in specs.values())
    if by_own_name:
        waits = (planner.wait(first.spec, count=1)._replace(hosts=planner.own_name(first.spec)),)
        hosts = (*waits[0].hosts, *hosts[1:])
        aliases = {} if "." in hosts[0] else {hosts[0]: 0}

    def env_of(member: Member, viewer: Viewer) -> RoleFields:
        port = planner.port(last.spec) if len(hosts) > 1 else None
        leader_port = planner.port(first.spec, 0, viewer)
        values = {"rank": member.rank, "hosts": hosts, "leader_port": leader_port, "port": port}
        return {"env": env(**values)}

    def waits_of(member: Member) -> tuple[Wait, ...]:
        is_rank_0 = member is first and member.replicas == 1
        if is_rank_0 or by_own_name or planner.is_split(first.spec):
            return waits
        return (*waits, planner.wait_for_start(first.spec))

    planner.size.require(last.spec, len(replicas_by_rank))
    for member in replicas_by_rank:
        planner.add(
            member.spec,
            replicas=member.replicas,
            index=member.index,
            decides=member is first,
            success=None if member.spec.name == ROLES[1] else FIRST,
            aliases=aliases if member is first else {},
            merged=ROLES if member.spec.name == RANK else (),
            each=partial(env_of, member),
            waits=waits_of(member) if len(hosts) > 1 else (),
        )
