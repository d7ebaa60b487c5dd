"""Writes how the roles of a Volcano job restart and end, and reports differences from Volcano.

Source: volcano-sh/volcano, pkg/controllers/job/job_controller_util.go, job_controller_actions.go
and state/running.go.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mlgen.dialects._builder import ENDLESS, Field
from mlgen.dialects.volcano.job import (
    ALL_CODES,
    ENDS,
    RESTARTS,
    TABLES,
    TOGETHER,
    Event,
    Gang,
    Job,
    Policy,
    Task,
)

MAX_RETRY = 3
"""The default maxRetry of a job and of a task. 0 counts as missing."""


def write_lifecycle(job: Job) -> None:
    """Write how the roles restart and how the job ends, and report differences from Volcano."""
    job.together = _gang_of(job)
    _write_restarts(job)
    _write_success(job)
    _write_bounds(job)
    _write_cleanup(job)
    _report_differences(job)


def _gang_of(job: Job) -> Gang:
    """Return the gang of a job: all roles for RestartJob, else the first role with RestartTask.

    There is none if some replicas may fail, because these are not restarted.
    """
    if _tolerates_failures(job):
        return Gang()
    gangs: dict[str, Gang] = {}
    for task in job.running:
        # A pod that restarts its containers in place fails only if it is evicted by the kubelet.
        events = ("PodEvicted",) if task.restart == "Never" else ("PodEvicted", "PodFailed")
        for policy in (*map(task.policy_for, events), *task.by_code.values()):
            action = _action(job, policy, task)
            if policy and action in ("RestartJob", "RestartTask"):
                tasks = job.running if action == "RestartJob" else [task]
                gangs.setdefault(action, Gang(tasks, action, policy.source))
    return gangs.get("RestartJob") or gangs.get("RestartTask") or Gang()


def _action(job: Job, policy: Policy | None, task: Task) -> str:
    """Return a policy's action. If it restarts several pods, but there is only one: RestartPod."""
    if policy is None:
        return ""
    of_all = policy.action == "RestartJob"
    pods = sum(other.replicas for other in job.running) if of_all else task.replicas
    return "RestartPod" if pods == 1 and policy.action in RESTARTS else policy.action


def _restarts_gang(job: Job, task: Task) -> bool:
    """True if a task is in the gang, and some exit code restarts several pods."""
    policies = task.by_code.values() if task in job.together.tasks else ()
    return any(_action(job, policy, task) in TOGETHER for policy in policies)


def _tolerates_failures(job: Job) -> bool:
    """True if the job has one task, with a `minAvailable` that lets some of its replicas fail."""
    task, *others = job.running
    by_code = task.by_code.values()
    restarts = task.policy_for("PodFailed") or any(p.action in RESTARTS for p in by_code)
    fixed = others or restarts or task.restart != "Never" or job.spec.get("minSuccess")
    return not fixed and job.min_available < task.replicas


class Restart(NamedTuple):
    """How a failed replica restarts.

    Attributes:
        policy: the restart policy of the role.
        source: the value that sets the limit.
        limit: the maximum number of restarts; None if the gang restarts, or if the replica always
            restarts.
        codes: the exit codes after which ExitCode restarts the replica.
    """

    policy: str
    source: Field
    limit: int | None = None
    codes: Sequence[int] = ()


def _write_restarts(job: Job) -> None:
    """Write restart policies, exit codes and limits of all roles and of the gang.

    A limit that all restarting roles share is written once, in `runPolicy`, unless `runPolicy`
    contains the limit of the gang.
    """
    job_limit = ("runPolicy", "backoffLimit")
    restarts = {task: _restart_of(job, task) for task in job.running}
    limits = {r.limit for r in restarts.values() if r.limit is not None and r.policy != "Never"}
    shared = not job.together.action and len(limits) == 1
    for task, restart in restarts.items():
        path, fails = ("roles", task.role), restart.policy == "Never"
        source = task.pod.get("restartPolicy") or task.source
        job.put((*path, "restartPolicy"), source, restart.policy)
        job.put((*path, "retryableExitCodes"), restart.source, list(restart.codes))
        if task in job.together.tasks and (restart.policy == "Always" or restart.limit is not None):
            job.put((*path, "restartScope"), source, "Replica")
        elif task in job.together.tasks and restart.codes:
            job.always_restarted(restart.source, restart.codes)
        # A role that fails at once needs no limit unless runPolicy has one that applies to it.
        if restart.limit or (restart.limit == 0 and (not fails or job.together.action or shared)):
            target = job_limit if shared and not fails else (*path, "backoffLimit")
            job.put(target, restart.source, restart.limit)
    if job.together.action:
        scope = "All" if job.together.action == "RestartJob" else [job.together.tasks[0].role]
        job.restart_together(job.together.source, scope)
        max_retry = job.spec.get("maxRetry")
        job.put(job_limit, max_retry or job.together.source, max_retry.value or MAX_RETRY)


def _restart_of(job: Job, task: Task) -> Restart:
    """Return how a failed replica of a task restarts.

    A pod that restarts its containers does so without limit, unless there is a policy for
    TaskFailed. Any other failed pod is replaced only if there is a policy for it.
    """
    if task.restart == "Always":
        return Restart("Always", task.source)
    if task.restart == "OnFailure":
        most = _max_restarts(task)
        return Restart("OnFailure", most if most.path else job.spec, most.value)
    by_code, together = task.by_code, _restarts_gang(job, task)
    retried = [code for code in ALL_CODES if code in by_code and by_code[code].action in RESTARTS]
    if not retried:
        return Restart("Never", task.source, None if task in job.together.tasks else 0)
    max_retry = job.spec.get("maxRetry")
    source = max_retry or next(p for p in by_code.values() if p.action in RESTARTS).source
    limit = None if together else max_retry.value or MAX_RETRY
    if len(retried) < len(ALL_CODES):
        return Restart("ExitCode", source, limit, retried)
    return Restart("OnFailure" if together else "Never", source, limit)


def _max_restarts(task: Task) -> Field:
    """Return the limit of in-place container restarts of a task, with its origin if it has one."""
    policy, max_retry = task.policy_for("TaskFailed"), task.source.get("maxRetry")
    if policy is None:
        return Field(ENDLESS)
    limit = max_retry.value or MAX_RETRY
    return Field(ENDLESS if limit < 0 else limit, (max_retry or policy.source).path)


def _write_success(job: Job) -> None:
    """Write the deciding roles, and how many of a role's replicas must succeed."""
    path = ("successPolicy",)
    tasks, decider, least = job.running, job.deciders[0], job.min_available
    policy = decider.completion_policy
    source = policy.source if policy else job.spec.get("tasks")
    # The default deciding roles, the preferred one first.
    roles = TABLES["deciding"].get(job.framework, ())
    defaults = [task for role in roles for task in tasks if task.role == role]
    default = next(iter(defaults), None)
    if len(job.deciders) > 1:
        job.put((*path, "roles"), source, [task.role for task in job.deciders])
        if job.any_decides:
            job.put((*path, "operator"), source, "Any")
    elif job.framework == "pytorch" and default and decider != default:
        job.warn(
            source,
            f"Volcano completes the job when {decider.role} completes; "
            f"mlgen completes it when {default.role} does",
            f"move this policy to the task {default.name}",
        )
    elif len(tasks) > 1 and decider != default:
        job.put((*path, "role"), source, decider.role)
    has_workers = job.framework == "tensorflow" and decider.role == "worker"
    if has_workers and len(job.deciders) == 1 and decider.replicas > 1:
        job.put((*path, "replicas"), source, "All")
    min_success = job.spec.get("minSuccess")
    if min_success and len(tasks) > 1:
        job.warn(
            min_success,
            "Volcano counts successful pods of all tasks; "
            f"mlgen counts only pods of {decider.role}",
        )
    if min_success and (len(tasks) == 1 or min_success.value < decider.replicas):
        job.put((*path, "replicas"), min_success)
    if not min_success and _tolerates_failures(job):
        # The remaining replicas continue. A success policy would stop them as soon as
        # `minAvailable` replicas have succeeded.
        source = job.spec.get("minAvailable") or decider.source.get("minAvailable")
        job.put(("roles", decider.role, "backoffLimitPerIndex"), source, 0)
        most = decider.replicas - least
        job.put(("roles", decider.role, "maxFailedIndexes"), source, most)
        job.warn(
            source,
            f"Volcano completes the job when {least} of {decider.replicas} pods have succeeded, "
            "even if the others fail; with mlgen, a failed replica fails the job",
            f"to complete the job as soon as {least} pods have succeeded, "
            f"pass --set spec.successPolicy.replicas={least}",
        )


def _write_cleanup(job: Job) -> None:
    """Write the TTL of the job, and which pods are stopped after training.

    Volcano stops all pods when a job ends. If mlgen guesses the deciders, the other pods continue.
    """
    ttl, min_success = job.spec.get("ttlSecondsAfterFinished"), job.spec.get("minSuccess")
    job.put(("runPolicy", "ttlSecondsAfterFinished"), ttl)
    decides_all = len(job.deciders) == len(job.running) and not job.any_decides
    if len(job.running) > 1 and (min_success or not (job.is_guess or decides_all)):
        policies = [task.policy_for("TaskCompleted") for task in job.running]
        completing = [p.source for p in policies if p and p.action == "CompleteJob"]
        source = next(iter(completing), min_success or job.spec.get("tasks"))
        job.put(("runPolicy", "cleanPodPolicy"), source, "Running")


def _write_bounds(job: Job) -> None:
    """Write `giveUpAfter`, the limits after which a job that cannot continue ends."""
    path = ("runPolicy", "giveUpAfter")
    pending = _pending_bound(job.running)
    if pending:
        policy = job.running[0].policy_for("PodPending")
        source = policy.source.get("timeout") if policy else job.spec
        job.put((*path, "imagePullSeconds"), source, pending)
        job.put((*path, "pendingSeconds"), source, pending)
    servers = [task for task in job.running if task.restart == "Always"]
    if servers:
        most = _max_restarts(servers[0])
        source = most if most.path else servers[0].source
        job.put((*path, "crashes"), source, _crash_bound(servers))


def _pending_bound(tasks: Sequence[Task]) -> int | None:
    """Return the number of seconds that pods may be pending before the job ends.

    None without such a policy, or if the tasks differ, because the limit applies to all tasks.
    """
    policies = [task.policy_for("PodPending") for task in tasks]
    bounds = {policy.bound if policy else None for policy in policies}
    return bounds.pop() if len(bounds) == 1 else None


def _crash_bound(tasks: Sequence[Task]) -> int:
    """Return how often the containers of tasks that always restart may crash; 0 for no limit.

    The limit applies to all of these tasks. If one task has no limit, the result is 0.
    """
    limits = []
    for task in (task for task in tasks if task.restart == "Always"):
        policy, limit = task.policy_for("TaskFailed"), _max_restarts(task).value
        limits.append(limit if policy and policy.action in ENDS and limit != ENDLESS else 0)
    return 0 if 0 in limits else max(limits)


def _report_differences(job: Job) -> None:
    """Warn about each policy that has another effect in the rendered job, or an earlier one.

    The warning describes the rendered job's reaction to the first of the policy's events.
    """
    events = TABLES["events"]
    policies = {policy.source.path: policy for task in job.running for policy in task.policies}
    for _, policy in sorted(policies.items()):
        differences: dict[Event, Difference] = {}
        for task in job.running:
            for event in policy.events:
                applied = task.policy_for(event) if event in events else task.by_code.get(event)
                if applied is policy or event in OF_THE_JOB:
                    difference = _difference(job, policy, event, task)
                    if difference:
                        differences.setdefault(event, difference)
        timeout, does = policy.source.get("timeout"), TABLES["actions"][policy.action]
        if differences:
            causes = [events.get(event, f"a pod exits with code {event}") for event in differences]
            # `*` matches all events, but PodPending only with a timeout.
            is_any = len(causes) >= len(events) - 1
            when = "on any event" if is_any else f"when {' or '.join(causes)}"
            instead, hint = next(iter(differences.values()))
            job.warn(policy.source, f"Volcano {does} {when}; {instead}", hint)
        elif timeout and events.keys() & set(policy.events) - {"PodPending"}:
            job.warn(timeout, f"Volcano {does} after {timeout.value}; mlgen does so immediately")


OF_THE_JOB = ("Unknown", "JobUpdated")
"""Events of the job as a whole. Policies of a task do not match them."""


Difference = tuple[str, str]
"""What happens in the rendered job instead, and a hint; "" for no hint."""


def _difference(job: Job, policy: Policy, event: Event, task: Task) -> Difference | None:
    """Return the difference if the rendered job reacts differently to an event, else None.

    There is none if Volcano does not react to the event.
    """
    ends, restarts = policy.action in ENDS, policy.action in RESTARTS
    if event == "PodPending":
        hint = "set a limit: --set spec.runPolicy.giveUpAfter.pendingSeconds=3600"
        is_limited = ends and _pending_bound(job.running) is not None
        return None if is_limited else ("Kubernetes keeps it pending", hint)
    if event == "TaskCompleted" and policy.action == "CompleteJob":
        deciders = " or ".join(other.role for other in job.deciders)
        instead = f"mlgen completes it when {deciders} completes"
        return None if task in job.deciders else (instead, "")
    if event in ("TaskCompleted", *OF_THE_JOB):
        return "Kubernetes does nothing", ""
    if event == "TaskFailed" and task.restart != "OnFailure":
        return _after_crashes(job, policy, task)
    fails = event != "PodEvicted" and task.restart == "Never"
    if event == "TaskFailed" or (fails and not restarts):
        return _after_failure(job, policy, task)
    with_gang = _restarts_gang(job, task) if fails else task in job.together.tasks
    return _after_restart(job, policy, task, with_gang=with_gang)


def _after_crashes(job: Job, policy: Policy, task: Task) -> Difference | None:
    """Return the difference after too many container restarts. Never has no such restarts."""
    ends, hint = policy.action in ENDS, "set a limit: --set spec.runPolicy.giveUpAfter.crashes=5"
    if task.restart == "Never" or (ends and _crash_bound(job.running) == _crash_bound([task])):
        return None
    return "Kubernetes keeps restarting them", hint if ends else ""


def _after_failure(job: Job, policy: Policy, task: Task) -> Difference | None:
    """Return the difference after a failed role.

    Another role may complete the job. If mlgen guesses the deciders, other pods then continue.
    """
    if policy.action not in ENDS:
        hint = "to restart them after each failure, write restartPolicy: Never and event: PodFailed"
        return f"in Kubernetes, {task.role} fails", hint if policy.action in TOGETHER else ""
    if job.any_decides and len(job.deciders) > 1 and task in job.deciders:
        others = " or ".join(other.role for other in job.deciders if other is not task)
        return f"mlgen continues until {others} completes", ""
    if job.is_guess and not job.spec.get("minSuccess"):
        hint = "to stop them, pass --set spec.runPolicy.cleanPodPolicy=Running"
        return "mlgen ends it, but its other pods continue", hint
    return None


def _after_restart(job: Job, policy: Policy, task: Task, *, with_gang: bool) -> Difference | None:
    """Return the difference after a pod is replaced, alone or with the gang."""
    action = _action(job, policy, task)
    if task in job.together.tasks and action == job.together.action:
        return None
    if with_gang:
        restarted = "the job" if job.together.action == "RestartJob" else task.role
        return f"mlgen restarts all pods of {restarted}", ""
    if action == "RestartPod":
        return None
    hint = "to restart all pods of the job together, pass --set spec.runPolicy.restartScope=All"
    together = policy.action in TOGETHER and not _tolerates_failures(job)
    return "Kubernetes replaces only that pod", hint if together else ""
