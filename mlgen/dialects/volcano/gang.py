"""Which roles of a Volcano job start again together: RestartJob and RestartTask.

Source: volcano-sh/volcano, pkg/controllers/job/state/running.go and job_controller_actions.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.policies import RESTARTS, TOGETHER, Policy
from mlgen.dialects.volcano.scheduling import min_available
from mlgen.dialects.volcano.tasks import Task


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
