"""Which Jobs of a set restart together here, and which replace their failed pods one by one.

JobSet restarts all Jobs when one of them has failed, which it does after its own retries. Here a
Job that has failed cannot run again. So a pod restarts all Jobs if its failure would fail its Job
at once. Otherwise it is replaced, as often as JobSet does in all of its restarts.
"""

from dataclasses import dataclass

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects.jobset.failure_policy import (
    FAIL,
    RESTART,
    RESTART_JOB,
    RESTART_JOB_UNCOUNTED,
    RESTART_UNCOUNTED,
    Failure,
    FailurePolicy,
    read_failure_policy,
)
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, is_queued
from mlgen.dialects.jobset.startup import completed_before
from mlgen.kubernetes.labels import KUEUE_QUEUE

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

    def restarts_all(self, replicated: ReplicatedJob) -> bool:
        """Return whether a pod of a replicated Job that fails restarts the gang."""
        return replicated.name in self.gang and replicated.name not in self.alone


def read_restarts(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> Restarts:
    """Return how the Jobs restart; report a policy that Kueue prevents."""
    policy = read_failure_policy(builder, replicated_jobs)
    jobs = [each for each in replicated_jobs if each.has_pods]
    peers = {each.name: _peers(builder, each, jobs) for each in jobs}
    steps = [each.name for each in jobs if _is_step(each, peers, jobs)]
    jobs = [each for each in jobs if not each.is_per_index and each.name not in steps]
    gang = _gang(policy, jobs, peers)
    if gang and is_queued(builder):
        message = "Kueue alone suspends and resumes Jobs, so here a failed pod is replaced alone"
        hint = f"without the label {KUEUE_QUEUE}, all Jobs restart together"
        builder.differs(policy.source, message, hint)
        gang = ()
    alone = [each.name for each in jobs if each.name in gang and _is_alone(policy, each)]
    return Restarts(policy, tuple(steps), gang, tuple(alone))


def _peers(
    builder: Builder, replicated: ReplicatedJob, jobs: list[ReplicatedJob]
) -> frozenset[str]:
    """Return the names of the other replicated Jobs that can run at the same time."""
    before = completed_before(builder, replicated, jobs)
    after = {each.name for each in jobs if replicated.name in completed_before(builder, each, jobs)}
    return frozenset(each.name for each in jobs) - before - after - {replicated.name}


def _is_step(
    replicated: ReplicatedJob, peers: dict[str, frozenset[str]], jobs: list[ReplicatedJob]
) -> bool:
    """Return whether a replicated Job has one pod and is alone, or others wait for it to complete.

    Those that do are neither its peers nor listed before it.
    """
    if replicated.job_count * replicated.pod_count > 1:
        return False
    later = {each.name for each in jobs if each.first_index > replicated.first_index}
    mine = peers[replicated.name]
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


def _at_once(policy: FailurePolicy, replicated: ReplicatedJob, actions: tuple[str, ...]) -> bool:
    """Return whether a pod that fails can fail its Job at once, with one of these actions."""
    failures = policy.failures(replicated)
    return any(each.action in actions and not each.retries for each in failures)


def _is_alone(policy: FailurePolicy, replicated: ReplicatedJob) -> bool:
    """Return whether a pod that fails by itself is always replaced first."""
    failures = [each for each in policy.failures(replicated) if each.codes]
    at_once = any(each.action != FAIL and not each.retries for each in failures)
    return not at_once and any(each.retries for each in failures)


def write_restarts(
    builder: Builder, replicated_jobs: list[ReplicatedJob], restarts: Restarts
) -> None:
    """Write `restartScope` and the number of restarts; report what is different from JobSet."""
    policy = restarts.policy
    jobs = [each for each in replicated_jobs if each.has_pods]
    if restarts.gang:
        source = policy.source.get("maxRestarts") if policy.max_restarts else policy.source
        every = all(each.name in restarts.gang for each in replicated_jobs if each.job_count)
        roles = [role for r in jobs if r.name in restarts.gang for role in r.roles]
        builder.restart_together(source, "All" if every else roles)
        failures = [
            f for each in jobs if restarts.restarts_all(each) for f in policy.failures(each)
        ]
        limit = max((each.limit for each in failures if each.codes), default=0)
        builder.put(("spec", "runPolicy", "backoffLimit"), source, limit)
        _report_uncounted(builder, failures)
    for replicated in jobs:
        _report_deadline(builder, policy, replicated)
        if restarts.gang and ATTEMPT in str(replicated.pod_template.value):
            message = f"here {ATTEMPT} is always 0"
            builder.differs(replicated.pod_template, message, "do not refer to it")
        if replicated.is_per_index:
            _report_per_index(builder, restarts, replicated)
            continue
        if not restarts.restarts_all(replicated):
            _report_uncounted(builder, policy.failures(replicated))
        for failure in policy.failures(replicated):
            if failure.codes and replicated.name not in restarts.steps:
                _report_failure(builder, restarts, replicated, failure)


def _report_uncounted(builder: Builder, failures: list[Failure]) -> None:
    """Report a rule by which only some restarts count."""
    counts = any(0 < each.limit < ENDLESS for each in failures)
    for failure in failures:
        if failure.limit == ENDLESS and failure.codes and counts:
            message = "JobSet limits the restarts after other failures; here there is no limit"
            builder.differs(failure.source, message, "write action: RestartJobSet for a limit")


def _report_deadline(builder: Builder, policy: FailurePolicy, replicated: ReplicatedJob) -> None:
    """Report a deadline of a Job after which JobSet restarts."""
    deadline = replicated.spec.get("activeDeadlineSeconds")
    if deadline and policy.action(replicated, "DeadlineExceeded")[0] != FAIL:
        message = "JobSet restarts after this deadline; here the job fails"
        builder.differs(deadline, message, "remove it")


def _report_per_index(builder: Builder, restarts: Restarts, replicated: ReplicatedJob) -> None:
    """Report a Job of which each pod has its own retries, and that does not run again."""
    action, source = restarts.policy.action(replicated, "FailedIndexes")
    if action != FAIL or restarts.gang:
        message = f"JobSet restarts {replicated.name} too; here, with backoffLimitPerIndex, it"
        builder.differs(source, f"{message} does not run again", "write backoffLimit")


def _report_failure(
    builder: Builder, restarts: Restarts, replicated: ReplicatedJob, failure: Failure
) -> None:
    """Report a failure after which JobSet restarts more, less or later than here."""
    name, retries, of_the_job = replicated.name, failure.retries, failure.action in OF_THE_JOB
    limit = "all" if failure.limit == ENDLESS else f"up to {failure.limit}"
    source = replicated.spec.get("backoffLimit") or replicated.spec
    hint = "write backoffLimit: 0 to restart all Jobs at each failure"
    if restarts.restarts_all(replicated):
        if retries:
            message = f"JobSet first replaces {retries} failed pods of {name}"
            builder.differs(source, f"{message}; here each failure restarts all Jobs", hint)
        elif of_the_job and (replicated.job_count > 1 or restarts.gang != (name,)):
            message = "JobSet restarts only the Job that has failed; here all Jobs restart"
            builder.differs(failure.source, message, "write action: RestartJobSet")
    elif of_the_job and replicated.pod_count > 1:
        message = f"JobSet recreates all pods of a failed Job; here {limit} failed pods of {name}"
        hint = "write action: RestartJobSet to restart all Jobs"
        builder.differs(failure.source, f"{message} are replaced one by one", hint)
    elif not of_the_job and failure.action != FAIL and retries:
        message = f"JobSet restarts all Jobs when more than {retries} pods of {name} have failed"
        builder.differs(source, f"{message}; here {limit} are replaced one by one", hint)
