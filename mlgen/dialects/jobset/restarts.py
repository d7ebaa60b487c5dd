"""How the Jobs of a JobSet restart: `failurePolicy`, and the `podFailurePolicy` of each Job.

JobSet restarts all Jobs after one of them has failed, including its own retries. In rendered
manifests, a failed Job cannot run again. Therefore a failed pod restarts all Jobs if it would fail
its Job at once. Otherwise the pod is replaced, as often as JobSet would in all of its restarts. A
podFailurePolicy becomes a restart policy of the role if it identifies permanent failures by exit
code. Everything else in it is reported.

Sources: kubernetes-sigs/jobset, pkg/controllers/failure_policy.go, and
https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from mlgen.dialects._builder import ENDLESS, Field
from mlgen.dialects._schemas import read
from mlgen.dialects.jobset.jobs import EXIT_CODES, Failure, JobSet, ReplicatedJob
from mlgen.jobfile.model import PERMANENT_EXIT_CODES

DISRUPTED = "DisruptionTarget"
"""The condition of a pod that is drained, preempted or evicted."""

DEFAULT_BACKOFF_LIMIT = 6
"""The default `backoffLimit` of a Job."""

ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def read_restarts(jobset: JobSet) -> None:
    """Set how the replicated Jobs fail and restart, and report policies that have no effect."""
    policy = jobset.spec.get("failurePolicy")
    for rule in policy.get("rules").items():
        jobset.require_names(rule.get("targetReplicatedJobs").items())
        patterns = rule.get("onJobFailureMessagePatterns")
        if patterns.value:
            jobset.warn(
                patterns,
                "mlgen ignores this rule, because it cannot match the messages of failed Jobs",
                "write onJobFailureReasons",
            )
        else:
            jobset.rules.append(rule)
    strategy = policy.get("restartStrategy")
    if strategy.value == "InPlaceRestart" and (policy.get("maxRestarts").value or jobset.rules):
        jobset.warn(
            strategy,
            "JobSet restarts the containers in place; mlgen recreates all pods",
            "remove it",
        )
    running = jobset.running
    for job in jobset.jobs:
        job.failures = tuple(_failures(jobset, job))
    peers = _peers(jobset)
    for job in running:
        # All Jobs that wait for a step come after it, and none of them is its peer.
        mine = peers[job.name]
        later = {other.name for other in running if other.first_index > job.first_index}
        job.is_step = job.job_count * job.pod_count == 1 and (not mine or not later <= mine)
    jobs = [job for job in running if not job.is_per_index and not job.is_step]
    jobset.together = _gang(jobs, peers)
    for job in jobset.together:
        by_code = [failure for failure in job.failures if failure.codes]
        at_once = any(failure.scope and not failure.retries for failure in by_code)
        job.is_alone = not at_once and any(failure.retries for failure in by_code)
        job.restarts_all = not job.is_alone


def _failures(jobset: JobSet, job: ReplicatedJob) -> Iterator[Failure]:
    """Yield the ways in which a failed pod fails a Job of a replicated Job."""
    limit, max_restarts = job.spec.get("backoffLimit").value, _max_restarts(jobset)
    limit, permanent = DEFAULT_BACKOFF_LIMIT if limit is None else limit, job.permanent_codes
    for reason, codes, retries in (
        ("PodFailurePolicy", permanent, 0),
        ("BackoffLimitExceeded", EXIT_CODES - permanent, limit),
    ):
        if codes or (reason == "PodFailurePolicy" and _fails_on_disruption(job)):
            scope, counts, source = _reaction(jobset, job, reason)
            most = min((retries + 1) * (max_restarts + 1) - 1, ENDLESS) if counts else ENDLESS
            yield Failure(scope, source, codes, retries, most if scope else retries)


def _max_restarts(jobset: JobSet) -> int:
    """Return the maximum number of restarts, without those that do not count."""
    return int(jobset.spec.get("failurePolicy", "maxRestarts").value or 0)


def _fails_on_disruption(job: ReplicatedJob) -> bool:
    """Return True if a drained or preempted pod fails the Job at once."""
    for rule in job.pod_failure_rules.items():
        if DISRUPTED in [item["type"] for item in rule.value.get("onPodConditions", [])]:
            return bool(rule.value["action"] == "FailJob")
    return False


class Reaction(NamedTuple):
    """The JobSet's reaction to a failed Job.

    Attributes:
        scope: as in a `Failure`.
        counts: True if the restart counts towards the limit.
        source: the rule, or the whole policy.
    """

    scope: str
    counts: bool
    source: Field


def _reaction(jobset: JobSet, job: ReplicatedJob, reason: str) -> Reaction:
    """Return the JobSet's reaction to a Job that fails for this reason."""
    source = jobset.spec.get("failurePolicy")
    action = "RestartJobSet" if source else "FailJobSet"
    for rule in jobset.rules:
        reasons = rule.get("onJobFailureReasons").value
        targets = rule.get("targetReplicatedJobs").value
        if (not reasons or reason in reasons) and (not targets or job.name in targets):
            action, source = rule.value["action"], rule
            break
    row = read("jobset.json")["failureActions"][action]
    is_allowed = _max_restarts(jobset) or not row["counts"]
    return Reaction(row["restarts"] if is_allowed else "", row["counts"], source)


def _peers(jobset: JobSet) -> dict[str, frozenset[str]]:
    """Return the names of the other replicated Jobs that can run at the same time, for each."""
    before = jobset.completed_before()
    after = {name: {name} for name in before}
    for name, others in before.items():
        for other in others:
            after[other].add(name)
    names = frozenset(before)
    return {name: names - before[name] - after[name] for name in before}


def _gang(jobs: list[ReplicatedJob], peers: dict[str, frozenset[str]]) -> list[ReplicatedJob]:
    """Return the replicated Jobs that restart together.

    A failed pod of some of them restarts all Jobs at once. The others run at the same time.
    """
    at_once = [(job, f.scope) for job in jobs for f in job.failures if not f.retries]
    together = {job.name for job, scope in at_once if scope == "JobSet"}
    if together:
        return [job for job in jobs if job.name in together or peers[job.name] & together]
    alone = list({job: None for job, scope in at_once if scope == "Job"})
    is_one = len(alone) == 1 and alone[0].job_count == 1 and alone[0].pod_count > 1
    return alone if is_one else []


def write_restarts(jobset: JobSet) -> None:
    """Write `restartScope` and the number of restarts, and report differences from JobSet."""
    gang, policy = jobset.together, jobset.spec.get("failurePolicy")
    if gang:
        source = policy.get("maxRestarts") if _max_restarts(jobset) else policy
        every = all(job in gang for job in jobset.jobs if job.job_count)
        scope = "All" if every else [role for job in gang for role in job.roles]
        jobset.restart_together(source, scope)
        failures = [failure for job in gang if job.restarts_all for failure in job.failures]
        limit = max((failure.limit for failure in failures if failure.codes), default=0)
        jobset.put(("runPolicy", "backoffLimit"), source, limit)
        _report_uncounted(jobset, failures)
    for job in jobset.running:
        deadline = job.spec.get("activeDeadlineSeconds")
        if deadline and _reaction(jobset, job, "DeadlineExceeded").scope:
            jobset.warn(
                deadline,
                "after activeDeadlineSeconds, JobSet restarts all Jobs; with mlgen, the job fails",
                "remove it",
            )
        if gang and ATTEMPT in str(job.pod_template.value):
            jobset.warn(
                job.pod_template,
                f"the restart attempt in {ATTEMPT} is always 0 with mlgen",
                "do not refer to this label",
            )
        if job.is_per_index:
            scope, _, source = _reaction(jobset, job, "FailedIndexes")
            if scope or gang:
                jobset.warn(
                    source,
                    f"JobSet also restarts {job.name}; "
                    f"mlgen does not, because {job.name} has backoffLimitPerIndex",
                    "write backoffLimit instead of backoffLimitPerIndex",
                )
            continue
        if not job.restarts_all:
            _report_uncounted(jobset, job.failures)
        for failure in job.failures:
            if failure.codes and not job.is_step:
                _report_failure(jobset, job, failure)


def _report_uncounted(jobset: JobSet, failures: Collection[Failure]) -> None:
    """Report rules that do not count restarts while other restarts count."""
    counts = any(0 < failure.limit < ENDLESS for failure in failures)
    for failure in failures:
        if failure.limit == ENDLESS and failure.codes and counts:
            jobset.warn(
                failure.source,
                "JobSet limits the restarts after other failures; mlgen does not",
                "to limit these restarts, write action: RestartJobSet",
            )


def _report_failure(jobset: JobSet, job: ReplicatedJob, failure: Failure) -> None:
    """Report a failure after which JobSet restarts more or fewer pods, or restarts them later."""
    is_gang, limit = jobset.together == [job], job.spec.get("backoffLimit") or job.spec
    replaced = "all" if failure.limit == ENDLESS else f"up to {failure.limit}"
    at_once = "write backoffLimit: 0 to restart all Jobs at each failure"
    if job.restarts_all and failure.retries:
        jobset.warn(
            limit,
            f"JobSet first replaces {failure.retries} failed pods of {job.name}; "
            "mlgen restarts all Jobs after each failure",
            at_once,
        )
    elif job.restarts_all and failure.scope == "Job" and not (is_gang and job.job_count == 1):
        jobset.warn(
            failure.source,
            "JobSet restarts only the Job that has failed; mlgen restarts all Jobs",
            "write action: RestartJobSet",
        )
    elif not job.restarts_all and failure.scope == "Job" and job.pod_count > 1:
        jobset.warn(
            failure.source,
            "JobSet recreates all pods of a failed Job; "
            f"mlgen replaces {replaced} failed pods of {job.name} one by one",
            "write action: RestartJobSet to restart all Jobs",
        )
    elif not job.restarts_all and failure.scope == "JobSet" and failure.retries:
        jobset.warn(
            limit,
            f"JobSet restarts all Jobs when more than {failure.retries} pods of {job.name} have "
            f"failed; mlgen replaces {replaced} one by one",
            at_once,
        )


NEEDS_NEVER = ("podFailurePolicy", "backoffLimitPerIndex")
"""Fields of a Job that Kubernetes accepts only with restartPolicy Never."""


def write_retries(jobset: JobSet, job: ReplicatedJob) -> None:
    """Write the restart policy, the number of replicas and the limits of each role."""
    spec, source = job.spec, job.pod_template.get("spec", "restartPolicy")
    restart_policy = source.value or "OnFailure"
    jobset.put_all(job, "restartPolicy", source, restart_policy)
    pods = spec.get("completions") or spec.get("parallelism")
    jobset.put_all(job, "replicas", pods, job.pod_count if pods else None)
    jobset.put_all(job, "activeDeadlineSeconds", spec.get("activeDeadlineSeconds"))
    if restart_policy == "Always":
        jobset.refuse(
            source, "a Job's pods cannot have restartPolicy: Always", "write OnFailure or Never"
        )
    for name in NEEDS_NEVER if restart_policy != "Never" else ():
        jobset.refuse(
            spec.get(name),
            f"{name} requires restartPolicy: Never, got {restart_policy}",
            "write restartPolicy: Never in the pod template",
        )
    for rule in job.pod_failure_rules.items():
        _check_rule(jobset, job, rule)
    if job.restarts_all:
        restart_policy = "Never"
        codes = {code for each in job.failures if each.limit for code in each.codes}
        rules = job.pod_failure_rules or job.failures[0].source
        jobset.put_all(job, "restartPolicy", rules, "OnFailure" if codes else "Never")
        if codes:
            jobset.always_restarted(rules, codes)
            _write_codes(jobset, job, rules, EXIT_CODES - codes)
    else:
        if job.is_alone:
            jobset.put_all(job, "restartScope", jobset.spec.get("failurePolicy"), "Replica")
        for name in ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"):
            jobset.put_all(job, name, spec.get(name))
        _write_limit(jobset, job, restart_policy)
    replaced, is_late = spec.get("podReplacementPolicy"), restart_policy == "Never"
    if replaced and replaced.value != ("Failed" if is_late else "TerminatingOrFailed"):
        when = "only after it has terminated" if is_late else "as soon as its deletion starts"
        jobset.warn(replaced, f"mlgen replaces a pod {when}", "remove it")


def _write_limit(jobset: JobSet, job: ReplicatedJob, restart_policy: str) -> None:
    """Write the limit and the exit codes of roles that replace failed pods one by one."""
    failures = [failure for failure in job.failures if failure.codes]
    limit, written = "backoffLimit", job.spec.get("backoffLimit")
    permanent = frozenset(code for each in failures if not each.limit for code in each.codes)
    if job.is_per_index:
        limit = "backoffLimitPerIndex"
        permanent = job.permanent_codes if job.spec.get(limit).value else frozenset()
    else:
        last = max(failures, key=lambda failure: failure.limit)
        if last.scope:
            jobset.put_all(job, limit, last.source, last.limit)
        elif not written and (restart_policy == "Never" or jobset.together):
            jobset.put_all(job, limit, written, DEFAULT_BACKOFF_LIMIT)
    rules = job.pod_failure_rules
    if rules and permanent == EXIT_CODES:
        jobset.put_all(job, limit, rules, 0)
    elif rules:
        _write_codes(jobset, job, rules, permanent)


def _write_codes(
    jobset: JobSet, job: ReplicatedJob, source: Field, permanent: frozenset[int]
) -> None:
    """Write the restart policy ExitCode, if there are permanent exit codes."""
    if permanent:
        jobset.put_all(job, "restartPolicy", source, "ExitCode")
        if permanent != PERMANENT_EXIT_CODES:
            jobset.put_all(job, "retryableExitCodes", source, sorted(EXIT_CODES - permanent))


def _check_rule(jobset: JobSet, job: ReplicatedJob, rule: Field) -> None:
    """Report differences in the effect of a podFailurePolicy's rule."""
    action, ignored = rule.get("action"), rule.value["action"] == "Ignore"
    for condition in rule.get("onPodConditions").items():
        _check_condition(jobset, job, condition, ignored=ignored)
    on_codes, main = rule.get("onExitCodes"), job.main_container.value["name"]
    named = on_codes.get("containerName").value
    several = len(job.pod_template.value["spec"]["containers"]) > 1
    if on_codes and (named not in (None, main) or (not named and several)):
        jobset.warn(
            on_codes,
            f"mlgen considers only exit codes of the container {main}",
            f"write containerName: {main}",
        )
    if ignored and job.matched_codes(rule):
        does, limit = "with mlgen, they count against backoffLimit", "backoffLimit"
        if job.restarts_all:
            does, limit = "mlgen restarts all Jobs", "maxRestarts"
        jobset.warn(action, f"JobSet does not count these failures; {does}", f"increase {limit}")
    if action.value == "FailJob" and job.is_per_index:
        jobset.warn(
            action,
            "with backoffLimitPerIndex, JobSet fails the Job; mlgen fails only the index",
            "write maxFailedIndexes: 0",
        )


def _check_condition(
    jobset: JobSet, job: ReplicatedJob, condition: Field, *, ignored: bool
) -> None:
    """Report a pod condition. Disrupted pods never count. Other conditions are not evaluated."""
    fails = not _reaction(jobset, job, "PodFailurePolicy").scope
    message = ""
    if condition.value["type"] != DISRUPTED:
        message = f"mlgen ignores the pod condition {condition.value['type']}"
        if ignored:
            message += ", so these failures count against backoffLimit"
    elif ignored and job in jobset.together:
        message = "JobSet replaces a drained or preempted pod alone; mlgen restarts all Jobs"
    elif not ignored and (fails or job not in jobset.together):
        message = "mlgen replaces a drained or preempted pod, and does not count it as a failure"
    if message:
        jobset.warn(condition, message, "remove the rule")
