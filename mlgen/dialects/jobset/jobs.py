"""The replicated Jobs of a JobSet: the number of their pods, and the order in which they start.

Sources: kubernetes-sigs/jobset, pkg/webhooks/jobset_webhook.go for names and defaults, and
pkg/controllers/depends_on.go and startup_policy.go for the order.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlgen.bounds import ROLES
from mlgen.dialects._builder import Builder, SourceValue
from mlgen.problems import choice, did_you_mean

JOB_NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class ReplicatedJob:
    """A number of Jobs with the same pod template.

    Attributes:
        name: as in the JobSet.
        source: its item of `replicatedJobs`.
        job_count: the number of Jobs, each of which becomes a role.
        pod_count: the number of pods of each Job.
        first_index: the index of its first Job among all Jobs of the set.
    """

    name: str
    source: SourceValue
    job_count: int
    pod_count: int
    first_index: int

    @property
    def spec(self) -> SourceValue:
        """The `spec` of each Job."""
        return self.source.get("template", "spec")

    @property
    def pod_template(self) -> SourceValue:
        """The pod template of each Job."""
        return self.spec.get("template")

    @property
    def has_pods(self) -> bool:
        """Return whether there is a pod."""
        return bool(self.job_count and self.pod_count)

    @property
    def roles(self) -> list[str]:
        """The name of the role of each Job."""
        return [f"{self.name}-{index}" for index in range(self.job_count)]

    @property
    def is_per_index(self) -> bool:
        """Return whether each pod has retries of its own."""
        return bool(self.spec.get("backoffLimitPerIndex"))

    @property
    def group(self) -> str:
        """The `groupName`, by which JobSet numbers Jobs within a group."""
        return str(self.source.get("groupName").value or "default")

    @property
    def pod_failure_rules(self) -> SourceValue:
        """The rules of the `podFailurePolicy`."""
        return self.spec.get("podFailurePolicy", "rules")

    @property
    def main_container(self) -> SourceValue:
        """The first container that a rule on exit codes names, else the first of the pod."""
        containers = list(self.pod_template.get("spec", "containers").items())
        named = [
            rule.get("onExitCodes", "containerName").value
            for rule in self.pod_failure_rules.items()
        ]
        return next((item for item in containers if item.value["name"] in named), containers[0])


def read_replicated_jobs(builder: Builder) -> list[ReplicatedJob]:
    """Return the replicated Jobs in their order; report duplicate and invalid names."""
    jobs: list[ReplicatedJob] = []
    for source in builder.spec.get("replicatedJobs").items():
        name = source.value["name"]
        if name in [job.name for job in jobs]:
            hint = "give each replicated Job its own name"
            builder.refuse(source.get("name"), f'duplicate name "{name}"', hint)
            continue
        if not JOB_NAME.fullmatch(name):
            message = f'"{name}" cannot be part of the name of a Job'
            hint = (
                "use lower-case letters, digits and dashes; begin with a letter, end with no dash"
            )
            builder.refuse(source.get("name"), message, hint)
            continue
        job_count = source.value.get("replicas", 1)
        first_index = sum(job.job_count for job in jobs)
        pod_count = _pod_count(builder, source.get("template", "spec"))
        jobs.append(ReplicatedJob(name, source, job_count, pod_count, first_index))
    return jobs


def are_too_many(builder: Builder, jobs: list[ReplicatedJob]) -> bool:
    """Return whether there are more Jobs than roles in a job, and report it."""
    total = sum(job.job_count for job in jobs)
    if total <= ROLES:
        return False
    largest = max(jobs, key=lambda job: job.job_count).source
    message = f"the JobSet has {total:,} Jobs; at most {ROLES} are rendered"
    hint = "use fewer Jobs, each with more pods, or several JobSets"
    builder.refuse(largest.get("replicas") or largest, message, hint, "too-large")
    return True


def _pod_count(builder: Builder, spec: SourceValue) -> int:
    """Return the number of pods of a Job; report what changes because all of them run at once."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    at_once = 1 if parallelism.value is None else int(parallelism.value)
    if completions:
        count = int(completions.value)
        if at_once < count:
            message = f"JobSet runs {at_once} of {count} pods at a time; here all run at once"
            builder.differs(parallelism or completions, message, f"write parallelism: {count}")
        return count
    if parallelism and spec.get("completionMode").value != "NonIndexed":
        message = "an Indexed Job requires completions, and a JobSet's Jobs are Indexed by default"
        builder.refuse(parallelism, message, f"write completions: {at_once}")
    elif at_once > 1:
        message = "without completions, one pod that succeeds is enough; here all pods must succeed"
        builder.differs(parallelism, message, "write completionMode: Indexed, and completions")
    return at_once


def require_names(
    builder: Builder, names: Iterable[SourceValue], jobs: list[ReplicatedJob]
) -> None:
    """Report each of these names that no replicated Job has."""
    known = [job.name for job in jobs]
    for name in names:
        if name.value not in known:
            message = f'there is no replicated Job "{name.value}"'
            builder.refuse(name, message, choice(name.value, known))


def is_queued(builder: Builder) -> bool:
    """Return whether Kueue manages the job, and alone suspends and resumes its Jobs."""
    return bool(builder.data["spec"].get("scheduling", {}).get("gang") == "kueue")


def write_startup_order(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write `waitFor` of each role: the roles that JobSet waits for before it creates its Job."""
    order = builder.spec.get("startupPolicy", "startupPolicyOrder")
    for position, job in enumerate(jobs):
        earlier = jobs[:position]
        waits = _dependencies(builder, job, earlier)
        if order.value == "InOrder":
            waits += [wait for other in earlier for wait in _waits(builder, order, other, "Ready")]
        source = job.source.get("dependsOn") or order
        for role in job.roles if waits else ():
            builder.put(("spec", "roles", role, "waitFor"), source, waits)


def _dependencies(
    builder: Builder, job: ReplicatedJob, earlier_jobs: list[ReplicatedJob]
) -> list[dict[str, str]]:
    """Return the waits for the replicated Jobs of `dependsOn`; report what is not possible."""
    in_order = builder.spec.get("startupPolicy", "startupPolicyOrder").value == "InOrder"
    earlier = {other.name: other for other in earlier_jobs}
    waits: list[dict[str, str]] = []
    for dependency in job.source.get("dependsOn").items():
        name = dependency.value["name"]
        if in_order:
            message = "startupPolicyOrder: InOrder and dependsOn are mutually exclusive"
            builder.refuse(dependency, message, "remove one of the two")
        elif name not in earlier:
            message = f"{job.name} can depend only on a replicated Job that is listed before it"
            hint = did_you_mean(name, earlier) or "change the order of replicatedJobs"
            builder.refuse(dependency.get("name"), message, hint)
        else:
            waits += _waits(builder, dependency, earlier[name], dependency.value["status"])
    return waits


def _waits(
    builder: Builder, source: SourceValue, other: ReplicatedJob, status: str
) -> Iterator[dict[str, str]]:
    """Yield a wait for each Job of a replicated Job, until it is Ready or Complete.

    A pod without a readiness or startup probe is ready as soon as it runs, and a Job that has
    completed counts as ready. Kueue starts all Jobs at once, so their pods wait.
    """
    if not is_queued(builder):
        yield from ({"role": role, "until": status} for role in other.roles if other.pod_count)
    elif status == "Ready":
        yield from ({"role": role, "until": "name"} for role in other.roles if other.pod_count)
    else:
        message = f"JobSet waits until {other.name} has completed; here Kueue starts both at once"
        builder.differs(source, message, f"apply {other.name} alone, and wait until it completes")


def completed_before(
    builder: Builder, job: ReplicatedJob, jobs: list[ReplicatedJob]
) -> frozenset[str]:
    """Return the names of replicated Jobs that are waited for to complete before this starts."""
    completed: frozenset[str] = frozenset()
    if is_queued(builder):
        return completed
    for dependency in job.source.get("dependsOn").items():
        for other in jobs:
            if other.name == dependency.value["name"] and other.first_index < job.first_index:
                completed |= completed_before(builder, other, jobs)
                if dependency.value["status"] == "Complete":
                    completed |= {other.name}
    return completed
