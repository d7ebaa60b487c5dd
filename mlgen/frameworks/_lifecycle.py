"""The life of a job: the order in which roles start, restarts of a gang, success and its end.

The supervisor decides it (`mlgen/runtime`), or the step of an Argo workflow. With neither, nothing
does: a job that only says so to last longer is rendered without, and warned of; a job that would
never start is an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mlgen.jobfile.model import (
    GANG_BOUNDS,
    GiveUpAfter,
    RunPolicy,
    SuccessPolicy,
    TrainingJob,
    written,
)
from mlgen.problems import Code, Problem, did_you_mean
from mlgen.topology import Role, Success, Topology

FIRST = Success(indexes="0")
"""Success as soon as replica 0 has succeeded."""

ANY = Success(count=1)
"""Success as soon as any replica has succeeded."""

SCOPE = ("runPolicy", "restartScope")
SUCCESS = ("successPolicy",)
CLEAN = ("runPolicy", "cleanPodPolicy")
TTL = ("runPolicy", "ttlSecondsAfterFinished")
BOUNDS = {path[-1]: ("runPolicy", *path) for path in GANG_BOUNDS}
"""Paths below `spec`; `BOUNDS` has that of each bound on the restarts of a gang."""

OWN_LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
"""The limits that a role has for itself, as it does not restart with others."""

NO_SUPERVISOR = "without a supervisor,"


def spec_problem(
    path: Sequence[str],
    message: str,
    hint: str,
    *,
    code: Code = "combination",
    warning: bool = False,
) -> Problem:
    """Return a problem at a path below `spec`."""
    return Problem(("spec", *path), message, code, hint, warning)


def no_effect(path: Sequence[str], message: str, hint: str = "remove it") -> Problem:
    """Return a warning of a value that has no effect."""
    return spec_problem(path, message, hint, code="no-effect", warning=True)


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


def supervision_problems(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    """Return what cannot be decided while the job runs, and warnings about what is not."""
    yield from _deciders(job, roles)
    yield from _gang(job, roles)
    yield from _orders(job, roles)
    if not job.watched:
        yield from _undecided(job)


def _deciders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    policy = job.success_policy
    if policy.roles and (policy.role or policy.replicas is not None):
        hint = "remove role and replicas; all replicas of each of these roles must succeed"
        yield spec_problem(SUCCESS, "roles cannot be used with role or replicas", hint)
    if policy.operator == "Any" and not policy.roles:
        yield spec_problem(SUCCESS, "operator has no effect without roles", "add roles")
    yield from _unknown((*SUCCESS, "roles"), policy.roles, roles)
    for role in roles:
        if role.name in policy.roles and role.endless:
            message = f"{role.name} does not end by itself"
            yield spec_problem((*SUCCESS, "roles"), message, f"remove {role.name}")


def _gang(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    scope = job.run_policy.restart_scope
    if scope == "Replica":
        for name in (role.name for role in roles if role.spec.restart_scope):
            message = "it has no effect, because runPolicy.restartScope is Replica already"
            yield no_effect(("roles", name, "restartScope"), message)
        return
    if job.scheduling.gang == "kueue":
        message = "Kueue alone suspends and resumes the job"
        yield spec_problem(SCOPE, message, "remove restartScope, or write gang: none")
    if isinstance(scope, tuple):
        yield from _unknown(SCOPE, scope, roles)
    for role in roles:
        limits = OWN_LIMITS if role.restarts_together else ()
        for name in (name for name in limits if name in written(role.spec)):
            message = f"{role.name} starts again with its peers, and has no limit of its own"
            hint = f"remove it, or write restartScope: Replica for {role.name}"
            yield spec_problem(("roles", role.spec.name, name), message, hint)


def _unknown(
    path: tuple[str, ...], names: Sequence[str], roles: Sequence[Role]
) -> Iterator[Problem]:
    known = sorted({role.name for role in roles})
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"the roles are {', '.join(known)}"
            yield spec_problem(path, f'the job has no role "{name}"', hint)


def _orders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    by_name = {role.name: role for role in roles}
    for role in roles:
        path = ("roles", role.spec.name, "waitFor")
        for order in role.orders:
            other = by_name[order.role]
            until = f"until: {order.until}"
            if job.scheduling.gang == "kueue":
                message = f"Kueue alone suspends and resumes the job, so {until} cannot be used"
                yield spec_problem(path, message, "write until: name or until: port")
            elif not job.watched:
                message = (
                    f"{NO_SUPERVISOR} {role.name} does not start when {other.name} is complete"
                )
                yield spec_problem(path, message, "allow the supervisor, or write until: name")
            elif order.until == "Complete" and other.endless:
                message = f"{other.name} does not end by itself"
                yield spec_problem(path, message, "write until: Ready")
            elif order.until == "Complete" and other.decides and decides(job) == "one":
                message = f"when {other.name} is complete, the job has ended"
                hint = f"set successPolicy.roles: [{other.name}, {role.name}]"
                yield spec_problem(path, message, hint)


def _undecided(job: TrainingJob) -> Iterator[Problem]:
    """Return a warning for each policy that only a supervisor carries out."""
    policy = job.run_policy
    if policy.restart_scope != "Replica":
        message = f"{NO_SUPERVISOR} a replica that fails is restarted alone"
        yield spec_problem(SCOPE, message, "remove --no-supervisor", warning=True)
    if job.success_policy.roles:
        message = f"{NO_SUPERVISOR} {job.success_policy.roles[0]} alone decides"
        yield spec_problem((*SUCCESS, "roles"), message, "remove --no-supervisor", warning=True)
    for role in job.roles.values():
        if any(entry.until == "Ready" for entry in role.wait_for or ()):
            message = f"{NO_SUPERVISOR} the pods of {role.name} start at once, and wait for names"
            path = ("roles", role.name, "waitFor")
            yield spec_problem(path, message, "remove --no-supervisor", warning=True)
    for name, value in (
        ("giveUpAfter", policy.give_up_after),
        ("metricsPort", policy.metrics_port),
    ):
        if value not in (None, GiveUpAfter(crashes=0), GiveUpAfter(start_failures=0)):
            message = f"{NO_SUPERVISOR} {name} has no effect"
            yield spec_problem(("runPolicy", name), message, "remove --no-supervisor", warning=True)


def success(job: TrainingJob, default: Success | None, *, needed: bool) -> Success | None:
    """Return when the deciding role has succeeded; None: when all of its replicas have.

    Once a Job's successPolicy is met, the Job controller deletes the pods that still run. With
    cleanPodPolicy None, operators leave them alone. So the framework's default applies only where
    the job is cleaned up anyway, or where its program relies on it.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy

    Args:
        job: the job.
        default: of the framework.
        needed: True if the default applies in any case, because other replicas may fail.
    """
    required = job.success_policy.replicas
    if required is None:
        needed = needed or (default is not None and default.needed)
        return default if needed or job.run_policy.clean_pod_policy != "None" else None
    if required == "All":
        return None
    return FIRST if required == "First" else Success(count=int(required))


def success_problems(job: TrainingJob, replicas: int, *, split: bool) -> Iterator[Problem]:
    """Return what is wrong with `successPolicy.replicas`.

    Args:
        job: the job.
        replicas: the number of replicas of the deciding role.
        split: there are several, and each of them has a Job of its own.
    """
    required = job.success_policy.replicas
    path = (*SUCCESS, "replicas")
    if required == "All" and split:
        message = (
            "with host networking, each replica has its own Job; without a supervisor, only that of"
            " replica 0 decides"
        )
        yield spec_problem(path, message, "remove --no-supervisor, or write First", warning=True)
    elif required not in (None, "First") and split:
        message = "with host networking, each replica has its own Job, and no number can decide"
        yield spec_problem(path, message, "write All or First")
    if required not in (None, "First", "All") and int(required) > replicas:
        message = f"{required} replicas must succeed, but the deciding role has only {replicas}"
        yield spec_problem(path, message, f"write at most {replicas}")


def cleanup(topology: Topology) -> str:
    """Return the command that deletes the pods that keep running after training ends.

    A Job stops and deletes only its own pods, and a TTL only a finished Job:
    https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
    It is "" if there are none, or if the supervisor or a workflow stops or deletes them.
    """
    job, endless = topology.job, _endless(topology)
    deletes = topology.supervised and job.run_policy.ttl_seconds_after_finished is not None
    if not endless or deletes or _stops_pods(topology):
        return ""
    if all(role.serves for role in topology.roles if role.endless):
        return f"kubectl delete statefulsets -l mlgen.dev/job={job.name}"
    return _delete_others(topology)


def _delete_others(topology: Topology) -> str:
    """Return the command that deletes every workload but the deciding Job."""
    selector = f"mlgen.dev/job={topology.job.name},mlgen.dev/decides!=true"
    return f"kubectl delete statefulsets,jobs -l '{selector}'"


def _endless(topology: Topology) -> list[str]:
    """Return the roles whose replicas do not end by themselves."""
    roles = topology.roles
    return [role.name for role in roles if (role.serves or role.endless) and not role.decides]


def _stops_pods(topology: Topology) -> bool:
    """Return True if the supervisor or a workflow stops the pods that keep running."""
    job = topology.job
    return (topology.supervised or job.workflow) and job.run_policy.clean_pod_policy != "None"


def clean_pod_policy(topology: Topology) -> Iterator[Problem]:
    """Only a supervisor stops the pods of other roles, and it needs some to stop."""
    job = topology.job
    policy = job.run_policy.clean_pod_policy
    if policy == "None" or _stops_pods(topology):
        return
    remaining = [role.name for role in topology.roles if not role.decides]
    if remaining:
        message = f"without a supervisor, {_names(remaining)} are not stopped when training ends"
        hint = f"then run: {_delete_others(topology)}"
        yield spec_problem(CLEAN, message, hint, warning=True)
    elif not job.converted and not _stops_replicas(topology):
        message = f"{policy} has no effect: no pod keeps running after training ends"
        yield no_effect(CLEAN, message)


def _stops_replicas(topology: Topology) -> bool:
    """Return True if the policy lets Kubernetes stop replicas of the deciding role: `success`."""
    return topology.job.success_policy.replicas is None and any(
        role.decides and role.replicas > 1 and role.success and not role.success.needed
        for role in topology.roles
        if not role.tolerates_failure
    )


def ttl(topology: Topology) -> Iterator[Problem]:
    """Without a supervisor, a TTL deletes finished Jobs only."""
    remaining = _endless(topology)
    if topology.job.run_policy.ttl_seconds_after_finished is None or topology.supervised:
        return
    if remaining:
        names = _names(remaining)
        message = f"Kubernetes deletes only finished Jobs; the pods of {names} keep running"
        hint = f"then run: {cleanup(topology)}"
        yield spec_problem(TTL, message, hint, warning=True)


def _names(names: list[str]) -> str:
    """Return each name once, separated by commas."""
    return ", ".join(dict.fromkeys(names))


def gang_bounds(topology: Topology) -> Iterator[Problem]:
    """Report bounds on the restarts of a job that contradict each other, or never apply."""
    job, policy = topology.job, topology.job.run_policy
    bounds = policy.give_up_after or GiveUpAfter()
    names = {*written(policy), *written(bounds)}
    if job.converted or not job.supervisor:
        return
    if any(role.gang for role in topology.roles):
        yield from _bounds_of_gang(policy, bounds, names)
    elif not job.workflow:
        for name in (name for name in BOUNDS if name in names):
            message = f"{name} has no effect without runPolicy.restartScope"
            yield no_effect(BOUNDS[name], message, "remove it, or write restartScope: All")


def _bounds_of_gang(policy: RunPolicy, bounds: GiveUpAfter, names: set[str]) -> Iterator[Problem]:
    """Report bounds on the restarts of a gang that contradict each other; `names` are written."""
    start, reset, most = bounds.start_seconds, policy.backoff_reset_seconds, policy.retries + 1
    if "startFailures" in names and bounds.start_failures > most:
        message = f"backoffLimit: {policy.retries} ends the job at failure {most}, which is earlier"
        hint = f"write at most {most}, or raise backoffLimit"
        yield spec_problem(BOUNDS["startFailures"], message, hint)
    if "startSeconds" in names and not bounds.start_failures:
        message = "startSeconds has no effect with startFailures: 0"
        yield spec_problem(BOUNDS["startSeconds"], message, "remove one of the two")
    elif {"startSeconds", "backoffResetSeconds"} & names and 0 < reset <= start:
        name = "backoffResetSeconds" if "backoffResetSeconds" in names else "startSeconds"
        message = (
            f"failures would stop counting (backoffResetSeconds: {reset}) before the program counts"
            f" as started (startSeconds: {start})"
        )
        hint = "write a backoffResetSeconds that is longer than startSeconds"
        yield spec_problem(BOUNDS[name], message, hint)
