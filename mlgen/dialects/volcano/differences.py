"""Warnings about Volcano's policies that are not carried out, or not as Volcano does."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlgen.dialects._builder import Builder
from mlgen.dialects.volcano.gang import Gang, effective_action, tolerates_failures
from mlgen.dialects.volcano.lifecycle import crash_bound, pending_bound
from mlgen.dialects.volcano.policies import (
    ACTIONS,
    ENDS,
    EVENTS,
    JOB_EVENTS,
    RESTARTS,
    TOGETHER,
    Policy,
    parse_policies,
)
from mlgen.dialects.volcano.roles import Deciders
from mlgen.dialects.volcano.tasks import Task

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
