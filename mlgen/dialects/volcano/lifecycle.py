"""How the roles of a Volcano job restart, succeed and end, and what is different from Volcano.

Source: volcano-sh/volcano, pkg/controllers/job/job_controller_util.go, job_controller_actions.go
and state/running.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlgen.dialects._builder import ENDLESS, Builder, SourceValue
from mlgen.dialects.volcano.tasks import (
    ACTIONS,
    ALL_CODES,
    DECIDING_TASKS,
    ENDS,
    EVENTS,
    FRAMEWORK_ROLES,
    JOB_EVENTS,
    RESTARTS,
    TOGETHER,
    Deciders,
    Policy,
    Task,
    min_available,
    parse_policies,
)


@dataclass(frozen=True)
class Gang:
    """The roles that start again together.

    Attributes:
        tasks: those with replicas.
        action: RestartJob or RestartTask; "" if no roles start again together.
        role: the role of RestartTask.
        source: the policy that asks for it.
    """

    tasks: Sequence[Task]
    action: str = ""
    role: str = ""
    source: SourceValue = field(default_factory=lambda: SourceValue(None))

    def __contains__(self, task: Task) -> bool:
        return self.action == "RestartJob" or (bool(self.action) and task.role == self.role)

    def does(self, action: str, task: Task) -> bool:
        """True if an action on a task starts again exactly the roles of the gang."""
        return task in self and action == self.action

    def starts_again(self, policy: Policy | None, task: Task) -> bool:
        """True if the gang starts again when a policy restarts several pods because of a task."""
        together = policy and effective_action(policy.action, task, self.tasks) in TOGETHER
        return task in self and bool(together)


def gang_of(builder: Builder, tasks: Sequence[Task]) -> Gang:
    """Return the gang of a job: all roles after RestartJob, else the first with RestartTask.

    A Job that Kueue manages is suspended by Kueue alone, and replicas of a Job that may fail are
    not restarted: these have no gang.

    Args:
        builder: has the scheduling.
        tasks: those with replicas.
    """
    kueue = builder.data["spec"].get("scheduling", {}).get("gang") == "kueue"
    if kueue or tolerates_failures(builder, tasks):
        return Gang(tasks)
    wanted: dict[str, Gang] = {}
    for task in tasks:
        # A pod that restarts its containers in place fails only if it is evicted by the kubelet.
        events = ("PodEvicted",) if task.restart == "Never" else ("PodEvicted", "PodFailed")
        policies = [*map(task.policy_for, events), *task.policies_by_code().values()]
        for policy in policies:
            action = effective_action(policy.action, task, tasks) if policy else ""
            if policy and action in ("RestartJob", "RestartTask"):
                wanted.setdefault(action, Gang(tasks, action, task.role, policy.source))
    return wanted.get("RestartJob") or wanted.get("RestartTask") or Gang(tasks)


def effective_action(action: str, task: Task, tasks: Sequence[Task]) -> str:
    """Return the action; RestartPod if it restarts several pods and there is only one."""
    pods = sum(other.replicas for other in tasks)
    only_pod = pods == 1 if action == "RestartJob" else task.replicas == 1
    return "RestartPod" if only_pod and action in RESTARTS else action


def tolerates_failures(builder: Builder, tasks: Sequence[Task]) -> bool:
    """True if the job has one task, some of whose replicas may fail: `minAvailable` is lower."""
    task, *others = tasks
    restarts = task.policy_for("PodFailed") or any(
        policy.action in RESTARTS for policy in task.policies_by_code().values()
    )
    fixed = others or restarts or task.restart != "Never" or builder.spec.get("minSuccess")
    return not fixed and min_available(builder.spec, tasks) < task.replicas


def write_gang(builder: Builder, gang: Gang) -> None:
    """Write `restartScope`."""
    if gang.action:
        scope = "All" if gang.action == "RestartJob" else [gang.role]
        builder.restart_together(gang.source, scope)


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
        message = f"Volcano completes the job when {decider.role} completes"
        hint = f"move this policy to the task {default.name}"
        builder.differs(source, f"{message}; mlgen when {default.role} does", hint)
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
        message = "Volcano counts successful pods of all tasks; mlgen counts those of"
        builder.differs(min_success, f"{message} {decider.role} only")
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


EXIT_CODE = ""
"""Stands for the event of a policy that is for an exit code."""

BOUND = "set a bound: --set spec.runPolicy.giveUpAfter.pendingSeconds=3600"
CRASHES = "set a bound: --set spec.runPolicy.giveUpAfter.crashes=5"
SCOPE = "to restart all pods of the job together, pass --set spec.runPolicy.restartScope=All"
WORKFLOW = "to restart all replicas together, run the job in a workflow: mlgen argo"
NEVER = "to restart them after each failure, write restartPolicy: Never and event: PodFailed"
CLEAN = "to stop them, pass --set spec.runPolicy.cleanPodPolicy=Running"


def report_differences(
    builder: Builder, tasks: Sequence[Task], deciders: Deciders, gang: Gang
) -> None:
    """Warn about each policy that has another effect in the rendered job, or an earlier one.

    Args:
        builder: gets the warnings.
        tasks: those with replicas.
        deciders: those that decide.
        gang: those that start again together.
    """
    lifecycle = _Lifecycle(builder, tasks, deciders, gang)
    policies = [
        *parse_policies(builder.spec.get("policies")),
        *(policy for task in tasks for policy in parse_policies(task.source.get("policies"))),
    ]
    for policy in policies:
        differences = lifecycle.differences(policy)
        timeout = policy.source.get("timeout")
        if differences:
            lifecycle.report(policy, differences)
        elif timeout and set(policy.events) - {"PodPending"}:
            action = ACTIONS[policy.action]
            message = f"Volcano {action} after {timeout.value}; mlgen acts immediately"
            builder.differs(timeout, message)


@dataclass(frozen=True)
class _Lifecycle:
    """The running tasks of a job, those that decide, and those that start again together."""

    builder: Builder
    tasks: Sequence[Task]
    deciders: Deciders
    gang: Gang

    def differences(self, policy: Policy) -> list[tuple[str, Task]]:
        """Return the events after which something else happens.

        Returns:
            Each event with the first task that it concerns; `EXIT_CODE` for an exit code.
        """
        task_of: dict[str, Task] = {}
        for task in self.tasks:
            for event in policy.events:
                applies = event in JOB_EVENTS or task.policy_for(event) == policy
                if applies and not self._has_same_effect(policy, event, task):
                    task_of.setdefault(event, task)
            code = policy.exit_code
            applies = code is not None and task.policies_by_code().get(code) == policy
            if applies and not self._has_same_effect(policy, EXIT_CODE, task):
                task_of.setdefault(EXIT_CODE, task)
        return list(task_of.items())

    def _has_same_effect(self, policy: Policy, event: str, task: Task) -> bool:
        """True if the rendered job has the same reaction, or if Volcano has none either."""
        action = effective_action(policy.action, task, self.tasks)
        ends = action in ENDS
        if event == "TaskFailed":
            # Volcano counts restarts of containers, which there are none of with Never.
            return task.restart == "Never" or (ends and self._counts_restarts(task))
        if event in ("TaskCompleted", "PodPending", *JOB_EVENTS):
            completes = event == "TaskCompleted" and action == "CompleteJob"
            gives_up = event == "PodPending" and ends and pending_bound(self.tasks) is not None
            return gives_up or (completes and task in self.deciders.tasks)
        if action == "RestartPod":
            return not self._restarts_together(event, task)
        if action in TOGETHER:
            return self.gang.does(action, task)
        fails = task.restart == "Never" and event != "PodEvicted"
        return ends and fails and self._stops_others(task)

    def _counts_restarts(self, task: Task) -> bool:
        """True if too many restarts of containers end the job."""
        if task.restart == "Always":
            return crash_bound(self.tasks) == crash_bound([task])
        return self._stops_others(task)

    def _stops_others(self, task: Task) -> bool:
        """True if nothing runs on when a role has failed.

        If mlgen guesses when the job ends, it stops nothing then.
        """
        guessed = self.deciders.guessed and not self.builder.spec.get("minSuccess")
        return not self._is_excused(task) and not guessed

    def _is_excused(self, task: Task) -> bool:
        """True if the job goes on when a role has failed, because another may complete it."""
        others = len(self.deciders.tasks) > 1
        return others and self.deciders.any_of_them and task in self.deciders.tasks

    def _restarts_together(self, event: str, task: Task) -> bool:
        """True if a pod of a task is not restarted alone: after an event, or a failure."""
        if event == "PodEvicted" or task.restart != "Never":
            return task in self.gang
        policies = task.policies_by_code().values()
        return any(self.gang.starts_again(policy, task) for policy in policies)

    def report(self, policy: Policy, differences: Sequence[tuple[str, Task]]) -> None:
        """Warn about a policy; what happens instead is described for the first event."""
        events = [
            EVENTS.get(event, f"a pod exits with code {policy.exit_code}")
            for event, _ in differences
        ]
        # `*` matches all events, but PodPending only with a timeout.
        when = f"when {' or '.join(events)}" if len(events) < len(EVENTS) - 1 else "on any event"
        event, task = differences[0]
        instead, hint = self._instead(policy.action, event, task)
        message = f"Volcano {ACTIONS[policy.action]} {when}; {instead}"
        self.builder.differs(policy.source, message, hint)

    def _instead(self, action: str, event: str, task: Task) -> tuple[str, str]:
        """Return what happens in the rendered job, and a hint."""
        if event in ("PodPending", "TaskCompleted", *JOB_EVENTS):
            return self._instead_of_event(action, event)
        counts_restarts = event == "TaskFailed" and task.restart == "OnFailure"
        fails = counts_restarts or (event != "PodEvicted" and task.restart == "Never")
        if action in ENDS and fails:
            return self._instead_of_end(task)
        if event == "TaskFailed" and task.restart == "Always":
            return "Kubernetes keeps restarting them", CRASHES if action in ENDS else ""
        if counts_restarts or (fails and action not in RESTARTS):
            return f"in Kubernetes, {task.role} fails", NEVER if action in TOGETHER else ""
        if self._restarts_together(event, task):
            pods = "the job" if self.gang.action == "RestartJob" else task.role
            return f"mlgen restarts all pods of {pods}", ""
        return "Kubernetes replaces only that pod", self._scope_hint(action)

    def _instead_of_event(self, action: str, event: str) -> tuple[str, str]:
        """Return what happens after an event that is no failure, and a hint."""
        if event == "PodPending":
            return "Kubernetes keeps it pending", BOUND
        if event == "TaskCompleted" and action == "CompleteJob":
            return f"mlgen completes it when {' or '.join(self.deciders.roles)} completes", ""
        return "Kubernetes does nothing", ""

    def _instead_of_end(self, task: Task) -> tuple[str, str]:
        """Return what happens when a role has failed and not all pods are stopped, and a hint."""
        if self._is_excused(task):
            others = [role for role in self.deciders.roles if role != task.role]
            return f"mlgen goes on until {' or '.join(others)} completes", ""
        return "mlgen ends it, but its other pods continue", CLEAN

    def _scope_hint(self, action: str) -> str:
        """Return how several pods can be restarted together."""
        gang = self.builder.data["spec"].get("scheduling", {}).get("gang")
        if action not in TOGETHER or tolerates_failures(self.builder, self.tasks):
            return ""
        return WORKFLOW if gang == "kueue" else SCOPE
