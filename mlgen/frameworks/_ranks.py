"""Frameworks whose replicas get their ranks before they start: one leader role, one follower role.

The replicas of the leader have the first ranks; rank 0 is where all of them meet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from mlgen.frameworks._planner import FIRST, Planner, RoleFields, Viewer
from mlgen.jobfile.model import RoleSpec, TrainingJob, WaitFor
from mlgen.topology import INDEX, Env

RANK = "rank"
"""The name of the role into which leader and follower are merged if they have the same fields."""


@dataclass(frozen=True, slots=True)
class Member:
    """Replicas that are rendered as one role.

    Attributes:
        spec: their role.
        replicas: their number.
        rank: the value of their rank: a number, or `topology.INDEX` if it equals the index.
        index: the index of a single replica that has a Job of its own; else None.
    """

    spec: RoleSpec
    replicas: int
    rank: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class RankInfo:
    """The values from which a framework builds the variables of one replica.

    Attributes:
        rank: the rank of the replica, as in `Member`.
        hosts: the host names of all replicas, by rank.
        leader_port: the port of rank 0, as the replica sees it.
        port: the port of the other replicas; None if there is only one replica.
    """

    rank: str
    hosts: tuple[str, ...]
    leader_port: int
    port: int | None


def members(job: TrainingJob, leader: str, follower: str) -> list[Member]:
    """Return the replicas of two roles in the order of their ranks.

    Kubernetes can insert a replica's index into a value, but cannot add a number to it. So two
    roles with the same fields are merged into one, `rank`, whose index is the rank. Otherwise,
    each follower gets a Job of its own, with its rank as a literal value.

    Args:
        job: has at least one of the two roles.
        leader: the name of the role with the first ranks.
        follower: the name of the role with the other ranks.
    """
    specs: Mapping[str, RoleSpec] = job.roles
    if leader not in specs or follower not in specs:
        only = specs.get(leader) or specs[follower]
        return [Member(only, only.replicas, INDEX)]
    first, rest = specs[leader], specs[follower]
    if replace(first, name=RANK, replicas=0) == replace(rest, name=RANK, replicas=0):
        size = first.replicas + rest.replicas
        waits = _merged_waits(first.wait_for, leader, follower)
        return [Member(replace(first, name=RANK, replicas=size, wait_for=waits), size, INDEX)]
    return [
        Member(first, first.replicas, INDEX),
        *(Member(rest, 1, str(first.replicas + i), i) for i in range(rest.replicas)),
    ]


def _merged_waits(waits: tuple[WaitFor, ...] | None, *roles: str) -> tuple[WaitFor, ...] | None:
    """Return waits in which the merged role replaces the roles that it consists of."""
    if waits is None:
        return None
    renamed = (replace(wait, role=RANK) if wait.role in roles else wait for wait in waits)
    return tuple(dict.fromkeys(renamed))


def ranked(planner: Planner, leader: str, follower: str, env: Callable[[RankInfo], Env]) -> None:
    """Add two roles whose replicas know their ranks before they start.

    The leader decides; without a leader, the followers do. With more than one replica, each role
    waits until rank 0 listens; rank 0 itself waits only until its own name resolves.

    Args:
        planner: the planner to add the roles to.
        leader: the name of the role that contains rank 0.
        follower: the name of the role with the other ranks; a job may have only one of the two.
        env: returns the variables of a replica.
    """
    replicas_by_rank = members(planner.job, leader, follower)
    first, last = replicas_by_rank[0], replicas_by_rank[-1]
    candidates = [leader, RANK] if first.spec.name == RANK else [first.spec.name]
    planner.decider(first.spec.name, candidates)
    hosts = tuple(
        host
        for member in replicas_by_rank
        for host in planner.hosts(member.spec, member.replicas, member.index or 0)
    )
    rank_0_listens = planner.wait(first.spec, count=1)

    def env_of(member: Member, viewer: Viewer) -> RoleFields:
        port = planner.port(last.spec) if len(hosts) > 1 else None
        leader_port = planner.port(first.spec, 0, viewer)
        return {"env": env(RankInfo(member.rank, hosts, leader_port, port))}

    for member in replicas_by_rank:
        if planner.env_too_large:
            break
        planner.add(
            member.spec,
            replicas=member.replicas,
            index=member.index,
            decides=member is first,
            success=None if member.spec.name == follower else FIRST,
            each=partial(env_of, member),
            waits=(rank_0_listens,) if len(hosts) > 1 else (),
        )
