"""How the Jobs of a JobSet restart: `failurePolicy`, and the `podFailurePolicy` of each Job.

JobSet restarts all Jobs when one of them has failed, which it does after its own retries. Here a
Job that has failed cannot run again. So a pod restarts all Jobs if its failure would fail its Job
at once. Otherwise it is replaced, as often as JobSet does in all of its restarts. A
podFailurePolicy becomes a restart policy of the role if it tells by exit code which failures are
permanent; everything else in it is reported.

Sources: kubernetes-sigs/jobset, pkg/controllers/failure_policy.go, and
https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import ENDLESS, Builder, SourceValue
from mlgen.dialects.jobset.jobs import ReplicatedJob, completed_before, is_queued, require_names
from mlgen.jobfile.model import PERMANENT_EXIT_CODES
from mlgen.kubernetes.labels import KUEUE_QUEUE

EXIT_CODES = frozenset(range(1, 256))
"""The exit codes of a container that has failed."""

DISRUPTED = "DisruptionTarget"
"""The condition of a pod that is drained, preempted or evicted."""


def codes_by_action(job: ReplicatedJob) -> dict[str, frozenset[int]]:
    """Return the exit codes of the main container by the action on them.

    The first rule that matches an exit code determines its action; without one, it is Count.
    """
    codes: dict[str, frozenset[int]] = {}
    unmatched = EXIT_CODES
    for rule in job.pod_failure_rules.items():
        action, matched = rule.value["action"], unmatched & matched_codes(job, rule)
        codes[action] = codes.get(action, frozenset()) | matched
        unmatched -= matched
    return codes | {"Count": codes.get("Count", frozenset()) | unmatched}


def fails_on_disruption(job: ReplicatedJob) -> bool:
    """Return whether a pod that is drained or preempted fails the Job at once."""
    for rule in job.pod_failure_rules.items():
        for condition in rule.get("onPodConditions").items():
            if condition.value["type"] == DISRUPTED:
                return bool(rule.value["action"] == "FailJob")
    return False


def matched_codes(job: ReplicatedJob, rule: SourceValue) -> frozenset[int]:
    """Return the exit codes of the main container that a rule matches."""
    on_codes = rule.get("onExitCodes")
    main = job.main_container.value["name"]
    if not on_codes or on_codes.get("containerName").value not in (None, main):
        return frozenset()
    values, is_in = set(on_codes.value["values"]), on_codes.value["operator"] == "In"
    return frozenset(code for code in EXIT_CODES if (code in values) == is_in)


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

    def failures(self, job: ReplicatedJob) -> list[Failure]:
        """Return the ways in which the Jobs of a replicated Job fail because a pod does."""
        limit = job.spec.get("backoffLimit").value
        retries = DEFAULT_BACKOFF_LIMIT if limit is None else int(limit)
        codes = codes_by_action(job)
        at_once = codes.get("FailJob", frozenset()) | codes.get("FailIndex", frozenset())
        counted = codes["Count"] | codes.get("Ignore", frozenset())
        failures = []
        if at_once or fails_on_disruption(job):
            failures.append(self._failure(job, "PodFailurePolicy", at_once, 0))
        if counted:
            failure = self._failure(job, "BackoffLimitExceeded", counted, retries)
            failures.append(failure)
        return failures

    def _failure(
        self, job: ReplicatedJob, reason: str, codes: frozenset[int], retries: int
    ) -> Failure:
        action, source = self.action(job, reason)
        return Failure(action, source, codes, retries, self.max_restarts)

    def action(self, job: ReplicatedJob, reason: str) -> tuple[str, SourceValue]:
        """Return what the JobSet does when a Job has failed for this reason, and the rule."""
        action, source = (RESTART if self.source else FAIL), self.source
        for rule in self.rules:
            reasons = rule.get("onJobFailureReasons").value
            targets = rule.get("targetReplicatedJobs").value
            if (not reasons or reason in reasons) and (not targets or job.name in targets):
                action, source = FORMER_NAMES.get(rule.value["action"], rule.value["action"]), rule
                break
        if action in (RESTART, RESTART_JOB) and not self.max_restarts:
            return FAIL, source
        return action, source


def read_failure_policy(builder: Builder, jobs: list[ReplicatedJob]) -> FailurePolicy:
    """Return the failurePolicy; report missing names, and what is not evaluated."""
    source = builder.spec.get("failurePolicy")
    rules = []
    for rule in source.get("rules").items():
        require_names(builder, rule.get("targetReplicatedJobs").items(), jobs)
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


OF_THE_SET, OF_THE_JOB = (RESTART, RESTART_UNCOUNTED), (RESTART_JOB, RESTART_JOB_UNCOUNTED)

ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


@dataclass(frozen=True)
class Restarts:
    """How the Jobs restart here.

    Attributes:
        policy: the failurePolicy.
        steps: the replicated Jobs of one pod that are alone, or that others wait for to complete.
            That pod is replaced, which starts the step again.
        gang: the replicated Jobs whose Jobs restart together; () if none do.
        alone: those of them whose failed pods are replaced one by one; a disrupted pod restarts
            all of the gang.
    """

    policy: FailurePolicy
    steps: tuple[str, ...] = ()
    gang: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    def restarts_all(self, job: ReplicatedJob) -> bool:
        """Return whether a pod of a replicated Job that fails restarts the gang."""
        return job.name in self.gang and job.name not in self.alone


def read_restarts(builder: Builder, jobs: list[ReplicatedJob]) -> Restarts:
    """Return how the Jobs restart; report a policy that Kueue prevents."""
    policy = read_failure_policy(builder, jobs)
    running = [each for each in jobs if each.has_pods]
    peers = {each.name: _peers(builder, each, running) for each in running}
    steps = [each.name for each in running if _is_step(each, peers, running)]
    running = [each for each in running if not each.is_per_index and each.name not in steps]
    gang = _gang(policy, running, peers)
    if gang and is_queued(builder):
        message = "Kueue alone suspends and resumes Jobs, so here a failed pod is replaced alone"
        hint = f"without the label {KUEUE_QUEUE}, all Jobs restart together"
        builder.differs(policy.source, message, hint)
        gang = ()
    alone = [each.name for each in running if each.name in gang and _is_alone(policy, each)]
    return Restarts(policy, tuple(steps), gang, tuple(alone))


def _peers(builder: Builder, job: ReplicatedJob, jobs: list[ReplicatedJob]) -> frozenset[str]:
    """Return the names of the other replicated Jobs that can run at the same time."""
    before = completed_before(builder, job, jobs)
    after = {each.name for each in jobs if job.name in completed_before(builder, each, jobs)}
    return frozenset(each.name for each in jobs) - before - after - {job.name}


def _is_step(
    job: ReplicatedJob, peers: dict[str, frozenset[str]], jobs: list[ReplicatedJob]
) -> bool:
    """Return whether a replicated Job has one pod and is alone, or others wait for it to complete.

    Those that do are neither its peers nor listed before it.
    """
    if job.job_count * job.pod_count > 1:
        return False
    later = {each.name for each in jobs if each.first_index > job.first_index}
    mine = peers[job.name]
    return not mine or not later <= mine


def _gang(
    policy: FailurePolicy, jobs: list[ReplicatedJob], peers: dict[str, frozenset[str]]
) -> tuple[str, ...]:
    """Return the names of the replicated Jobs whose Jobs restart together.

    They are those of which a failed pod restarts all Jobs at once, and those that run meanwhile.
    """
    together = {each.name for each in jobs if _at_once(policy, each, OF_THE_SET)}
    if together:
        return tuple(e.name for e in jobs if e.name in together or peers[e.name] & together)
    alone = [each for each in jobs if _at_once(policy, each, OF_THE_JOB)]
    one = len(alone) == 1 and alone[0].job_count == 1 and alone[0].pod_count > 1
    return (alone[0].name,) if one else ()


def _at_once(policy: FailurePolicy, job: ReplicatedJob, actions: tuple[str, ...]) -> bool:
    """Return whether a pod that fails can fail its Job at once, with one of these actions."""
    failures = policy.failures(job)
    return any(each.action in actions and not each.retries for each in failures)


def _is_alone(policy: FailurePolicy, job: ReplicatedJob) -> bool:
    """Return whether a pod that fails by itself is always replaced first."""
    failures = [each for each in policy.failures(job) if each.codes]
    at_once = any(each.action != FAIL and not each.retries for each in failures)
    return not at_once and any(each.retries for each in failures)


def write_restarts(builder: Builder, jobs: list[ReplicatedJob], restarts: Restarts) -> None:
    """Write `restartScope` and the number of restarts; report what is different from JobSet."""
    policy = restarts.policy
    running = [each for each in jobs if each.has_pods]
    if restarts.gang:
        source = policy.source.get("maxRestarts") if policy.max_restarts else policy.source
        every = all(each.name in restarts.gang for each in jobs if each.job_count)
        roles = [role for r in running if r.name in restarts.gang for role in r.roles]
        builder.restart_together(source, "All" if every else roles)
        failures = [
            f for each in running if restarts.restarts_all(each) for f in policy.failures(each)
        ]
        limit = max((each.limit for each in failures if each.codes), default=0)
        builder.put(("spec", "runPolicy", "backoffLimit"), source, limit)
        _report_uncounted(builder, failures)
    for job in running:
        _report_deadline(builder, policy, job)
        if restarts.gang and ATTEMPT in str(job.pod_template.value):
            message = f"here {ATTEMPT} is always 0"
            builder.differs(job.pod_template, message, "do not refer to it")
        if job.is_per_index:
            _report_per_index(builder, restarts, job)
            continue
        if not restarts.restarts_all(job):
            _report_uncounted(builder, policy.failures(job))
        for failure in policy.failures(job):
            if failure.codes and job.name not in restarts.steps:
                _report_failure(builder, restarts, job, failure)


def _report_uncounted(builder: Builder, failures: list[Failure]) -> None:
    """Report a rule by which only some restarts count."""
    counts = any(0 < each.limit < ENDLESS for each in failures)
    for failure in failures:
        if failure.limit == ENDLESS and failure.codes and counts:
            message = "JobSet limits the restarts after other failures; here there is no limit"
            builder.differs(failure.source, message, "write action: RestartJobSet for a limit")


def _report_deadline(builder: Builder, policy: FailurePolicy, job: ReplicatedJob) -> None:
    """Report a deadline of a Job after which JobSet restarts."""
    deadline = job.spec.get("activeDeadlineSeconds")
    if deadline and policy.action(job, "DeadlineExceeded")[0] != FAIL:
        message = "JobSet restarts after this deadline; here the job fails"
        builder.differs(deadline, message, "remove it")


def _report_per_index(builder: Builder, restarts: Restarts, job: ReplicatedJob) -> None:
    """Report a Job of which each pod has its own retries, and that does not run again."""
    action, source = restarts.policy.action(job, "FailedIndexes")
    if action != FAIL or restarts.gang:
        message = f"JobSet restarts {job.name} too; here, with backoffLimitPerIndex, it"
        builder.differs(source, f"{message} does not run again", "write backoffLimit")


def _report_failure(
    builder: Builder, restarts: Restarts, job: ReplicatedJob, failure: Failure
) -> None:
    """Report a failure after which JobSet restarts more, less or later than here."""
    name, retries, of_the_job = job.name, failure.retries, failure.action in OF_THE_JOB
    limit = "all" if failure.limit == ENDLESS else f"up to {failure.limit}"
    source = job.spec.get("backoffLimit") or job.spec
    hint = "write backoffLimit: 0 to restart all Jobs at each failure"
    if restarts.restarts_all(job):
        if retries:
            message = f"JobSet first replaces {retries} failed pods of {name}"
            builder.differs(source, f"{message}; here each failure restarts all Jobs", hint)
        elif of_the_job and (job.job_count > 1 or restarts.gang != (name,)):
            message = "JobSet restarts only the Job that has failed; here all Jobs restart"
            builder.differs(failure.source, message, "write action: RestartJobSet")
    elif of_the_job and job.pod_count > 1:
        message = f"JobSet recreates all pods of a failed Job; here {limit} failed pods of {name}"
        hint = "write action: RestartJobSet to restart all Jobs"
        builder.differs(failure.source, f"{message} are replaced one by one", hint)
    elif not of_the_job and failure.action != FAIL and retries:
        message = f"JobSet restarts all Jobs when more than {retries} pods of {name} have failed"
        builder.differs(source, f"{message}; here {limit} are replaced one by one", hint)


LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
"""Fields of a Job that a role has under the same names."""

NEEDS_NEVER = ("podFailurePolicy", "backoffLimitPerIndex")
"""Fields of a Job that Kubernetes accepts only with restartPolicy Never."""

RoleFields = dict[str, tuple[SourceValue, Any]]
"""Fields of a role: for each, its source, and the value to write."""


def retry_fields(builder: Builder, job: ReplicatedJob, restarts: Restarts) -> RoleFields:
    """Return the restart policy, the number of replicas and the limits of each role."""
    spec, source = job.spec, job.pod_template.get("spec", "restartPolicy")
    restart_policy = source.value or "OnFailure"
    fields: RoleFields = {"restartPolicy": (source, restart_policy)}
    pod_count = spec.get("completions") or spec.get("parallelism")
    if pod_count:
        fields["replicas"] = (pod_count, job.pod_count)
    fields["activeDeadlineSeconds"] = (spec.get("activeDeadlineSeconds"), None)
    if restart_policy != "Never":
        _refuse_restarts(builder, spec, source, restart_policy)
    _check_rules(builder, job, restarts)
    if restarts.restarts_all(job):
        fields |= _gang_fields(builder, job, restarts)
        _check_replacement(builder, spec.get("podReplacementPolicy"), "Never")
        return fields
    if job.name in restarts.alone:
        fields["restartScope"] = (restarts.policy.source, "Replica")
    for name in LIMITS:
        fields[name] = (spec.get(name), None)
    fields |= _own_fields(job, restarts, restart_policy)
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


def _gang_fields(builder: Builder, job: ReplicatedJob, restarts: Restarts) -> RoleFields:
    """Return the restart policy of a role whose failures restart all Jobs."""
    failures = restarts.policy.failures(job)
    retried = {code for each in failures if each.limit for code in each.codes}
    source = job.pod_failure_rules or failures[0].source
    if not retried:
        return {"restartPolicy": (source, "Never")}
    builder.always_restarted(source, retried)
    return _restart_fields(source, EXIT_CODES - retried) or {"restartPolicy": (source, "OnFailure")}


def _own_fields(job: ReplicatedJob, restarts: Restarts, restart_policy: str) -> RoleFields:
    """Return the limit and the exit codes of a role whose pods are replaced one by one."""
    if job.is_per_index:
        codes = codes_by_action(job)
        permanent = codes.get("FailJob", frozenset()) | codes.get("FailIndex", frozenset())
        limit = job.spec.get("backoffLimitPerIndex").value
        return _permanent_fields(job, permanent, "backoffLimitPerIndex") if limit else {}
    failures = [each for each in restarts.policy.failures(job) if each.codes]
    last = max(failures, key=lambda failure: failure.limit)
    written = job.spec.get("backoffLimit")
    fields: RoleFields = {"backoffLimit": (written, None)}
    if last.action != FAIL:
        fields["backoffLimit"] = (last.source, last.limit)
    elif not written and (restart_policy == "Never" or restarts.gang):
        fields["backoffLimit"] = (written, DEFAULT_BACKOFF_LIMIT)
    permanent = frozenset().union(*[each.codes for each in failures if not each.limit])
    return fields | _permanent_fields(job, permanent, "backoffLimit")


def _permanent_fields(job: ReplicatedJob, permanent: frozenset[int], limit: str) -> RoleFields:
    """Return the fields of a role that is not retried after these exit codes."""
    rules = job.pod_failure_rules
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


def _check_rules(builder: Builder, job: ReplicatedJob, restarts: Restarts) -> None:
    """Report the rules of a podFailurePolicy that work differently."""
    for rule in job.pod_failure_rules.items():
        action = rule.get("action")
        _check_conditions(builder, rule, job, restarts)
        _check_container(builder, job, rule.get("onExitCodes"))
        if matched_codes(job, rule) and action.value == "Ignore":
            message = "JobSet does not count these failures; here they"
            if restarts.restarts_all(job):
                builder.differs(action, f"{message} restart all Jobs", "increase maxRestarts")
            else:
                message = f"{message} count against backoffLimit"
                builder.differs(action, message, "increase backoffLimit")
        if action.value == "FailJob" and job.is_per_index:
            message = "here, with backoffLimitPerIndex, FailJob fails only the index"
            builder.differs(action, message, "write maxFailedIndexes: 0")


def _check_container(builder: Builder, job: ReplicatedJob, rule: SourceValue) -> None:
    """Report a rule on the exit codes of other containers than the main one."""
    main, container = job.main_container.value["name"], rule.get("containerName").value
    several = len(job.pod_template.value["spec"]["containers"]) > 1
    if rule and (container not in (None, main) or (not container and several)):
        message = f"here only the exit codes of the container {main} count"
        builder.differs(rule, message, f"write containerName: {main}")


def _check_conditions(
    builder: Builder, rule: SourceValue, job: ReplicatedJob, restarts: Restarts
) -> None:
    """Report pod conditions; a disrupted pod never counts, and no other condition is evaluated."""
    ignored, in_gang = rule.value["action"] == "Ignore", job.name in restarts.gang
    fails = restarts.policy.action(job, "PodFailurePolicy")[0] == FAIL
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
