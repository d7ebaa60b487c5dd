"""Which Jobs decide: `successPolicy` of a JobSet, and of its Jobs.

Sources: kubernetes-sigs/jobset, pkg/controllers/success_policy.go and failure_policy.go.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, require_names
from mlgen.dialects.jobset.startup import completed_before


def write_success_policy(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write the deciding roles, how many pods must succeed, and the cleanup of the rest."""
    policy = builder.spec.get("successPolicy")
    targets = policy.get("targetReplicatedJobs")
    require_names(builder, targets.items(), replicated_jobs)
    source = targets or policy or builder.spec.get("replicatedJobs")
    candidates = [
        replicated
        for replicated in replicated_jobs
        if replicated.has_pods and (not targets.value or replicated.name in targets.value)
    ]
    if not candidates:
        if not builder.collector.has_errors:
            hint = "write replicas and completions of at least 1"
            builder.refuse(source, "none of these Jobs has a pod", hint)
        return
    is_any = policy.get("operator").value == "Any"
    completed = frozenset[str]().union(
        *[completed_before(builder, candidate, replicated_jobs) for candidate in candidates]
    )
    if not is_any:
        candidates = [candidate for candidate in candidates if candidate.name not in completed]
    roles = [role for replicated in candidates for role in replicated.roles]
    if roles[1:]:
        builder.put(("spec", "successPolicy", "roles"), source, roles)
        if is_any:
            _write_any(builder, policy)
    elif _job_count(replicated_jobs) > 1:
        builder.put(("spec", "successPolicy", "role"), source, roles[0])
        _refuse_later_jobs(builder, replicated_jobs, candidates[0])
    _write_success_count(builder, replicated_jobs, None if roles[1:] else candidates[0])
    if _job_count(replicated_jobs, completed) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), source, "Running")


def _write_any(builder: Builder, policy: SourceValue) -> None:
    """Write that one Job is enough; report that the others may fail."""
    operator = policy.get("operator")
    builder.put(("spec", "successPolicy", "operator"), operator)
    message = (
        "JobSet fails with the first Job that fails; here the job fails when all of these have"
    )
    builder.differs(operator, message, "target one replicated Job with replicas: 1")


def _refuse_later_jobs(
    builder: Builder, replicated_jobs: list[ReplicatedJob], decider: ReplicatedJob
) -> None:
    """Report Jobs that wait until the set has completed."""
    for replicated in replicated_jobs:
        for dependency in replicated.source.get("dependsOn").items():
            waits = dependency.value == {"name": decider.name, "status": "Complete"}
            if waits and replicated.has_pods:
                message = f"when {decider.name} has completed, so has the set"
                hint = f"add {replicated.name} to targetReplicatedJobs of successPolicy"
                builder.refuse(dependency, f"{message}: {replicated.name} never starts", hint)


def _job_count(replicated_jobs: list[ReplicatedJob], without: frozenset[str] = frozenset()) -> int:
    """Return the number of Jobs, without those of some replicated Jobs."""
    return sum(other.job_count for other in replicated_jobs if other.name not in without)


def _write_success_count(
    builder: Builder, replicated_jobs: list[ReplicatedJob], decider: ReplicatedJob | None
) -> None:
    """Write the number of pods that must succeed, from the successPolicy of the deciding Job.

    `decider` is None if several Jobs decide: then each policy is reported.
    """
    for replicated in replicated_jobs:
        rules = replicated.spec.get("successPolicy", "rules")
        if not rules:
            continue
        only_rule = rules.value[0] if len(rules.value) == 1 else {}
        indexes, count = only_rule.get("succeededIndexes"), only_rule.get("succeededCount")
        decides = replicated is decider
        if decides and indexes == "0" and count in (None, 1):
            builder.put(("spec", "successPolicy", "replicas"), rules, "First")
        elif decides and count is not None and "succeededIndexes" not in only_rule:
            builder.put(("spec", "successPolicy", "replicas"), rules, count)
        else:
            message = f"here {replicated.name} completes only when all of its pods have succeeded"
            hint = "write one rule with succeededIndexes: '0' or with succeededCount"
            if not decides:
                hint = "delete the Job when these pods have succeeded"
            builder.differs(rules, message, hint)
