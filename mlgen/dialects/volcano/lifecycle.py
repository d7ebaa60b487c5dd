"""How the roles of a Volcano job restart, succeed and end.

Source: volcano-sh/volcano, pkg/controllers/job/job_controller_util.go and state/running.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.gang import Gang, tolerates_failures, write_gang
from mlgen.dialects.volcano.policies import ALL_CODES, ENDS, RESTARTS
from mlgen.dialects.volcano.roles import DECIDING_TASKS, FRAMEWORK_ROLES, Deciders
from mlgen.dialects.volcano.scheduling import min_available
from mlgen.dialects.volcano.tasks import Task

MAX_RETRY = 3
"""Of a job and of a task, if maxRetry is missing or 0."""


@dataclass(frozen=True)
class Restart:
    """What happens to a failed replica.

    Attributes:
        policy: the restart policy of the role.
        source: the value that sets the limit.
        limit: how many restarts there are at most; None if the gang starts again, or if it always
            restarts.
        codes: for ExitCode, those after which it restarts.
        alone: True if its peers go on.
    """

    policy: str
    source: SourceValue
    limit: int | None = None
    codes: tuple[int, ...] = ()
    alone: bool = True


def write_restarts(builder: Builder, tasks: Sequence[Task], gang: Gang) -> None:
    """Write the restart policy of each role, its exit codes and its limit.

    A limit that all restarting roles share is written once, in `runPolicy`, unless that is the
    limit of the gang.
    """
    restarts = {task.role: restart_of(builder, task, gang) for task in tasks}
    limits = {r.limit for r in restarts.values() if r.limit is not None and r.policy != "Never"}
    shared = not gang.action and len(limits) == 1
    for task in tasks:
        path, restart = ("spec", "roles", task.role), restarts[task.role]
        source = task.source.get("template", "spec", "restartPolicy") or task.source
        builder.put((*path, "restartPolicy"), source, restart.policy)
        builder.put((*path, "retryableExitCodes"), restart.source, list(restart.codes))
        if task in gang and restart.alone:
            builder.put((*path, "restartScope"), source, "Replica")
        elif task in gang and restart.codes:
            builder.always_restarted(restart.source, restart.codes)
        if restart.policy == "Never" and not restart.limit and not (gang.action or shared):
            continue  # not retried, because runPolicy has no limit that applies to it
        if restart.limit is not None:
            target = ("spec", "runPolicy") if shared and restart.policy != "Never" else path
            builder.put((*target, "backoffLimit"), restart.source, restart.limit)
    write_gang(builder, gang)
    if gang.action:
        max_retry = builder.spec.get("maxRetry")
        limit = max_retry.value or MAX_RETRY
        builder.put(("spec", "runPolicy", "backoffLimit"), max_retry or gang.source, limit)


def restart_of(builder: Builder, task: Task, gang: Gang) -> Restart:
    """Return what happens to a failed replica of a task.

    A pod that restarts its containers does so without a limit, unless there is a policy for
    TaskFailed. A pod that does not stays failed, unless a policy replaces it.
    """
    if task.restart == "Always":
        return Restart("Always", task.source)
    if task.restart == "OnFailure":
        max_in_place, source = max_restarts(task)
        return Restart("OnFailure", source or builder.spec, max_in_place)
    by_code = task.policies_by_code()
    together = any(gang.starts_again(policy, task) for policy in by_code.values())
    retried = {code: policy for code, policy in by_code.items() if policy.action in RESTARTS}
    if not retried:
        return Restart("Never", task.source, None if task in gang else 0, alone=task not in gang)
    max_retry = builder.spec.get("maxRetry")
    source = max_retry or next(iter(retried.values())).source
    limit = None if together else max_retry.value or MAX_RETRY
    if len(retried) < len(ALL_CODES):
        return Restart("ExitCode", source, limit, tuple(sorted(retried)), alone=not together)
    return Restart("OnFailure" if together else "Never", source, limit, alone=not together)


def max_restarts(task: Task) -> tuple[int, SourceValue]:
    """Return how often containers of a task may restart in place, and the value that limits it."""
    policy, max_retry = task.policy_for("TaskFailed"), task.source.get("maxRetry")
    if policy is None:
        return ENDLESS, SourceValue(None)
    limit = max_retry.value or MAX_RETRY
    return ENDLESS if limit < 0 else limit, max_retry or policy.source


def write_success(
    builder: Builder, framework: str, tasks: Sequence[Task], deciders: Deciders
) -> None:
    """Write which roles decide, and how many of a role's replicas must succeed."""
    decider = deciders.tasks[0]
    policy = decider.completion_policy
    source = policy.source if policy else builder.spec.get("tasks")
    default = _default_decider(framework, tasks)
    if len(deciders.tasks) > 1:
        path = ("spec", "successPolicy")
        builder.put((*path, "roles"), source, [task.role for task in deciders.tasks])
        if deciders.any_of_them:
            builder.put((*path, "operator"), source, "Any")
    elif default and "master" in FRAMEWORK_ROLES[framework] and decider.role != default.role:
        message = (
            f"Volcano completes the job when {decider.role} completes; mlgen when"
            f" {default.role} does"
        )
        builder.differs(source, message, f"move this policy to the task {default.name}")
    elif len(tasks) > 1 and decider != default:
        builder.put(("spec", "successPolicy", "role"), source, decider.role)
    has_servers = "ps" in FRAMEWORK_ROLES.get(framework, ())
    is_alone = len(deciders.tasks) == 1
    if has_servers and is_alone and decider.role == "worker" and decider.replicas > 1:
        builder.put(("spec", "successPolicy", "replicas"), source, "All")
    if builder.spec.get("minSuccess"):
        _write_min_success(builder, tasks, decider)
    elif tolerates_failures(builder, tasks):
        _write_tolerated_failures(builder, tasks[0])


def _default_decider(framework: str, tasks: Sequence[Task]) -> Task | None:
    """Return the task that decides if the job file does not say which; None if there is none."""
    if framework not in FRAMEWORK_ROLES:
        return None
    by_role = {task.role: task for task in tasks}
    return next((by_role[role] for role in DECIDING_TASKS[framework] if role in by_role), None)


def _write_min_success(builder: Builder, tasks: Sequence[Task], decider: Task) -> None:
    """Write `minSuccess` as the number of replicas of the deciding role that must succeed."""
    min_success = builder.spec.get("minSuccess")
    if len(tasks) > 1:
        message = (
            f"Volcano counts successful pods of all tasks; mlgen counts those of {decider.role}"
            " only"
        )
        builder.differs(min_success, message)
    if len(tasks) == 1 or min_success.value < decider.replicas:
        builder.put(("spec", "successPolicy", "replicas"), min_success)


def _write_tolerated_failures(builder: Builder, task: Task) -> None:
    """Let `minAvailable` of a job with one task tolerate failed replicas.

    The remaining replicas continue. A success policy would stop them as soon as `minAvailable`
    replicas have succeeded.
    """
    least = min_available(builder.spec, [task])
    source = builder.spec.get("minAvailable") or task.source.get("minAvailable")
    path = ("spec", "roles", task.role)
    builder.put((*path, "backoffLimitPerIndex"), source, 0)
    builder.put((*path, "maxFailedIndexes"), source, task.replicas - least)
    builder.differs(
        source,
        f"Volcano completes the job when {least} of {task.replicas} pods have succeeded and the"
        " others have failed; a Job with a failed replica fails at its end",
        f"to complete it, and stop the other pods, as soon as {least} have succeeded, pass --set"
        f" spec.successPolicy.replicas={least}",
    )


def write_cleanup(builder: Builder, tasks: Sequence[Task], deciders: Deciders) -> None:
    """Write what happens after training: the time to live, and which pods are stopped.

    Volcano stops all pods when a job has ended. If mlgen guesses when that is, they go on.
    """
    ttl = builder.spec.get("ttlSecondsAfterFinished")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), ttl)
    min_success = builder.spec.get("minSuccess")
    decides_all = len(deciders.tasks) == len(tasks) and not deciders.any_of_them
    if len(tasks) > 1 and (min_success or not (deciders.guessed or decides_all)):
        policies = [task.policy_for("TaskCompleted") for task in tasks]
        completing = [p.source for p in policies if p and p.action == "CompleteJob"]
        source = next(iter(completing), min_success or builder.spec.get("tasks"))
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), source, "Running")


def write_bounds(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write when a job ends that cannot go on: `giveUpAfter`."""
    path = ("spec", "runPolicy", "giveUpAfter")
    pending = pending_bound(tasks)
    if pending:
        policy = tasks[0].policy_for("PodPending")
        source = policy.source.get("timeout") if policy else builder.spec
        builder.put((*path, "imagePullSeconds"), source, pending)
        builder.put((*path, "pendingSeconds"), source, pending)
    crashes = crash_bound(tasks)
    if crashes is not None:
        servers = [task for task in tasks if task.restart == "Always"]
        _, source = max_restarts(servers[0])
        builder.put((*path, "crashes"), source or servers[0].source, crashes)


def pending_bound(tasks: Sequence[Task]) -> int | None:
    """Return for how many seconds pods may be pending before the job ends.

    None without such a policy, or if the tasks differ: the bound applies to all of them.
    """
    policies = [task.policy_for("PodPending") for task in tasks]
    bounds = {p.timeout_seconds if p and p.action in ENDS else None for p in policies}
    return bounds.pop() if len(bounds) == 1 else None


def crash_bound(tasks: Sequence[Task]) -> int | None:
    """Return how often the containers of tasks that always restart may crash; 0: without limit.

    None if there is no such task. The bound applies to all of them, so one without limit decides.
    """
    limits = []
    for task in (task for task in tasks if task.restart == "Always"):
        policy, (limit, _) = task.policy_for("TaskFailed"), max_restarts(task)
        ends = policy is not None and policy.action in ENDS and limit != ENDLESS
        limits.append(limit if ends else 0)
    return None if not limits else 0 if 0 in limits else max(limits)
