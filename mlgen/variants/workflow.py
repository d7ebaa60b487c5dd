"""Adapts jobs for an Argo workflow that restarts them and cleans up, instead of their own objects.

The replicas of a job depend on each other. A workflow that watches all of them can therefore
restart the whole job as a gang, after any failure, unless the job file has other rules.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mlgen.jobfile.model import TrainingJob, written
from mlgen.problems import Problem
from mlgen.topology import Role, Topology
from mlgen.variants import Target, conflict

OWN_LIMIT_HINT = "remove it to let the workflow restart the job, up to runPolicy.backoffLimit times"
ON_FAILURE_HINT = "remove it to let the workflow restart the job, after any failure"
EXIT_CODE_HINT = "write restartPolicy: ExitCode to let the workflow alone restart the job"


class Workflow(Target):
    """A workflow of Argo Workflows."""

    def job(self, job: TrainingJob) -> TrainingJob:
        """Return the job without the policies that the workflow implements.

        cleanPodPolicy is kept, because it also controls whether replica 0 ends the other replicas.
        """
        policy = job.run_policy._replace(ttl_seconds_after_finished=None, suspend=False)
        return job._replace(run_policy=policy, workflow=True)

    def topology(self, topology: Topology, job: TrainingJob, spec: Mapping[str, Any]) -> Topology:
        """Return the topology in which roles that the workflow restarts have the policy Workflow.

        If a replica of such a role fails, the role fails. Fields that conflict with the workflow
        are reported as warnings.
        """
        roles = [
            replace(role, restart="Workflow") if _restarted_by_workflow(role) else role
            for role in topology.roles
        ]
        problems = (
            *topology.problems,
            *_conflicting_restarts(topology),
            *_ignored_policies(topology),
        )
        policy = topology.job.run_policy._replace(**UNUSED)
        job = topology.job._replace(run_policy=policy)
        return topology._replace(job=job, roles=tuple(roles), problems=problems)


def _own_limit(role: Role) -> str | None:
    """Return the field with which the role limits restarts of its own replicas, if any.

    A limit of 0 is equivalent to restartPolicy Never.
    """
    limit = role.spec.backoff_limit
    if limit or (limit == 0 and role.restart != "Never"):
        return "backoffLimit"
    return None if role.spec.backoff_limit_per_index is None else "backoffLimitPerIndex"


def _can_fail_job(role: Role) -> bool:
    """True if the job cannot continue without a replica of the role.

    With backoffLimitPerIndex 0, a replica that fails stays failed, and the others continue. The
    deciding Job still fails at its end.
    """
    alone = role.restart == "Never" and role.spec.backoff_limit_per_index == 0
    return not (role.always_restarts or role.tolerates_failure or (alone and not role.decides))


def _restarted_by_workflow(role: Role) -> bool:
    """True if only the workflow can restart a failed replica of the role."""
    never_restarts = role.restart in ("Never", "ExitCode") and not _own_limit(role)
    return _can_fail_job(role) and never_restarts


def _conflicting_restarts(topology: Topology) -> Iterator[Problem]:
    """Return warnings about fields of roles that conflict with the workflow's restarts."""
    limit = topology.job.run_policy.retries
    for role in filter(_can_fail_job, topology.roles):
        name, own_limit = role.spec.name, _own_limit(role)
        if own_limit or role.restart == "OnFailure":
            hint = ON_FAILURE_HINT if role.spec.restart_policy else EXIT_CODE_HINT
            yield conflict(
                ("roles", name, own_limit or "restartPolicy"),
                f"replicas of {name} restart by themselves first; the workflow restarts the whole"
                " job only when their limit is reached",
                OWN_LIMIT_HINT if own_limit else hint,
            )
        elif role.spec.restart_policy == "Never" and limit:
            yield conflict(
                ("roles", name, "restartPolicy"),
                f"the workflow still restarts the whole job, up to {limit} times, if a container of"
                f" {name} is killed",
                "write runPolicy.backoffLimit: 0 to restart it only after disruptions",
            )


def _ignored_policies(topology: Topology) -> Iterator[Problem]:
    """Return warnings about policies of the supervisor that a workflow does not implement."""
    policy = topology.job.run_policy
    if isinstance(policy.restart_scope, tuple):
        message = f"the workflow restarts all roles, not only {', '.join(policy.restart_scope)}"
        yield conflict(("runPolicy", "restartScope"), message, "write restartScope: All")
    fields = written(policy)
    for name, (why, hint) in IGNORED.items():
        if fields.get(name) not in (None, "Never"):
            yield conflict(("runPolicy", name), f"ignored, because {why}", hint)


IGNORED = {
    "avoidNodes": ("each attempt of the workflow creates the same Jobs", "remove it"),
    "forceDeleteAfterSeconds": ("a workflow step may not delete pods", "remove it"),
    "restartMode": ("each attempt of the workflow creates new pods", "remove it"),
    "metricsPort": (
        "a workflow step does not serve metrics",
        "use the metrics of Argo's controller",
    ),
    "networkPolicy": ("a workflow step serves no port", "remove it"),
    "progress": (
        "a workflow step does not receive reports of progress",
        "let the program exit if it makes no progress; the workflow then restarts it",
    ),
}
"""Fields of `runPolicy` that a workflow ignores: why, and the hint."""

UNUSED: dict[str, Any] = {
    "avoid_nodes": None,
    "force_delete_after_seconds": None,
    "restart_mode": "Recreate",
    "metrics_port": None,
    "network_policy": None,
    "progress": None,
    "keep_last_log": False,  # the Role of the step is the same for all jobs
}
"""The policies that a step does not have, so its program omits their modules."""
