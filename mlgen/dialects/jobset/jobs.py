"""The replicated Jobs of a JobSet: pod counts and startup order.

Sources: kubernetes-sigs/jobset, pkg/webhooks/jobset_webhook.go for names and defaults, and
pkg/controllers/depends_on.go and startup_policy.go for the order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlgen.dialects._builder import Builder, Field
from mlgen.input_limits import ROLES
from mlgen.kubernetes.names import DNS_1035, DNS_1035_WORDS
from mlgen.problems import choice, did_you_mean

EXIT_CODES = frozenset(range(1, 256))
"""The exit codes of a container that has failed."""


class Failure(NamedTuple):
    """A way in which the Jobs of a replicated Job fail.

    Attributes:
        scope: "JobSet" if all Jobs then restart, "Job" if only the failed Job restarts, "" if the
            JobSet fails.
        source: the rule of the failurePolicy, or the policy itself.
        codes: the exit codes of the main container; () if disrupted pods fail the Job.
        retries: the number of such pods that are replaced before the Job fails.
        limit: the number of failed pods of one Job after which the JobSet can still complete.
    """

    scope: str
    source: Field
    codes: frozenset[int]
    retries: int
    limit: int


@dataclass(eq=False)
class ReplicatedJob:
    """A number of Jobs with the same pod template.

    Attributes:
        name: as in the JobSet.
        source: its item of `replicatedJobs`.
        job_count: the number of Jobs. Each becomes a role.
        pod_count: the number of pods of each Job.
        first_index: the index of its first Job among all Jobs of the JobSet.
        failures: the ways in which a failed pod fails one of its Jobs.
        is_step: True if it has a single pod, and either runs alone or other Jobs wait for it to
            complete. A failed pod is replaced, which repeats the step.
        is_alone: True for a member of the gang whose failed pods are replaced one by one. A
            disrupted pod restarts the whole gang.
        restarts_all: True for a member of the gang whose failed pods restart the whole gang.
    """

    name: str
    source: Field
    job_count: int
    pod_count: int
    first_index: int
    failures: tuple[Failure, ...] = ()
    is_step: bool = False
    is_alone: bool = False
    restarts_all: bool = False

    @property
    def spec(self) -> Field:
        """The `spec` of each Job."""
        return self.source.get("template", "spec")

    @property
    def pod_template(self) -> Field:
        """The pod template of each Job."""
        return self.spec.get("template")

    @property
    def roles(self) -> list[str]:
        """The name of the role of each Job."""
        return [f"{self.name}-{index}" for index in range(self.job_count)]

    @property
    def is_per_index(self) -> bool:
        """True if each pod has its own limit of retries."""
        return bool(self.spec.get("backoffLimitPerIndex"))

    @property
    def group(self) -> str:
        """The `groupName`. JobSet also numbers Jobs within their group."""
        return str(self.source.get("groupName").value or "default")

    @property
    def pod_failure_rules(self) -> Field:
        """The rules of the `podFailurePolicy`."""
        return self.spec.get("podFailurePolicy", "rules")

    @property
    def main_container(self) -> Field:
        """The first container named in a rule on exit codes, or the first container of the pod."""
        first, *others = self.pod_template.get("spec", "containers").items()
        rules = self.pod_failure_rules.items()
        named = [rule.get("onExitCodes", "containerName").value for rule in rules]
        return next((item for item in (first, *others) if item.value["name"] in named), first)

    def matched_codes(self, rule: Field) -> frozenset[int]:
        """Return the exit codes of the main container that a rule matches."""
        on_codes, main = rule.get("onExitCodes"), self.main_container.value["name"]
        if not on_codes or on_codes.get("containerName").value not in (None, main):
            return frozenset()
        values = EXIT_CODES.intersection(on_codes.value["values"])
        return values if on_codes.value["operator"] == "In" else EXIT_CODES - values

    @property
    def permanent_codes(self) -> frozenset[int]:
        """The exit codes of the main container that fail the Job, or the index, at once.

        The first rule that matches an exit code determines the action.
        """
        permanent, matched = frozenset[int](), frozenset[int]()
        for rule in self.pod_failure_rules.items():
            codes = self.matched_codes(rule) - matched
            matched |= codes
            if rule.value["action"] in ("FailJob", "FailIndex"):
                permanent |= codes
        return permanent


class JobSet(Builder):
    """A JobSet.

    Attributes:
        jobs: the replicated Jobs in their order.
        rules: the rules of the failurePolicy that mlgen evaluates.
        together: the gang: the replicated Jobs that restart together.
    """

    def read(self) -> None:
        """Read the replicated Jobs."""
        self.jobs: list[ReplicatedJob] = []
        self.rules: list[Field] = []
        self.together: list[ReplicatedJob] = []
        for source in self.spec.get("replicatedJobs").items():
            self._read_job(source, source.get("name"))

    def _read_job(self, source: Field, name: Field) -> None:
        """Read a replicated Job, and report a duplicate or invalid name."""
        if name.value in [job.name for job in self.jobs]:
            self.refuse(
                name, f'duplicate name "{name.value}"', "give each replicated Job its own name"
            )
        elif not DNS_1035.match(name.value):
            self.refuse(
                name, f'"{name.value}" cannot be part of the name of a Job', f"use {DNS_1035_WORDS}"
            )
        else:
            job_count, first_index = source.value.get("replicas", 1), self.job_count(self.jobs)
            pod_count = self._pod_count(source.get("template", "spec"))
            self.jobs.append(ReplicatedJob(name.value, source, job_count, pod_count, first_index))

    def _pod_count(self, spec: Field) -> int:
        """Return the number of pods of a Job. Report differences because all run at once."""
        parallelism, completions = spec.get("parallelism"), spec.get("completions")
        at_once = 1 if parallelism.value is None else int(parallelism.value)
        if completions:
            count = completions.value
            if at_once < count:
                self.warn(
                    parallelism or completions,
                    f"JobSet runs {at_once} of {count} pods at a time; "
                    "mlgen runs all at the same time",
                    f"write parallelism: {count}",
                )
            elif at_once > count:
                self.warn(
                    parallelism,
                    f"{at_once} pods need as many completions: with completions: {count}, "
                    f"Kubernetes runs {count} at a time",
                    f"write completions: {at_once}",
                    code="no-effect",
                )
            return int(count)
        if parallelism and spec.get("completionMode").value != "NonIndexed":
            self.refuse(
                parallelism,
                "an Indexed Job requires completions, and a JobSet's Jobs are Indexed by default",
                f"write completions: {at_once}",
            )
        elif at_once > 1:
            self.warn(
                parallelism,
                "without completions, JobSet requires one successful pod; "
                "mlgen requires all pods to succeed",
                "write completionMode: Indexed, and completions",
            )
        return at_once

    def put_all(self, job: ReplicatedJob, field: str, source: Field, value: Any = None) -> None:
        """Write a field of the roles of a replicated Job."""
        for role in job.roles:
            self.put(("roles", role, field), source, value)

    @property
    def running(self) -> list[ReplicatedJob]:
        """The replicated Jobs with pods."""
        return [job for job in self.jobs if job.job_count and job.pod_count]

    def job_count(self, jobs: Iterable[ReplicatedJob]) -> int:
        """Return the number of Jobs of several replicated Jobs."""
        return sum(job.job_count for job in jobs)

    def is_too_large(self) -> bool:
        """Return True, and report it, if there are more Jobs than a job can have roles."""
        total = self.job_count(self.jobs)
        if total > ROLES:
            most = max(self.jobs, key=lambda job: job.job_count).source
            source = most.get("replicas") or most
            self.refuse(
                source,
                f"the JobSet has {total:,} Jobs; at most {ROLES} are rendered",
                "use fewer Jobs, each with more pods, or several JobSets",
                code="too-large",
            )
        return total > ROLES

    def require_names(self, names: Iterable[Field]) -> None:
        """Report the names that do not belong to a replicated Job."""
        known = [job.name for job in self.jobs]
        for name in names:
            if name.value not in known:
                self.refuse(
                    name, f'there is no replicated Job "{name.value}"', choice(name.value, known)
                )

    def completed_before(self) -> dict[str, frozenset[str]]:
        """Return the names of the running Jobs that complete before each of them starts.

        There are none if Kueue manages the job, because Kueue suspends and resumes its Jobs. The
        Jobs are in order, so those that a Job depends on come before it.
        """
        completed: dict[str, frozenset[str]] = {}
        for job in self.running:
            found = set[str]()
            for dependency in job.source.get("dependsOn").items() if self.gang != "kueue" else ():
                name = dependency.value["name"]
                if name in completed:
                    found |= completed[name]
                    if dependency.value["status"] == "Complete":
                        found.add(name)
            completed[job.name] = frozenset(found)
        return completed

    def write_startup_order(self) -> None:
        """Write `waitFor` of each role, from the roles that JobSet waits for before it starts."""
        order = self.spec.get("startupPolicy", "startupPolicyOrder")
        in_order, earlier = order.value == "InOrder", dict[str, ReplicatedJob]()
        for job in self.jobs:
            waits: list[dict[str, str]] = []
            for dependency in job.source.get("dependsOn").items():
                name, status = dependency.get("name"), dependency.value["status"]
                if in_order:
                    self.refuse_both(dependency, "startupPolicyOrder: InOrder", "dependsOn")
                elif name.value not in earlier:
                    self.refuse(
                        name,
                        f"{job.name} can depend only on a replicated Job that is listed before it",
                        did_you_mean(name.value, earlier) or "change the order of replicatedJobs",
                    )
                else:
                    waits += self._waits(dependency, earlier[name.value], status)
            for other in self._before(earlier) if in_order else ():
                waits += self._waits(order, other, "Ready")
            self.put_all(job, "waitFor", job.source.get("dependsOn") or order, waits)
            earlier[job.name] = job

    def _before(self, earlier: dict[str, ReplicatedJob]) -> list[ReplicatedJob]:
        """Return the Jobs that the next one waits for, of those before it in order.

        The last one is enough, because it has waited for the others. Kueue starts all at once.
        """
        found = [other for other in earlier.values() if other.roles and other.pod_count]
        return found if self.gang == "kueue" else found[-1:]

    def _waits(self, source: Field, other: ReplicatedJob, status: str) -> Iterator[dict[str, str]]:
        """Yield a `waitFor` item for each Job of a replicated Job, until Ready or Complete.

        A pod without a readiness or startup probe is ready as soon as it runs, and a completed Job
        counts as ready. Kueue starts all Jobs at once, so the pods wait instead.
        """
        queued = self.gang == "kueue"
        if queued and status == "Complete":
            self.warn(
                source,
                f"JobSet waits until {other.name} has completed; "
                "with mlgen, Kueue starts both at the same time",
                f"apply {other.name} alone, and wait until it completes",
            )
        else:
            until = "name" if queued else status
            yield from ({"role": role, "until": until} for role in other.roles if other.pod_count)
