"""Warnings about Volcano's policies that Kubernetes does not carry out, or not as Volcano does."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlgen.dialects._builder import Builder
from mlgen.dialects.volcano.policies import (
    ACTIONS,
    EVENTS,
    JOB_EVENTS,
    RESTARTS,
    Policy,
    parse_policies,
)
from mlgen.dialects.volcano.tasks import Task

ENDS = ("AbortJob", "TerminateJob")

EXIT_CODE = ""
"""Stands for the event of a policy that is for an exit code."""

WORKFLOW = "to restart all replicas together, run the job in a workflow: mlgen argo"
DEADLINE = "set a deadline: --set spec.runPolicy.activeDeadlineSeconds=3600"


def report_differences(builder: Builder, tasks: Sequence[Task], decider: Task) -> None:
    """Warn about each policy that has another effect in the rendered job, or an earlier one.

    Args:
        builder: gets the warnings.
        tasks: those with replicas.
        decider: the one that decides.
    """
    lifecycle = _Lifecycle(builder, tasks, decider)
    policies = [
        *parse_policies(builder.spec.get("policies")),
        *(policy for task in tasks for policy in parse_policies(task.source.get("policies"))),
    ]
    for policy in policies:
        differences = lifecycle.differences(policy)
        timeout = policy.source.get("timeout")
        if differences:
            lifecycle.report(policy, differences)
        elif timeout and policy.events:
            action = ACTIONS[policy.action]
            message = f"Volcano {action} after {timeout.value}; Kubernetes acts immediately"
            builder.differs(timeout, message)


@dataclass(frozen=True, slots=True)
class _Lifecycle:
    """The running tasks of a job and the one that decides."""

    builder: Builder
    tasks: Sequence[Task]
    decider: Task

    def differences(self, policy: Policy) -> list[tuple[str, Task]]:
        """Return the events after which Kubernetes does something else.

        Returns:
            Each event with the first task that it concerns; `EXIT_CODE` for an exit code.
        """
        task_of: dict[str, Task] = {}
        for task in self.tasks:
            for event in policy.events:
                applies = event in JOB_EVENTS or task.policy_for(event) == policy
                if applies and not self._has_same_effect(policy, event, task):
                    task_of.setdefault(event, task)
            applies = policy in task.exit_code_policies(policy.action).values()
            if applies and not self._has_same_effect(policy, EXIT_CODE, task):
                task_of.setdefault(EXIT_CODE, task)
        return list(task_of.items())

    def _has_same_effect(self, policy: Policy, event: str, task: Task) -> bool:
        """True if Kubernetes has the same reaction, or if Volcano has none either."""
        action, decides = self._effective_action(policy.action, task), task == self.decider
        ends_decider = decides and action in ENDS
        if event == "TaskCompleted":
            return decides and action == "CompleteJob"
        if event == "TaskFailed":
            # Volcano counts restarts of containers, which there are none of with Never.
            return task.restart == "Never" or (ends_decider and task.restart == "OnFailure")
        if event in ("PodPending", *JOB_EVENTS):
            return False
        if action == "RestartPod":
            return True
        stays_failed = task.restart == "Never" and not task.replaces_failed_pods
        return event != "PodEvicted" and ends_decider and stays_failed

    def _effective_action(self, action: str, task: Task) -> str:
        """Return the action; RestartPod if it restarts several pods and there is only one."""
        pods = sum(other.replicas for other in self.tasks)
        only_pod = pods == 1 if action == "RestartJob" else task.replicas == 1
        return "RestartPod" if only_pod and action in RESTARTS else action

    def report(self, policy: Policy, differences: Sequence[tuple[str, Task]]) -> None:
        """Warn about a policy; what Kubernetes does is described for the first event."""
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
        if event == "PodPending":
            return "Kubernetes keeps it pending", DEADLINE
        if event == "TaskCompleted" and action == "CompleteJob":
            return f"mlgen completes it when {self.decider.role} completes", ""
        if event in ("TaskCompleted", *JOB_EVENTS):
            return "Kubernetes does nothing", ""
        hint = WORKFLOW if action in RESTARTS else ""
        counts_restarts = event == "TaskFailed" and task.restart == "OnFailure"
        has_restarts = task.replaces_failed_pods or task.exit_code_policies(*RESTARTS)
        stays_failed = task.restart == "Never" and not has_restarts
        if not counts_restarts and (event == "PodEvicted" or not stays_failed):
            return "Kubernetes replaces only that pod", hint
        if hint or task == self.decider:
            return f"in Kubernetes, {task.role} fails", hint
        command = f"kubectl get jobs -l mlgen.dev/job={self.builder.name}"
        return (
            f"in Kubernetes, {task.role} fails and the other tasks continue",
            f"check the Jobs with {command}",
        )
