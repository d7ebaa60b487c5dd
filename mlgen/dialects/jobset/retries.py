"""When the pods of a replicated Job are restarted: its limits and its `podFailurePolicy`.

A podFailurePolicy becomes a restart policy of the role if it tells by exit code which failures are
permanent; everything else in it is reported. Source of the rules:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob
from mlgen.jobfile.model import PERMANENT_EXIT_CODES

LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "activeDeadlineSeconds")
"""Fields of a Job that a role has under the same names."""

DEFAULT_BACKOFF_LIMIT = 6
"""The default of a Job."""

EXIT_CODES = frozenset(range(1, 256))
"""The exit codes of a container that has failed."""

NEEDS_NEVER = ("podFailurePolicy", "backoffLimitPerIndex")
"""Fields of a Job that Kubernetes accepts only with restartPolicy Never."""

RoleFields = dict[str, tuple[SourceValue, Any]]
"""Fields of a role: for each, its source, and the value to write."""


def retry_fields(builder: Builder, replicated: ReplicatedJob) -> RoleFields:
    """Return the restart policy, the number of replicas and the limits of each role."""
    spec, source = replicated.spec, replicated.pod_template.get("spec", "restartPolicy")
    restart_policy = source.value or "OnFailure"
    fields: RoleFields = {"restartPolicy": (source, restart_policy)}
    pod_count = spec.get("completions") or spec.get("parallelism")
    if pod_count:
        fields["replicas"] = (pod_count, replicated.pod_count)
    for name in LIMITS:
        fields[name] = (spec.get(name), None)
    if restart_policy == "Never":
        if not spec.get("backoffLimit") and not spec.get("backoffLimitPerIndex"):
            fields["backoffLimit"] = (spec.get("backoffLimit"), DEFAULT_BACKOFF_LIMIT)
        fields |= _exit_code_fields(builder, replicated)
    else:
        _refuse_restarts(builder, spec, source, restart_policy)
    _check_replacement(builder, spec.get("podReplacementPolicy"), restart_policy)
    return fields


def _refuse_restarts(
    builder: Builder, spec: SourceValue, source: SourceValue, restart_policy: str
) -> None:
    """Report what the API server rejects with a restart policy other than Never."""
    if restart_policy == "Always":
        message = "a Job's pods cannot have restartPolicy: Always"
        builder.refuse(source, message, "write OnFailure or Never")
    for name in NEEDS_NEVER:
        if spec.get(name):
            message = f"{name} requires restartPolicy: Never; here it is {restart_policy}"
            hint = "write restartPolicy: Never in the pod template"
            builder.refuse(spec.get(name), message, hint)


def _check_replacement(builder: Builder, policy: SourceValue, restart_policy: str) -> None:
    """Report a podReplacementPolicy that is not the one of the rendered Job."""
    rendered = "Failed" if restart_policy == "Never" else "TerminatingOrFailed"
    if policy and policy.value != rendered:
        message = "here a pod is replaced as soon as it is being deleted"
        if rendered == "Failed":
            message = "here a pod is replaced only after it has terminated"
        builder.differs(policy, message, "remove it")


def _exit_code_fields(builder: Builder, replicated: ReplicatedJob) -> RoleFields:
    """Return the fields of a role for a podFailurePolicy that makes exit codes permanent."""
    permanent = _permanent_exit_codes(builder, replicated)
    rules, spec = replicated.pod_failure_rules, replicated.spec
    limit = "backoffLimitPerIndex" if spec.get("backoffLimitPerIndex") else "backoffLimit"
    if not permanent or spec.get(limit).value == 0:
        return {}
    if permanent == EXIT_CODES:
        return {limit: (rules, 0)}
    fields: RoleFields = {"restartPolicy": (rules, "ExitCode")}
    if permanent != PERMANENT_EXIT_CODES:
        fields["retryableExitCodes"] = (rules, sorted(EXIT_CODES - permanent))
    return fields


def _permanent_exit_codes(builder: Builder, replicated: ReplicatedJob) -> set[int]:
    """Return the exit codes of the main container that fail the Job or its index.

    The first rule that matches an exit code determines the action.
    """
    permanent: set[int] = set()
    unmatched = set(EXIT_CODES)
    per_index = bool(replicated.spec.get("backoffLimitPerIndex"))
    for rule in replicated.pod_failure_rules.items():
        action = rule.get("action")
        _check_conditions(builder, rule)
        codes = unmatched & _matched_exit_codes(builder, replicated, rule.get("onExitCodes"))
        unmatched -= codes
        if action.value in ("FailJob", "FailIndex"):
            permanent |= codes
        if codes and action.value == "Ignore":
            message = "JobSet does not count these failures; here they count against backoffLimit"
            builder.differs(action, message, "increase backoffLimit")
        if action.value == "FailJob" and per_index:
            message = "here, with backoffLimitPerIndex, FailJob fails only the index"
            builder.differs(action, message, "write maxFailedIndexes: 0")
    return permanent


def _matched_exit_codes(builder: Builder, replicated: ReplicatedJob, rule: SourceValue) -> set[int]:
    """Return the exit codes of the main container that a rule's `onExitCodes` matches."""
    if not rule:
        return set()
    main, container = replicated.main_container.value["name"], rule.get("containerName").value
    several = len(replicated.pod_template.value["spec"]["containers"]) > 1
    if container not in (None, main) or (not container and several):
        message = f"here only the exit codes of the container {main} count"
        builder.differs(rule, message, f"write containerName: {main}")
    if container not in (None, main):
        return set()
    values, is_in = set(rule.value["values"]), rule.value["operator"] == "In"
    return {code for code in EXIT_CODES if (code in values) == is_in}


def _check_conditions(builder: Builder, rule: SourceValue) -> None:
    """Report pod conditions; a disrupted pod never counts, and no other condition is evaluated."""
    for condition in rule.get("onPodConditions").items():
        if condition.value["type"] != "DisruptionTarget":
            message = f"here the pod condition {condition.value['type']} does not matter"
            if rule.value["action"] == "Ignore":
                message += ", so these failures count against backoffLimit"
            builder.differs(condition, message, "remove the rule")
        elif rule.value["action"] != "Ignore":
            message = "here a drained or preempted pod is replaced, and does not count as a failure"
            builder.differs(condition, message, "remove the rule")
