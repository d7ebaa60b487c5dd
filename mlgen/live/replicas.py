"""Options of a command → the job and the replica that they select."""

from collections.abc import Iterable, Sequence

from mlgen.problems import MlgenError, Problem, choice
from mlgen.result import Rendered
from mlgen.show.groups import Replica, replicas_of


def replicas(rendered: Rendered) -> list[Replica]:
    """Return all replicas of a job, by role and index."""
    topology, found = rendered.topology, replicas_of(rendered.topology)
    return [each for name in topology.by_name for each in found[name].values()]


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
    return next((r for r in every if r.rank == 0), None) or next(r for r in every if r.role.decides)


def by_rank(rendered: Rendered, rank: int) -> Replica:
    """Return the replica with a rank.

    Raises:
        MlgenError: the job has no such rank, or its ranks are not known before it starts.
    """
    every = replicas(rendered)
    ranks = {each.rank: each for each in every if each.rank is not None}
    if not ranks:
        roles = ", ".join(rendered.topology.by_name)
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
    own = replicas_of(rendered.topology).get(role)
    if not own and role in rendered.job.roles:
        hint = "the program creates them; see kubectl get pods"
        raise _unknown(f"--role: {role} of {rendered.job.name} has no rendered replicas", hint)
    if not own:
        known = list(dict.fromkeys([*rendered.job.roles, *rendered.topology.by_name]))
        raise _unknown(f'--role: {rendered.job.name} has no role "{role}"', choice(role, known))
    if index not in own:
        raise _unknown(f"--index {index}: {role} has no such replica", _range(own))
    return own[index]


def _range(values: Iterable[int]) -> str:
    """Return the hint with the valid numbers: `use 0 to 3`."""
    numbers = sorted(values)
    return f"use {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")


def _unknown(message: str, hint: str) -> MlgenError:
    return MlgenError([Problem((), message, "unknown-value", hint)])
