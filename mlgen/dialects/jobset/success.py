"""Which Job decides: `successPolicy` of a JobSet, and of its Jobs.

JobSet watches all Jobs that the policy targets; a TrainingJob has one deciding Job. What this
changes is reported. Source: kubernetes-sigs/jobset, pkg/controllers/success_policy.go.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, require_names
from mlgen.dialects.jobset.startup import kubectl_selector


def write_success_policy(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write the deciding role, how many of its pods must succeed, and the cleanup of the rest."""
    policy = builder.spec.get("successPolicy")
    targets = policy.get("targetReplicatedJobs")
    require_names(builder, targets.items(), replicated_jobs)
    source = targets or policy or builder.spec.get("replicatedJobs")
    candidates = [
        replicated
        for replicated in replicated_jobs
        if replicated.job_count
        and replicated.pod_count
        and (not targets.value or replicated.name in targets.value)
    ]
    if not candidates:
        if not builder.collector.has_errors:
            hint = "write replicas and completions of at least 1"
            builder.refuse(source, "none of these Jobs has a pod", hint)
        return
    decider, index = _decider(builder, replicated_jobs, candidates)
    role = decider.roles[index]
    if _job_count(replicated_jobs) > 1:
        builder.put(("spec", "successPolicy", "role"), source, role)
    _write_success_count(builder, replicated_jobs, decider if decider.job_count == 1 else None)
    completed = _completed_before(decider, replicated_jobs)
    if _job_count(candidates, completed) > 1:
        _report_several(builder, source, role, [c for c in candidates if c.name not in completed])
    elif _job_count(replicated_jobs, completed) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), source, "Running")


def _job_count(replicated_jobs: list[ReplicatedJob], without: frozenset[str] = frozenset()) -> int:
    """Return the number of Jobs, without those of some replicated Jobs."""
    return sum(other.job_count for other in replicated_jobs if other.name not in without)


def _report_several(
    builder: Builder, source: SourceValue, role: str, targets: list[ReplicatedJob]
) -> None:
    """Report that several Jobs determine when the JobSet has completed."""
    if builder.spec.get("successPolicy", "operator").value == "Any":
        message = f"the JobSet completes with the first of its Jobs; here {role} decides"
        builder.differs(source, message, "target one replicated Job with replicas: 1")
        return
    roles = [role for target in targets for role in target.roles]
    builder.differs(
        source,
        f"the JobSet completes when all {len(roles)} Jobs have completed; here {role} decides",
        "to wait for all of them, run kubectl wait --for=condition=complete jobs"
        f" -l {kubectl_selector(builder, roles)}",
    )


def _decider(
    builder: Builder, replicated_jobs: list[ReplicatedJob], candidates: list[ReplicatedJob]
) -> tuple[ReplicatedJob, int]:
    """Return the deciding Job as a replicated Job and an index within it.

    It is the Job with the coordinator if that is a candidate, else the first Job. A Job that others
    wait for at startup is a candidate only if there is no other.
    """
    awaited = {
        dependency.value["name"]
        for replicated in replicated_jobs
        for dependency in replicated.source.get("dependsOn").items()
    }
    if builder.spec.get("startupPolicy", "startupPolicyOrder").value == "InOrder":
        awaited = {replicated.name for replicated in replicated_jobs[:-1]}
    preferred = [c for c in candidates if c.name not in awaited] or candidates
    coordinator = builder.spec.get("coordinator")
    index = coordinator.get("jobIndex").value or 0
    name = coordinator.get("replicatedJob").value
    for replicated in preferred:
        if replicated.name == name and index < replicated.job_count:
            return replicated, index
    return preferred[0], 0


def _completed_before(
    replicated: ReplicatedJob, replicated_jobs: list[ReplicatedJob]
) -> frozenset[str]:
    """Return the names of replicated Jobs that JobSet waits to complete before it creates this."""
    completed: frozenset[str] = frozenset()
    for dependency in replicated.source.get("dependsOn").items():
        for other in replicated_jobs:
            if (
                other.name == dependency.value["name"]
                and other.first_index < replicated.first_index
            ):
                completed |= _completed_before(other, replicated_jobs)
                if dependency.value["status"] == "Complete":
                    completed |= {other.name}
    return completed


def _write_success_count(
    builder: Builder, replicated_jobs: list[ReplicatedJob], decider: ReplicatedJob | None
) -> None:
    """Write the number of pods that must succeed, from the successPolicy of the deciding Job.

    `decider` is None if several Jobs of one replicated Job are equal: then each policy is reported.
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
