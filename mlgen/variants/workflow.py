"""What a workflow does for a job, so that its objects do not: starting it again, ending, removing.

Replicas of one job depend on each other, so where a workflow watches them, the whole job starts
again (as a gang), and the workflow judges by the exit code of the replica that failed first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlgen.jobfile.model import TrainingJob
from mlgen.problems import MlgenError, Problem
from mlgen.topology import Role, Topology


def without_policies(job: TrainingJob) -> TrainingJob:
    """Return a job without the policies that are then those of its workflow."""
    policy = replace(
        job.run_policy, clean_pod_policy="None", ttl_seconds_after_finished=None, suspend=False
    )
    return replace(job, run_policy=policy)


def restarts(topology: Topology) -> Topology:
    """Return a topology in which a replica that fails fails its role, for the workflow to judge.

    Raises:
        MlgenError: roles have different exit codes, of which a workflow takes one set.
    """
    if len({role.spec.retryable_exit_codes for role in topology.roles if _by_code(role)}) > 1:
        raise MlgenError([_different_codes(topology.roles)])
    left = [replace(r, restart="Workflow") if _is_left(r) else r for r in topology.roles]
    warnings = (*topology.warnings, *_contradictions(topology))
    return replace(topology, roles=tuple(left), warnings=warnings)


def exit_codes(roles: Sequence[Role]) -> tuple[int, ...]:
    """Return the exit codes after which the workflow starts the job again; () for 128 to 255."""
    given = (role.spec.retryable_exit_codes for role in roles)
    return next((codes for codes in given if codes), ())


def _by_code(role: Role) -> bool:
    return role.restart == "ExitCode"


def _own_limit(role: Role) -> str | None:
    """The field in which a role says how often its replicas start again by themselves."""
    if role.spec.backoff_limit is not None:
        return "backoffLimit"
    return None if role.spec.backoff_limit_per_index is None else "backoffLimitPerIndex"


def _is_left(role: Role) -> bool:
    """The workflow restarts what neither goes on without the replica nor restarts it by itself."""
    ends = not role.serves and not role.tolerates_failure
    return ends and role.restart in ("Never", "ExitCode") and not _own_limit(role)


def _different_codes(roles: Sequence[Role]) -> Problem:
    role = next(role for role in roles if _by_code(role) and role.spec.retryable_exit_codes)
    path = ("spec", "roles", role.spec.name, "retryableExitCodes")
    message = "a workflow starts the whole job again, and roles have different exit codes for it"
    return Problem(path, message, "combination", "give all roles with ExitCode the same ones")


def _contradictions(topology: Topology) -> Iterator[Problem]:
    """Whatever else was asked for one role: which of the two wins."""
    limit = topology.job.run_policy.backoff_limit
    codes = ", ".join(map(str, sorted(exit_codes(topology.roles)))) or "128 to 255"
    for role in topology.roles:
        name, own = role.spec.name, _own_limit(role)
        if role.serves or role.tolerates_failure:
            continue
        if own or role.restart == "OnFailure":
            yield Problem(
                ("spec", "roles", name, own or "restartPolicy"),
                f"replicas of {name} start again by themselves first; the workflow starts the"
                " whole job again only when their limit is used up",
                "combination",
                HINT_OWN if own else HINT_ON_FAILURE,
                warning=True,
            )
        elif role.spec.restart_policy == "Never" and limit:
            yield Problem(
                ("spec", "roles", name, "restartPolicy"),
                f"the workflow starts the whole job again all the same, up to {limit} times, after"
                f" an exit code of {codes} in {name}",
                "combination",
                "write runPolicy.backoffLimit: 0 to end with the first failure",
                warning=True,
            )


HINT_OWN = "leave it out, and the workflow starts the job again, by runPolicy.backoffLimit"
HINT_ON_FAILURE = "write restartPolicy: ExitCode, and the workflow alone starts the job again"
