"""The `podFailurePolicy` of a Job: what each exit code of the main container means.

Source of the rules:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob

EXIT_CODES = frozenset(range(1, 256))
"""The exit codes of a container that has failed."""

DISRUPTED = "DisruptionTarget"
"""The condition of a pod that is drained, preempted or evicted."""


def codes_by_action(replicated: ReplicatedJob) -> dict[str, frozenset[int]]:
    """Return the exit codes of the main container by the action on them.

    The first rule that matches an exit code determines its action; without one, it is Count.
    """
    codes: dict[str, frozenset[int]] = {}
    unmatched = EXIT_CODES
    for rule in replicated.pod_failure_rules.items():
        action, matched = rule.value["action"], unmatched & matched_codes(replicated, rule)
        codes[action] = codes.get(action, frozenset()) | matched
        unmatched -= matched
    return codes | {"Count": codes.get("Count", frozenset()) | unmatched}


def fails_on_disruption(replicated: ReplicatedJob) -> bool:
    """Return whether a pod that is drained or preempted fails the Job at once."""
    for rule in replicated.pod_failure_rules.items():
        for condition in rule.get("onPodConditions").items():
            if condition.value["type"] == DISRUPTED:
                return bool(rule.value["action"] == "FailJob")
    return False


def matched_codes(replicated: ReplicatedJob, rule: SourceValue) -> frozenset[int]:
    """Return the exit codes of the main container that a rule matches."""
    on_codes = rule.get("onExitCodes")
    main = replicated.main_container.value["name"]
    if not on_codes or on_codes.get("containerName").value not in (None, main):
        return frozenset()
    values, is_in = set(on_codes.value["values"]), on_codes.value["operator"] == "In"
    return frozenset(code for code in EXIT_CODES if (code in values) == is_in)
