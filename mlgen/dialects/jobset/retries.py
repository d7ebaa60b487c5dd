"""How a role restarts its pods: by its limits and exit codes, or together with others.

A podFailurePolicy becomes a restart policy of the role if it tells by exit code which failures are
permanent; everything else in it is reported.
"""

from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.exit_codes import (
    DISRUPTED,
    EXIT_CODES,
    codes_by_action,
    matched_codes,
)
from mlgen.dialects.jobset.failure_policy import DEFAULT_BACKOFF_LIMIT, FAIL
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob
from mlgen.dialects.jobset.restarts import Restarts
from mlgen.jobfile.model import PERMANENT_EXIT_CODES

LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
"""Fields of a Job that a role has under the same names."""

NEEDS_NEVER = ("podFailurePolicy", "backoffLimitPerIndex")
"""Fields of a Job that Kubernetes accepts only with restartPolicy Never."""

RoleFields = dict[str, tuple[SourceValue, Any]]
"""Fields of a role: for each, its source, and the value to write."""


def retry_fields(builder: Builder, replicated: ReplicatedJob, restarts: Restarts) -> RoleFields:
    """Return the restart policy, the number of replicas and the limits of each role."""
    spec, source = replicated.spec, replicated.pod_template.get("spec", "restartPolicy")
    restart_policy = source.value or "OnFailure"
    fields: RoleFields = {"restartPolicy": (source, restart_policy)}
    pod_count = spec.get("completions") or spec.get("parallelism")
    if pod_count:
        fields["replicas"] = (pod_count, replicated.pod_count)
    fields["activeDeadlineSeconds"] = (spec.get("activeDeadlineSeconds"), None)
    if restart_policy != "Never":
        _refuse_restarts(builder, spec, source, restart_policy)
    _check_rules(builder, replicated, restarts)
    if restarts.restarts_all(replicated):
        fields |= _gang_fields(builder, replicated, restarts)
        _check_replacement(builder, spec.get("podReplacementPolicy"), "Never")
        return fields
    if replicated.name in restarts.alone:
        fields["restartScope"] = (restarts.policy.source, "Replica")
    for name in LIMITS:
        fields[name] = (spec.get(name), None)
    fields |= _own_fields(replicated, restarts, restart_policy)
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


def _gang_fields(builder: Builder, replicated: ReplicatedJob, restarts: Restarts) -> RoleFields:
    """Return the restart policy of a role whose failures restart all Jobs."""
    failures = restarts.policy.failures(replicated)
    retried = {code for each in failures if each.limit for code in each.codes}
    source = replicated.pod_failure_rules or failures[0].source
    if not retried:
        return {"restartPolicy": (source, "Never")}
    builder.always_restarted(source, retried)
    return _restart_fields(source, EXIT_CODES - retried) or {"restartPolicy": (source, "OnFailure")}


def _own_fields(replicated: ReplicatedJob, restarts: Restarts, restart_policy: str) -> RoleFields:
    """Return the limit and the exit codes of a role whose pods are replaced one by one."""
    if replicated.is_per_index:
        codes = codes_by_action(replicated)
        permanent = codes.get("FailJob", frozenset()) | codes.get("FailIndex", frozenset())
        limit = replicated.spec.get("backoffLimitPerIndex").value
        return _permanent_fields(replicated, permanent, "backoffLimitPerIndex") if limit else {}
    failures = [each for each in restarts.policy.failures(replicated) if each.codes]
    last = max(failures, key=lambda failure: failure.limit)
    written = replicated.spec.get("backoffLimit")
    fields: RoleFields = {"backoffLimit": (written, None)}
    if last.action != FAIL:
        fields["backoffLimit"] = (last.source, last.limit)
    elif not written and (restart_policy == "Never" or restarts.gang):
        fields["backoffLimit"] = (written, DEFAULT_BACKOFF_LIMIT)
    permanent = frozenset().union(*[each.codes for each in failures if not each.limit])
    return fields | _permanent_fields(replicated, permanent, "backoffLimit")


def _permanent_fields(
    replicated: ReplicatedJob, permanent: frozenset[int], limit: str
) -> RoleFields:
    """Return the fields of a role that is not retried after these exit codes."""
    rules = replicated.pod_failure_rules
    if not rules or not permanent:
        return {}
    if permanent == EXIT_CODES:
        return {limit: (rules, 0)}
    return _restart_fields(rules, permanent)


def _restart_fields(source: SourceValue, permanent: frozenset[int]) -> RoleFields:
    """Return the restart policy ExitCode, if there are permanent exit codes."""
    if not permanent:
        return {}
    fields: RoleFields = {"restartPolicy": (source, "ExitCode")}
    if permanent != PERMANENT_EXIT_CODES:
        fields["retryableExitCodes"] = (source, sorted(EXIT_CODES - permanent))
    return fields


def _check_rules(builder: Builder, replicated: ReplicatedJob, restarts: Restarts) -> None:
    """Report the rules of a podFailurePolicy that work differently."""
    for rule in replicated.pod_failure_rules.items():
        action = rule.get("action")
        _check_conditions(builder, rule, replicated, restarts)
        _check_container(builder, replicated, rule.get("onExitCodes"))
        if matched_codes(replicated, rule) and action.value == "Ignore":
            message = "JobSet does not count these failures; here they"
            if restarts.restarts_all(replicated):
                builder.differs(action, f"{message} restart all Jobs", "increase maxRestarts")
            else:
                message = f"{message} count against backoffLimit"
                builder.differs(action, message, "increase backoffLimit")
        if action.value == "FailJob" and replicated.is_per_index:
            message = "here, with backoffLimitPerIndex, FailJob fails only the index"
            builder.differs(action, message, "write maxFailedIndexes: 0")


def _check_container(builder: Builder, replicated: ReplicatedJob, rule: SourceValue) -> None:
    """Report a rule on the exit codes of other containers than the main one."""
    main, container = replicated.main_container.value["name"], rule.get("containerName").value
    several = len(replicated.pod_template.value["spec"]["containers"]) > 1
    if rule and (container not in (None, main) or (not container and several)):
        message = f"here only the exit codes of the container {main} count"
        builder.differs(rule, message, f"write containerName: {main}")


def _check_conditions(
    builder: Builder, rule: SourceValue, replicated: ReplicatedJob, restarts: Restarts
) -> None:
    """Report pod conditions; a disrupted pod never counts, and no other condition is evaluated."""
    ignored, in_gang = rule.value["action"] == "Ignore", replicated.name in restarts.gang
    fails = restarts.policy.action(replicated, "PodFailurePolicy")[0] == FAIL
    for condition in rule.get("onPodConditions").items():
        if condition.value["type"] != DISRUPTED:
            message = f"here the pod condition {condition.value['type']} does not matter"
            if ignored:
                message += ", so these failures count against backoffLimit"
            builder.differs(condition, message, "remove the rule")
        elif ignored and in_gang:
            message = "JobSet replaces a drained or preempted pod alone; here all Jobs restart"
            builder.differs(condition, message, "remove the rule")
        elif not ignored and (fails or not in_gang):
            message = "here a drained or preempted pod is replaced, and does not count as a failure"
            builder.differs(condition, message, "remove the rule")
