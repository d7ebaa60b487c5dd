"""How the roles of a Volcano job restart, succeed and end.

Source: volcano-sh/volcano, pkg/controllers/job/job_controller_util.go and state/running.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.policies import RESTARTS
from mlgen.dialects.volcano.roles import DECIDING_TASKS, FRAMEWORK_ROLES
from mlgen.dialects.volcano.scheduling import min_available
from mlgen.dialects.volcano.tasks import Task

MAX_RETRY = 3
"""Of a job and of a task, if maxRetry is missing or 0."""


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens to a failed replica.

    Attributes:
        policy: the restart policy of the role.
        limit: how many restarts there are at most.
        source: the value that sets the limit.
    """

    policy: str
    limit: int
    source: SourceValue


def write_restarts(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the restart policy of each role, its exit codes and its limit.

    A limit that all restarting roles share is written once, in `runPolicy`.
    """
    limited: dict[str, Restart] = {}
    for task in tasks:
        path = ("spec", "roles", task.role)
        source = task.source.get("template", "spec", "restartPolicy") or task.source
        if task.restart == "Always":
            builder.put((*path, "restartPolicy"), source, "Always")
            continue
        restart = restart_of(builder, task)
        builder.put((*path, "restartPolicy"), source, restart.policy)
        if restart.policy == "ExitCode":
            codes = sorted(task.exit_code_policies(*RESTARTS))
            builder.put((*path, "retryableExitCodes"), restart.source, codes)
        if restart.policy != "Never":
            limited[task.role] = restart
        elif restart.limit:
            builder.put((*path, "backoffLimit"), restart.source, restart.limit)
    shared = len({restart.limit for restart in limited.values()}) == 1
    for role, restart in limited.items():
        target = ("runPolicy",) if shared else ("roles", role)
        builder.put(("spec", *target, "backoffLimit"), restart.source, restart.limit)


def restart_of(builder: Builder, task: Task) -> Restart:
    """Return what happens to a failed replica of a task whose pods do not always restart.

    A pod that restarts its containers does so without a limit, unless there is a policy for
    TaskFailed. A pod that does not stays failed, unless a policy replaces it.
    """
    pod_failed, task_failed = task.policy_for("PodFailed"), task.policy_for("TaskFailed")
    if task.restart == "OnFailure":
        if not task_failed:
            return Restart("OnFailure", ENDLESS, builder.spec)
        max_retry = task.source.get("maxRetry")
        limit = max_retry.value or MAX_RETRY
        source = max_retry or task_failed.source
        return Restart("OnFailure", ENDLESS if limit < 0 else limit, source)
    if not task.replaces_failed_pods and not task.exit_code_policies(*RESTARTS):
        return Restart("Never", 0, task.source)
    max_retry = builder.spec.get("maxRetry")
    source = max_retry or (pod_failed.source if pod_failed else task.source)
    policy = "Never" if task.replaces_failed_pods else "ExitCode"
    return Restart(policy, max_retry.value or MAX_RETRY, source)


def write_success(builder: Builder, framework: str, tasks: Sequence[Task], decider: Task) -> None:
    """Write which role decides, and how many of its replicas must succeed."""
    policy = decider.completion_policy
    source = policy.source if policy else builder.spec.get("tasks")
    default = _default_decider(framework, tasks)
    if default and "master" in FRAMEWORK_ROLES[framework] and decider.role != default.role:
        message = (
            f"Volcano completes the job when {decider.role} completes; mlgen when"
            f" {default.role} does"
        )
        builder.differs(source, message, f"move this policy to the task {default.name}")
    elif len(tasks) > 1 and decider != default:
        builder.put(("spec", "successPolicy", "role"), source, decider.role)
    has_servers = "ps" in FRAMEWORK_ROLES.get(framework, ())
    if has_servers and decider.role == "worker" and decider.replicas > 1:
        builder.put(("spec", "successPolicy", "replicas"), source, "All")
    min_success = builder.spec.get("minSuccess")
    if not min_success:
        _write_tolerated_failures(builder, tasks)
        return
    if len(tasks) > 1:
        message = (
            f"Volcano counts successful pods of all tasks; mlgen counts those of {decider.role}"
            " only"
        )
        builder.differs(min_success, message)
    if len(tasks) == 1 or min_success.value < decider.replicas:
        builder.put(("spec", "successPolicy", "replicas"), min_success)


def _default_decider(framework: str, tasks: Sequence[Task]) -> Task | None:
    """Return the task that decides if the job file does not say which; None if there is none."""
    if framework not in FRAMEWORK_ROLES:
        return None
    by_role = {task.role: task for task in tasks}
    return next((by_role[role] for role in DECIDING_TASKS[framework] if role in by_role), None)


def _write_tolerated_failures(builder: Builder, tasks: Sequence[Task]) -> None:
    """Let `minAvailable` of a job with one task tolerate failed replicas.

    The remaining replicas continue. A success policy would stop them as soon as `minAvailable`
    replicas have succeeded.
    """
    (task, *others), least = tasks, min_available(builder.spec, tasks)
    restarts = task.policy_for("PodFailed") or task.exit_code_policies(*RESTARTS)
    if others or restarts or task.restart != "Never" or least >= task.replicas:
        return
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


def write_cleanup(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write what happens after training: the time to live, and which pods are stopped."""
    ttl = builder.spec.get("ttlSecondsAfterFinished")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), ttl)
    policies = [task.policy_for("TaskCompleted") for task in tasks]
    sources = [policy.source for policy in policies if policy and policy.action == "CompleteJob"]
    if builder.spec.get("minSuccess"):
        sources.append(builder.spec.get("minSuccess"))
    if sources and len(tasks) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), sources[0], "Running")
