"""The replicas of a rendered job: their roles, indexes and ranks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlgen.objects.labels import workload_name
from mlgen.problems import MlgenError, Problem, choice
from mlgen.result import Rendered
from mlgen.topology import INDEX, Role

RANK_VARIABLES = ("RANK", "PADDLE_RANK", "JAX_PROCESS_ID")
"""The variables in which frameworks pass a rank that is fixed before the replica starts."""


@dataclass(frozen=True)
class Replica:
    """A replica of a job.

    Attributes:
        role: as rendered: `rank` if roles were merged.
        index: the index in this role.
        workload: the name of its Job or StatefulSet.
        decides: True if the end of its role determines the job's outcome.
        rank: its rank; None if the rank is not known before the replica starts.
    """

    role: str
    index: int
    workload: str
    decides: bool
    rank: int | None

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


def replicas(rendered: Rendered) -> list[Replica]:
    """Return all replicas of a job, by role and index."""
    return [each for role in rendered.topology.roles for each in _of_role(rendered, role)]


def _of_role(rendered: Rendered, role: Role) -> Iterator[Replica]:
    workload = workload_name(rendered.topology.job, role)
    rank = next((str(role.env[name]) for name in RANK_VARIABLES if name in role.env), "")
    for index in [role.index] if role.index is not None else range(role.replicas):
        text = rank.replace(INDEX, str(index))
        known = int(text) if text.isdecimal() else None
        yield Replica(role.name, index, workload, role.decides, known)


def select(jobs: Sequence[Rendered], name: str | None) -> Rendered:
    """Return the job with a name, or for None, the only job.

    Raises:
        MlgenError: there is no such job, or there are several jobs and no name.
    """
    names = [job.job.name for job in jobs]
    if name is None and len(jobs) > 1:
        raise _unknown(f"expected one job, got {len(jobs)}", f"use --job with {', '.join(names)}")
    found = [job for job in jobs if name in (None, job.job.name, job.job.part_of)]
    if not found:
        raise _unknown(f'--job: no job "{name}" found', choice(str(name), names))
    return found[0]


def find(rendered: Rendered, rank: int | None, role: str | None, index: int | None) -> Replica:
    """Return the replica with a rank, or with a role and index (default: 0).

    Default: rank 0, or else the first deciding replica, because its log shows the progress.

    Raises:
        MlgenError: there is no such replica.
    """
    if rank is not None:
        return by_rank(rendered, rank)
    if role:
        return by_index(rendered, role, index or 0)
    every = replicas(rendered)
    return next((r for r in every if r.rank == 0), None) or next(r for r in every if r.decides)


def by_rank(rendered: Rendered, rank: int) -> Replica:
    """Return the replica with a rank.

    Raises:
        MlgenError: the job has no such rank, or its ranks are not known before it starts.
    """
    every = replicas(rendered)
    ranks = {each.rank: each for each in every if each.rank is not None}
    if not ranks:
        roles = ", ".join(dict.fromkeys(each.role for each in every))
        framework = rendered.job.framework
        reason = f"the replicas of this {framework} job have no ranks before they start"
        raise _unknown(f"--rank {rank}: {reason}", f"use --role and --index; roles: {roles}")
    if rank not in ranks:
        raise _unknown(f"--rank {rank}: {rendered.job.name} has no such rank", _range(ranks))
    return ranks[rank]


def by_index(rendered: Rendered, role: str, index: int) -> Replica:
    """Return a replica of a role by its name in the job file or in the rendered job.

    Raises:
        MlgenError: the job has no such role or replica.
    """
    every = replicas(rendered)
    own = {each.index: each for each in every if each.role == role} or _merged(rendered, role)
    if not own and role in rendered.job.roles:
        hint = "the program creates them; see kubectl get pods"
        raise _unknown(f"--role: {role} of {rendered.job.name} has no rendered replicas", hint)
    if not own:
        names = [each.name for each in rendered.topology.roles]
        known = list(dict.fromkeys([*rendered.job.roles, *names]))
        raise _unknown(f'--role: {rendered.job.name} has no role "{role}"', choice(role, known))
    if index not in own:
        raise _unknown(f"--index {index}: {role} has no such replica", _range(own))
    return own[index]


def _merged(rendered: Rendered, role: str) -> dict[int, Replica]:
    """Return the replicas of a role that was merged into another, by their index in the role."""
    merged = [each for each in rendered.topology.roles if role in each.merged]
    if not merged:
        return {}
    names = merged[0].merged
    first = sum(rendered.job.roles[name].replicas for name in names[: names.index(role)])
    every = [replica for each in merged for replica in _of_role(rendered, each)]
    return dict(enumerate(every[first : first + rendered.job.roles[role].replicas]))


def _range(values: Iterable[int]) -> str:
    """Return the hint with the valid numbers: `use 0 to 3`."""
    numbers = sorted(values)
    return f"use {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")


def _unknown(message: str, hint: str) -> MlgenError:
    return MlgenError([Problem((), message, "unknown-value", hint)])
