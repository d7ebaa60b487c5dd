"""Two roles whose replicas have a rank from the start, and meet at rank 0."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from mlgen.frameworks._planner import FIRST, Planner, RoleFields, Viewer
from mlgen.jobfile.model import RoleSpec, TrainingJob, WaitFor
from mlgen.topology import INDEX, Env

RANK = "rank"
"""The role into which two are folded whose replicas are alike."""


@dataclass(frozen=True, slots=True)
class Member:
    """One or more replicas whose rank is known before they run.

    Attributes:
        rank: a number, or `topology.INDEX` where it is the replica's own index.
        index: of a replica that has a Job of its own.
    """

    spec: RoleSpec
    replicas: int
    rank: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class RankInfo:
    """What a replica with a rank is told.

    Attributes:
        rank: its own.
        hosts: the names of all replicas, by rank.
        leader_port: where rank 0 listens, as this replica sees it.
        port: where the others listen, or None where there are none.
    """

    rank: str
    hosts: tuple[str, ...]
    leader_port: int
    port: int | None


def members(job: TrainingJob, leader: str, follower: str) -> list[Member]:
    """Number the replicas of two roles through, the leader's first.

    Kubernetes can put a replica's index into a value, but cannot add to it. So where both roles
    are alike they are folded into one of the name `rank`, whose index is the rank; where they are
    not, each follower gets a Job of its own with its rank written out.

    Returns:
        The replicas in the order of their ranks; the first of them is rank 0.
    """
    specs: Mapping[str, RoleSpec] = job.roles
    if leader not in specs or follower not in specs:
        only = specs.get(leader) or specs[follower]
        return [Member(only, only.replicas, INDEX)]
    first, rest = specs[leader], specs[follower]
    if replace(first, name=RANK, replicas=0) == replace(rest, name=RANK, replicas=0):
        size = first.replicas + rest.replicas
        waits = _folded(first.wait_for, leader, follower)
        return [Member(replace(first, name=RANK, replicas=size, wait_for=waits), size, INDEX)]
    return [
        Member(first, first.replicas, INDEX),
        *(Member(rest, 1, str(first.replicas + i), i) for i in range(rest.replicas)),
    ]


def _folded(waits: tuple[WaitFor, ...] | None, *roles: str) -> tuple[WaitFor, ...] | None:
    """What is waited for, where two roles have become one: who waits for either waits for that."""
    if waits is None:
        return None
    renamed = (replace(wait, role=RANK) if wait.role in roles else wait for wait in waits)
    return tuple(dict.fromkeys(renamed))


def ranked(planner: Planner, leader: str, follower: str, env: Callable[[RankInfo], Env]) -> None:
    """Add two roles whose replicas have a rank from the start; rank 0 is where they meet.

    It decides, unless there is no leader: then all followers do. Everybody waits until rank 0
    listens; rank 0 itself only until its name leads to it.

    Args:
        planner: is added to.
        leader: the role of rank 0, of one replica.
        follower: the role of the others; one of the two may be missing.
        env: what a replica is told, as variables.
    """
    found = members(planner.job, leader, follower)
    first, last = found[0], found[-1]
    able = [leader, RANK] if first.spec.name == RANK else [first.spec.name]
    planner.decider(first.spec.name, able)
    names = tuple(
        host
        for member in found
        for host in planner.hosts(member.spec, member.replicas, member.index or 0)
    )
    meeting = planner.wait(first.spec, count=1)

    def rank_info(member: Member, viewer: Viewer) -> RoleFields:
        port = planner.port(last.spec) if len(names) > 1 else None
        seen = RankInfo(member.rank, names, planner.port(first.spec, 0, viewer), port)
        return {"env": env(seen)}

    for member in found:
        if planner.too_long:
            break
        planner.add(
            member.spec,
            replicas=member.replicas,
            index=member.index,
            decides=member is first,
            success=None if member.spec.name == follower else FIRST,
            each=partial(rank_info, member),
            waits=(meeting,) if len(names) > 1 else (),
        )
