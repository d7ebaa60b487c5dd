"""What is decided while the job runs: the order of roles, restarts of a gang, and its end.

The supervisor decides it (`mlgen/runtime`), or the step of an Argo workflow. With neither, nothing
does: a job that only says so to last longer is rendered without, and warned of; a job that would
never start is an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mlgen.jobfile.model import GiveUpAfter, SuccessPolicy, TrainingJob
from mlgen.problems import Problem, did_you_mean
from mlgen.topology import Role

SCOPE = ("runPolicy", "restartScope")
SUCCESS = ("successPolicy",)
NO_SUPERVISOR = "without a supervisor,"


def decides(job: TrainingJob) -> Literal["one", "all", "any"]:
    """Return how the roles that decide do so: one alone, or all or any of them together."""
    if not job.decides_together:
        return "one"
    return "any" if job.success_policy.operator == "Any" else "all"


def is_supervised(job: TrainingJob, roles: Sequence[Role]) -> bool:
    """Return whether something is left to decide while the job runs, and mlgen may decide it."""
    policy = job.run_policy
    asked = policy.restart_scope != "Replica" or policy.give_up_after or policy.metrics_port
    several = not all(role.decides for role in roles) or decides(job) != "one"
    return job.supervisor and not job.workflow and bool(asked or several)


def is_in_gang(job: TrainingJob, role: str) -> bool:
    """Return whether the supervisor restarts a role together with others.

    A workflow restarts all roles by itself.
    """
    scope = job.run_policy.restart_scope
    chosen = scope == "All" or (scope != "Replica" and role in scope)
    return chosen and job.supervisor and not job.workflow


def with_split_deciders(job: TrainingJob, role: str, *, split: bool) -> TrainingJob:
    """Return the job; if all replicas of a split role must succeed, their Jobs decide together.

    Args:
        job: the job.
        role: the deciding role.
        split: it has several replicas, and each of them has a Job of its own.
    """
    if not split or not job.watched or job.success_policy.replicas != "All":
        return job
    return replace(job, success_policy=SuccessPolicy(roles=(role,)))


def with_deciders(job: TrainingJob, roles: Sequence[Role]) -> list[Role]:
    """Return the roles; those of `successPolicy.roles` decide, when all of their replicas succeed.

    Without a supervisor or a workflow, the first of them decides.
    """
    names = job.success_policy.roles
    if not names:
        return list(roles)
    chosen = names if job.watched else names[:1]
    return [
        _decider(role) if role.name in chosen else replace(role, decides=False) for role in roles
    ]


def _decider(role: Role) -> Role:
    success = role.success if role.success and role.success.needed else None
    return replace(role, decides=True, success=success)


def problems(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    """Return what cannot be decided while the job runs, and warnings about what is not."""
    yield from _deciders(job, roles)
    yield from _gang(job, roles)
    yield from _orders(job, roles)
    if not job.watched:
        yield from _undecided(job)


def _problem(path: tuple[str, ...], message: str, hint: str, *, warning: bool = False) -> Problem:
    return Problem(("spec", *path), message, "combination", hint, warning)


def _deciders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    policy = job.success_policy
    if policy.roles and (policy.role or policy.replicas is not None):
        hint = "remove role and replicas; all replicas of each of these roles must succeed"
        yield _problem(SUCCESS, "roles cannot be used with role or replicas", hint)
    if policy.operator == "Any" and not policy.roles:
        yield _problem(SUCCESS, "operator has no effect without roles", "add roles")
    yield from _unknown((*SUCCESS, "roles"), policy.roles, roles)
    for role in roles:
        if role.name in policy.roles and role.endless:
            message = f"{role.name} does not end by itself"
            yield _problem((*SUCCESS, "roles"), message, f"remove {role.name}")


def _gang(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    scope = job.run_policy.restart_scope
    if scope == "Replica":
        for name in (role.name for role in roles if role.spec.restart_scope):
            message = "it has no effect, because runPolicy.restartScope is Replica already"
            path = ("spec", "roles", name, "restartScope")
            yield Problem(path, message, "no-effect", "remove it", warning=True)
        return
    if job.scheduling.gang == "kueue":
        message = "Kueue alone suspends and resumes the job"
        yield _problem(SCOPE, message, "remove restartScope, or write gang: none")
    if isinstance(scope, tuple):
        yield from _unknown(SCOPE, scope, roles)
    for role in roles:
        for field in ("backoff_limit", "backoff_limit_per_index", "max_failed_indexes"):
            if role.restarts_together and getattr(role.spec, field) is not None:
                head, *rest = field.split("_")
                name = head + "".join(map(str.capitalize, rest))
                message = f"{role.name} starts again with its peers, and has no limit of its own"
                hint = f"remove it, or write restartScope: Replica for {role.name}"
                yield _problem(("roles", role.spec.name, name), message, hint)


def _unknown(
    path: tuple[str, ...], names: Sequence[str], roles: Sequence[Role]
) -> Iterator[Problem]:
    known = sorted({role.name for role in roles})
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"the roles are {', '.join(known)}"
            yield _problem(path, f'the job has no role "{name}"', hint)


def _orders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    by_name = {role.name: role for role in roles}
    for role in roles:
        path = ("roles", role.spec.name, "waitFor")
        for order in role.orders:
            other = by_name[order.role]
            until = f"until: {order.until}"
            if job.scheduling.gang == "kueue":
                message = f"Kueue alone suspends and resumes the job, so {until} cannot be used"
                yield _problem(path, message, "write until: name or until: port")
            elif not job.watched:
                message = (
                    f"{NO_SUPERVISOR} {role.name} does not start when {other.name} is complete"
                )
                yield _problem(path, message, "allow the supervisor, or write until: name")
            elif order.until == "Complete" and other.endless:
                message = f"{other.name} does not end by itself"
                yield _problem(path, message, "write until: Ready")
            elif order.until == "Complete" and other.decides and decides(job) == "one":
                message = f"when {other.name} is complete, the job has ended"
                hint = f"set successPolicy.roles: [{other.name}, {role.name}]"
                yield _problem(path, message, hint)


def _undecided(job: TrainingJob) -> Iterator[Problem]:
    """Return a warning for each policy that only a supervisor carries out."""
    policy = job.run_policy
    if policy.restart_scope != "Replica":
        message = f"{NO_SUPERVISOR} a replica that fails is restarted alone"
        yield _problem(SCOPE, message, "remove --no-supervisor", warning=True)
    if job.success_policy.roles:
        message = f"{NO_SUPERVISOR} {job.success_policy.roles[0]} alone decides"
        yield _problem((*SUCCESS, "roles"), message, "remove --no-supervisor", warning=True)
    for role in job.roles.values():
        if any(entry.until == "Ready" for entry in role.wait_for or ()):
            message = f"{NO_SUPERVISOR} the pods of {role.name} start at once, and wait for names"
            path = ("roles", role.name, "waitFor")
            yield _problem(path, message, "remove --no-supervisor", warning=True)
    for name, value in (
        ("giveUpAfter", policy.give_up_after),
        ("metricsPort", policy.metrics_port),
    ):
        if value not in (None, GiveUpAfter(crashes=0), GiveUpAfter(start_failures=0)):
            message = f"{NO_SUPERVISOR} {name} has no effect"
            yield _problem(("runPolicy", name), message, "remove --no-supervisor", warning=True)
