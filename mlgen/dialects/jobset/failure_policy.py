"""`failurePolicy` of a JobSet: what it does when one of its Jobs has failed.

Source: kubernetes-sigs/jobset, pkg/controllers/failure_policy.go.
"""

from dataclasses import dataclass

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.exit_codes import codes_by_action, fails_on_disruption
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, require_names

FAIL, RESTART, RESTART_UNCOUNTED = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
)
RESTART_JOB, RESTART_JOB_UNCOUNTED = "RestartJob", "RestartJobAndIgnoreMaxRestarts"

FORMER_NAMES = {"RecreateJob": RESTART_JOB}

DEFAULT_BACKOFF_LIMIT = 6
"""The default of a Job."""


@dataclass(frozen=True)
class Failure:
    """A way in which the Jobs of a replicated Job fail.

    Attributes:
        action: of the JobSet; a restart that maxRestarts does not allow is FailJobSet.
        source: the rule of the failurePolicy, or the policy itself.
        codes: the exit codes of the main container; () if the Job fails for a disrupted pod.
        retries: how many pods that fail so are replaced before the Job fails.
        max_restarts: of the policy.
    """

    action: str
    source: SourceValue
    codes: frozenset[int]
    retries: int
    max_restarts: int

    @property
    def limit(self) -> int:
        """The number of failed pods of one Job with which the JobSet can still complete."""
        if self.action == FAIL:
            return self.retries
        if self.action in (RESTART_UNCOUNTED, RESTART_JOB_UNCOUNTED):
            return ENDLESS
        return min((self.retries + 1) * (self.max_restarts + 1) - 1, ENDLESS)


@dataclass(frozen=True)
class FailurePolicy:
    """The `failurePolicy`.

    Attributes:
        source: its value, which may not be set.
        rules: the rules that are evaluated.
    """

    source: SourceValue
    rules: tuple[SourceValue, ...]

    @property
    def max_restarts(self) -> int:
        """The number of restarts that may count."""
        return int(self.source.get("maxRestarts").value or 0)

    def failures(self, replicated: ReplicatedJob) -> list[Failure]:
        """Return the ways in which the Jobs of a replicated Job fail because a pod does."""
        limit = replicated.spec.get("backoffLimit").value
        retries = DEFAULT_BACKOFF_LIMIT if limit is None else int(limit)
        codes = codes_by_action(replicated)
        at_once = codes.get("FailJob", frozenset()) | codes.get("FailIndex", frozenset())
        counted = codes["Count"] | codes.get("Ignore", frozenset())
        failures = []
        if at_once or fails_on_disruption(replicated):
            failures.append(self._failure(replicated, "PodFailurePolicy", at_once, 0))
        if counted:
            failure = self._failure(replicated, "BackoffLimitExceeded", counted, retries)
            failures.append(failure)
        return failures

    def _failure(
        self, replicated: ReplicatedJob, reason: str, codes: frozenset[int], retries: int
    ) -> Failure:
        action, source = self.action(replicated, reason)
        return Failure(action, source, codes, retries, self.max_restarts)

    def action(self, replicated: ReplicatedJob, reason: str) -> tuple[str, SourceValue]:
        """Return what the JobSet does when a Job has failed for this reason, and the rule."""
        action, source = (RESTART if self.source else FAIL), self.source
        for rule in self.rules:
            reasons = rule.get("onJobFailureReasons").value
            targets = rule.get("targetReplicatedJobs").value
            if (not reasons or reason in reasons) and (not targets or replicated.name in targets):
                action, source = FORMER_NAMES.get(rule.value["action"], rule.value["action"]), rule
                break
        if action in (RESTART, RESTART_JOB) and not self.max_restarts:
            return FAIL, source
        return action, source


def read_failure_policy(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> FailurePolicy:
    """Return the failurePolicy; report missing names, and what is not evaluated."""
    source = builder.spec.get("failurePolicy")
    rules = []
    for rule in source.get("rules").items():
        require_names(builder, rule.get("targetReplicatedJobs").items(), replicated_jobs)
        patterns = rule.get("onJobFailureMessagePatterns")
        if patterns.value:
            message = "here the messages of failed Jobs are not compared, and the rule is ignored"
            builder.differs(patterns, message, "write onJobFailureReasons")
        else:
            rules.append(rule)
    strategy = source.get("restartStrategy")
    if strategy.value == "InPlaceRestart" and (source.get("maxRestarts").value or rules):
        message = "JobSet restarts the containers in place; here all pods are recreated"
        builder.differs(strategy, message, "remove it")
    return FailurePolicy(source, tuple(rules))
