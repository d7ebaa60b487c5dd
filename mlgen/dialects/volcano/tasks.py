"""The tasks of a Volcano job, with Volcano's defaults.

Source of the defaults: volcano-sh/volcano, pkg/webhooks/admission/jobs/mutate.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.policies import ALL_CODES, Policy, parse_policies


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: in the Volcano job.
        role: its name in the TrainingJob.
        source: where it is written.
        replicas: 0 if the field is missing.
        restart: the restart policy of its pods, written or by default. With Always and OnFailure,
            the kubelet restarts their containers in place, and Volcano does not see a failed pod.
        policies: its own, then those of the job.
    """

    name: str
    role: str
    source: SourceValue
    replicas: int
    restart: str
    policies: tuple[Policy, ...] = ()

    @property
    def dependencies(self) -> list[SourceValue]:
        """The names of the tasks in `dependsOn`."""
        return list(self.source.get("dependsOn", "name").items())

    def policy_for(self, event: str) -> Policy | None:
        """Return the policy that applies to an event: the first one that matches."""
        return next((policy for policy in self.policies if event in policy.events), None)

    def policies_by_code(self) -> dict[int, Policy]:
        """Return, by exit code of a failed pod, the policy that applies to it.

        Empty if the pods restart their own containers: they never fail with an exit code.
        """
        policies: dict[int, Policy] = {}
        for policy in self.policies if self.restart == "Never" else ():
            every_code = "PodFailed" in policy.events
            for code in ALL_CODES if every_code else (policy.exit_code or 0,):
                if code in ALL_CODES:
                    policies.setdefault(code, policy)
        return policies

    @property
    def completion_policy(self) -> Policy | None:
        """The task's own policy, not one of the job, that completes the job when it completes."""
        policy = self.policy_for("TaskCompleted")
        own_path = self.source.get("policies").path
        if policy and policy.action == "CompleteJob":
            return policy if policy.source.path[: len(own_path)] == own_path else None
        return None


def parse_tasks(builder: Builder) -> Iterator[Task]:
    """Return the tasks of the job, in order; their roles have the same names at first."""
    job_policies = tuple(parse_policies(builder.spec.get("policies")))
    for i, source in enumerate(builder.spec.get("tasks").items()):
        name = source.get("name").value or f"default{i}"
        restart = source.get("template", "spec", "restartPolicy").value or "Always"
        own_policies = tuple(parse_policies(source.get("policies")))
        replicas = source.get("replicas").value or 0
        yield Task(name, name, source, replicas, restart, (*own_policies, *job_policies))
