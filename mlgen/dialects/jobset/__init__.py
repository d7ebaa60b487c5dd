"""JobSet: sets of Jobs that are one workload, of the Kubernetes project of that name.

Each Job of a set becomes a role of the framework `generic`, so its pods have the very host names
that JobSet gives them. Read off kubernetes-sigs/jobset: api/jobset/v1alpha2 and v1alpha1 for
fields, pkg/webhooks for defaults and what is refused, pkg/controllers for what is done.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._schemas import COUNT, METADATA, SWITCH, TEMPLATE, TEXT, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.jobfile.model import PERMANENT_EXIT_CODES, WaitPolicy
from mlgen.problems import Collector, did_you_mean

MANAGER, JOB_MANAGER = "jobset.sigs.k8s.io/jobset-controller", "kubernetes.io/job-controller"

MARK = "jobset.sigs.k8s.io/"
"""With this begin the labels of JobSet, which are annotations too."""

JOB_KEY = f"{MARK}job-key"
COORDINATOR = f"{MARK}coordinator"

IDENTITY = tuple(
    f"{MARK}{word}"
    for word in (
        "jobset-name",
        "replicatedjob-name",
        "replicatedjob-replicas",
        "global-replicas",
        "job-index",
        "job-global-index",
    )
)
"""What pods are selected by; the other labels are written where the template names them."""

NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LABELLED_NODES = "alpha.jobset.sigs.k8s.io/node-selector"

LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "activeDeadlineSeconds")
"""Fields of a Job that a role has under the same names."""

POD_GROUP = "schedulingGroup"
"""The field of a pod that names its group among Kubernetes' own."""

RETRIES = 6
"""The backoffLimit of a Job that gives none."""

EXIT_CODES = frozenset(range(1, 256))

Words = dict[str, tuple[SourceValue, Any]]
"""Fields of a role: where each comes from, and its value."""


@dataclass(frozen=True, slots=True)
class Replicated:
    """A replicated Job: a number of Jobs with equal pods.

    Attributes:
        jobs: how many Jobs, each of which becomes a role.
        pods: how many each of them has.
        first: the number of its first Job among all Jobs of the set.
    """

    name: str
    given: SourceValue
    jobs: int
    pods: int
    first: int

    @property
    def spec(self) -> SourceValue:
        """The `spec` of each Job."""
        return self.given.get("template", "spec")

    @property
    def template(self) -> SourceValue:
        """The template of the pods."""
        return self.spec.get("template")

    @property
    def roles(self) -> list[str]:
        """The roles that its Jobs become."""
        return [f"{self.name}-{index}" for index in range(self.jobs)]

    @property
    def group(self) -> str:
        """The group in which its Jobs are counted."""
        return str(self.given.get("groupName").value or "default")

    @property
    def rules(self) -> SourceValue:
        """What the end of a pod by its exit code or a condition leads to."""
        return self.spec.get("podFailurePolicy", "rules")

    @property
    def main(self) -> SourceValue:
        """The container whose exit code counts, or the first."""
        containers = list(self.template.get("spec", "containers").items())
        judged = [rule.get("onExitCodes", "containerName").value for rule in self.rules.items()]
        return next((item for item in containers if item.value["name"] in judged), containers[0])


def _jobset(builder: Builder) -> None:
    builder.put(("spec", "framework"), builder.given.get("kind"), "generic")
    builder.put(("spec", "options", "addresses"), builder.given.get("kind"), value=False)
    jobs = _replicated(builder)
    for job in jobs:
        _roles(builder, jobs, job)
    _order(builder, jobs)
    _success(builder, jobs)
    _whole(builder, jobs)
    _network(builder, jobs)
    builder.share_templates()
    builder.collector = Collector(dict.fromkeys(builder.collector.problems))


def _replicated(builder: Builder) -> list[Replicated]:
    found: list[Replicated] = []
    for given in builder.spec.get("replicatedJobs").items():
        name = given.value["name"]
        if name in [job.name for job in found]:
            builder.refuse(given.get("name"), f"{name} stands here twice", "give it another name")
            continue
        if not NAME.fullmatch(name):
            hint = "use lower-case letters, digits and dashes, a letter first and no dash last"
            builder.refuse(given.get("name"), f'"{name}" cannot be in the name of a Job', hint)
            continue
        first = sum(job.jobs for job in found)
        jobs = given.value.get("replicas", 1)
        found.append(Replicated(name, given, jobs, _pods(builder, given), first))
    return found


def _pods(builder: Builder, given: SourceValue) -> int:
    """How many pods a Job has; all of them run at once here."""
    spec = given.get("template", "spec")
    together, whole = spec.get("parallelism"), spec.get("completions")
    at_once = 1 if together.value is None else int(together.value)
    if whole:
        if at_once < whole.value:
            message = f"{at_once} of {whole.value} pods run at a time; here all of them do"
            builder.differs(together or whole, message, f"write parallelism: {whole.value}")
        return int(whole.value)
    if together and spec.get("completionMode").value != "NonIndexed":
        message = "an Indexed Job needs completions, and a JobSet's Jobs are Indexed by default"
        builder.refuse(together, message, f"write completions: {at_once}")
    elif at_once > 1:
        message = "one pod that succeeds is enough for such a Job; here all of them must"
        builder.differs(together, message, "write completionMode: Indexed, and completions")
    return at_once


def _roles(builder: Builder, jobs: list[Replicated], job: Replicated) -> None:
    """Write a role for each Job; they differ in their labels alone."""
    words = _limits(builder, job)
    for word in ("manualSelector", "selector"):
        if job.spec.get(word):
            message = "the pods of a Job are found by the labels that mlgen gives them"
            builder.refuse(job.spec.get(word), message, "leave it out")
    if job.spec.get("managedBy").value != JOB_MANAGER:
        builder.put(("spec", "runPolicy", "managedBy"), job.spec.get("managedBy"))
    for word in ("labels", "annotations"):
        given = job.given.get("template", "metadata", word)
        if set(given.value or {}) - {EXCLUSIVE, LABELLED_NODES}:
            message = "a single Job has no labels and annotations of its own here"
            builder.differs(given, message, "write it into metadata, for all objects, or for pods")
    group = job.template.get("spec", POD_GROUP)
    if group:
        message = "the pods are of no pod group of Kubernetes' own here"
        builder.differs(group, message, "--set spec.scheduling.gang=volcano")
    for index, role in enumerate(job.roles):
        builder.role(role, _template(builder, jobs, job, index), job.main)
        for word, (source, value) in words.items():
            builder.put(("spec", "roles", role, word), source, value)


def _limits(builder: Builder, job: Replicated) -> Words:
    """How many pods there are, and how often they are started again."""
    spec, given = job.spec, job.template.get("spec", "restartPolicy")
    restart = given.value or "OnFailure"
    words: Words = {"restartPolicy": (given, restart)}
    count = spec.get("completions") or spec.get("parallelism")
    if count:
        words["replicas"] = (count, job.pods)
    for word in LIMITS:
        words[word] = (spec.get(word), None)
    if restart == "Always":
        builder.refuse(given, "the pods of a Job cannot restart always", "write OnFailure or Never")
    if restart != "Never":
        for word in ("podFailurePolicy", "backoffLimitPerIndex"):
            if spec.get(word):
                message = f"Kubernetes wants restartPolicy: Never for it; here it is {restart}"
                builder.refuse(spec.get(word), message, "write it into the pod template")
    else:
        if not spec.get("backoffLimit") and not spec.get("backoffLimitPerIndex"):
            words["backoffLimit"] = (spec.get("backoffLimit"), RETRIES)
        words |= _exit_codes(builder, job)
    replaced = spec.get("podReplacementPolicy")
    if replaced and (replaced.value == "Failed") != (restart == "Never"):
        when = "being deleted" if restart == "OnFailure" else "gone"
        builder.differs(replaced, f"here a pod is replaced when it is {when}", "leave it out")
    return words


def _exit_codes(builder: Builder, job: Replicated) -> Words:
    """What a podFailurePolicy says, where that is a set of exit codes that fail the Job."""
    permanent = _permanent(builder, job)
    limit = "backoffLimitPerIndex" if job.spec.get("backoffLimitPerIndex") else "backoffLimit"
    if not permanent or job.spec.get(limit).value == 0:
        return {}
    if permanent == EXIT_CODES:
        return {limit: (job.rules, 0)}
    words: Words = {"restartPolicy": (job.rules, "ExitCode")}
    if permanent != PERMANENT_EXIT_CODES:
        words["retryableExitCodes"] = (job.rules, sorted(EXIT_CODES - permanent))
    return words


def _permanent(builder: Builder, job: Replicated) -> set[int]:
    """The exit codes of the main container that fail the Job, or its index; the first rule wins."""
    action = dict.fromkeys(EXIT_CODES, "Count")
    left = set(EXIT_CODES)
    for rule in job.rules.items():
        _conditions(builder, rule)
        codes = left & _codes(builder, job, rule.get("onExitCodes"))
        action |= dict.fromkeys(codes, rule.value["action"])
        left -= codes
        if codes and rule.value["action"] == "Ignore":
            message = "such an end counts against backoffLimit here"
            builder.differs(rule.get("action"), message, "raise backoffLimit")
        if rule.value["action"] == "FailJob" and job.spec.get("backoffLimitPerIndex"):
            message = "with backoffLimitPerIndex it fails its index alone here"
            builder.differs(rule.get("action"), message, "write maxFailedIndexes: 0")
    return {code for code, what in action.items() if what.startswith("Fail")}


def _codes(builder: Builder, job: Replicated, given: SourceValue) -> set[int]:
    """The exit codes that a rule is about."""
    if not given:
        return set()
    main, name = job.main.value["name"], given.get("containerName").value
    if name not in (None, main) or (not name and job.template.value["spec"]["containers"][1:]):
        message = f"the exit code of {main} alone counts here"
        builder.differs(given, message, f"write containerName: {main}")
    if name not in (None, main):
        return set()
    values = set(given.value["values"])
    return {code for code in EXIT_CODES if (code in values) == (given.value["operator"] == "In")}


def _conditions(builder: Builder, rule: SourceValue) -> None:
    """A drained or preempted pod is replaced, and does not count, whatever its Job is."""
    for condition in rule.get("onPodConditions").items():
        if (condition.value["type"], rule.value["action"]) != ("DisruptionTarget", "Ignore"):
            message = "a pod that is drained or preempted is replaced here and does not count"
            if condition.value["type"] != "DisruptionTarget":
                message = "a pod is not judged by this condition here"
            builder.differs(condition, message, "leave the rule out")


def _template(builder: Builder, jobs: list[Replicated], job: Replicated, index: int) -> SourceValue:
    """The pod template of one Job, with what JobSet adds to it."""
    meta, spec = dict(job.template.value.get("metadata", {})), dict(job.template.value["spec"])
    for word in ("subdomain", POD_GROUP):
        spec.pop(word, None)
    marks = _marks(builder, jobs, job, index)
    topology = job.given.get("template", "metadata", "annotations", EXCLUSIVE).value
    topology = topology or builder.given.get("metadata", "annotations", EXCLUSIVE).value
    text = json.dumps(job.template.value)
    labels = {key: marks[key] for key in marks if f"'{key}'" in text or f'"{key}"' in text}
    notes = {key: marks[key] for key in marks if f"annotations['{key}']" in text}
    labels |= {key: marks[key] for key in (*IDENTITY, COORDINATOR) if key in marks}
    notes |= {key: marks[key] for key in (COORDINATOR,) if key in marks}
    if topology:
        labels[JOB_KEY] = marks[JOB_KEY]
        spec["affinity"] = _alone(spec.get("affinity", {}), topology)
    meta["labels"] = meta.get("labels", {}) | labels
    meta["annotations"] = meta.get("annotations", {}) | notes
    claims = [volume for volume in _claims(builder) if volume["name"] in _mounted(job)]
    spec["volumes"] = [*spec.get("volumes", []), *claims]
    return SourceValue({"metadata": meta, "spec": spec}, job.template.path)


def _marks(builder: Builder, jobs: list[Replicated], job: Replicated, index: int) -> dict[str, str]:
    """What JobSet writes on the pods of one Job, as labels and as annotations."""
    group = [other for other in jobs if other.group == job.group]
    before = sum(other.jobs for other in group if other.first < job.first)
    namespace = builder.given.get("metadata", "namespace").value or ""
    job_name = f"{namespace}/{builder.name}-{job.name}-{index}"
    found = {
        "jobset-name": builder.name,
        "replicatedjob-name": job.name,
        "replicatedjob-replicas": job.jobs,
        "global-replicas": sum(other.jobs for other in jobs),
        "job-index": index,
        "job-global-index": job.first + index,
        "job-key": sha1(job_name.encode(), usedforsecurity=False).hexdigest(),
        "restart-attempt": 0,
        "group-name": job.group,
        "group-replicas": sum(other.jobs for other in group),
        "job-group-index": before + index,
    }
    leader = builder.spec.get("coordinator").value
    if leader:
        numbers = f"{leader.get('jobIndex', 0)}-{leader.get('podIndex', 0)}"
        found["coordinator"] = f"{builder.name}-{leader['replicatedJob']}-{numbers}.{builder.name}"
    return {f"{MARK}{word}": str(value) for word, value in found.items()}


def _alone(affinity: dict[str, Any], topology: str) -> dict[str, Any]:
    """An affinity by which a Job's pods are together where those of no other such Job are."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    everyone = {"matchExpressions": [{"key": f"{MARK}jobset-name", "operator": "Exists"}]}
    found = dict(affinity)
    for word, keys in (("podAffinity", "matchLabelKeys"), ("podAntiAffinity", "mismatchLabelKeys")):
        term = {"topologyKey": topology, "labelSelector": everyone, "namespaceSelector": {}}
        given = found.get(word, {})
        found[word] = given | {required: [*given.get(required, []), term | {keys: [JOB_KEY]}]}
    return found


def _claims(builder: Builder) -> list[dict[str, Any]]:
    """The volumes of the claims that JobSet makes, called `<claim>-<JobSet>`."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{builder.name}"}}
        for policy in builder.spec.get("volumeClaimPolicies").items()
        for claim in policy.get("templates").items()
        if (name := claim.value["metadata"].get("name"))
    ]


def _mounted(job: Replicated) -> set[str]:
    pod = job.template.value["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    return {mount["name"] for item in containers for mount in item.get("volumeMounts", [])}


def _order(builder: Builder, jobs: list[Replicated]) -> None:
    """Write what each Job waits for: those that are ready before it is made."""
    policy = builder.spec.get("startupPolicy", "startupPolicyOrder")
    for position, job in enumerate(jobs):
        earlier = {other.name: other for other in jobs[:position]}
        waits: list[dict[str, str]] = []
        for needed in job.given.get("dependsOn").items():
            if policy.value == "InOrder":
                message = "startupPolicy InOrder and dependsOn cannot be together"
                builder.refuse(needed, message, "keep dependsOn")
            elif needed.value["name"] not in earlier:
                message = f"{job.name} can only depend on a replicated Job that stands before it"
                hint = did_you_mean(needed.value["name"], earlier) or "change their order"
                builder.refuse(needed.get("name"), message, hint)
            elif needed.value["status"] == "Complete":
                _complete(builder, needed, job, earlier[needed.value["name"]])
            else:
                waits += _ready(builder, earlier[needed.value["name"]])
        source = job.given.get("dependsOn") or policy
        if policy.value == "InOrder" and position:
            waits += _ready(builder, jobs[position - 1])
        for role in job.roles if waits else ():
            builder.put(("spec", "roles", role, "waitFor"), source, waits)
        _timeout(builder, job, waits)


def _complete(builder: Builder, needed: SourceValue, job: Replicated, first: Replicated) -> None:
    pods = _selector(builder, first.roles)
    builder.differs(
        needed,
        f"{job.name} is made when {first.name} has completed; here both start at once",
        f"first apply it alone and wait: kubectl apply -f - and kubectl wait"
        f" --for=condition=complete jobs, both with -l {pods}",
    )


def _selector(builder: Builder, roles: Iterable[str]) -> str:
    """What tells kubectl which Jobs are meant: those of these roles, or all."""
    others = f",mlgen.dev/role in ({','.join(roles)})" if set(roles) != set(builder.roles) else ""
    return f"'mlgen.dev/job={builder.name}{others}'"


def _ready(builder: Builder, job: Replicated) -> Iterator[dict[str, str]]:
    """A pod is ready when its probe says so, or without one as soon as it runs."""
    port = _probed(job)
    for role in job.roles if job.pods else ():
        if port:
            builder.put(("spec", "roles", role, "port"), port)
            yield {"role": role}
        else:
            yield {"role": role, "until": "name"}


def _probed(job: Replicated) -> SourceValue | None:
    """The port that a probe of the main container asks, by number or by its name."""
    for probe in (job.main.get("readinessProbe"), job.main.get("startupProbe")):
        for how in ("tcpSocket", "httpGet", "grpc"):
            port = probe.get(how, "port")
            named = [p for p in job.main.get("ports").items() if p.value.get("name") == port.value]
            if isinstance(port.value, int) or (port and named):
                return port if isinstance(port.value, int) else named[0].get("containerPort")
    return None


def _timeout(builder: Builder, job: Replicated, waits: list[dict[str, str]]) -> None:
    """Waiting ends before the deadline of who waits, to say what was missing."""
    deadline = job.spec.get("activeDeadlineSeconds") or builder.spec.get("activeDeadlineSeconds")
    limit = builder.data["spec"].get("wait", {}).get("timeoutSeconds", WaitPolicy().timeout_seconds)
    if waits and deadline and deadline.value <= limit:
        builder.put(("spec", "wait", "timeoutSeconds"), deadline, max(1, deadline.value - 1))


def _success(builder: Builder, jobs: list[Replicated]) -> None:
    """Write which Job decides: JobSet looks at several, here the end of one is the end."""
    policy = builder.spec.get("successPolicy")
    names = [job.name for job in jobs]
    targets = policy.get("targetReplicatedJobs")
    _known(builder, targets.items(), names)
    source = targets or policy or builder.spec.get("replicatedJobs")
    able = [j for j in jobs if j.name in (targets.value or names) and j.jobs and j.pods]
    if not able:
        if not builder.collector.has_errors:
            builder.refuse(source, "no Job of these has a pod", "write replicas and completions")
        return
    decider, index = _leader(builder, jobs, able)
    role = decider.roles[index]
    earlier = _done_before(decider, jobs)
    whole = sum(job.jobs for job in jobs)
    if whole > 1:
        builder.put(("spec", "successPolicy", "role"), source, role)
    _enough(builder, jobs, decider if decider.jobs == 1 else None)
    rest = [job for job in able if job.name not in earlier]
    if sum(job.jobs for job in rest) > 1:
        _several(builder, source, role, rest)
    elif whole - sum(job.jobs for job in jobs if job.name in earlier) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), source, "Running")


def _several(builder: Builder, source: SourceValue, role: str, rest: list[Replicated]) -> None:
    """JobSet heeds the ends of several Jobs."""
    if builder.spec.get("successPolicy", "operator").value == "Any":
        message = f"the first Job that completes ends the JobSet; here {role} does"
        builder.differs(source, message, "target a replicated Job with one Job alone")
        return
    roles = [role for job in rest for role in job.roles]
    builder.differs(
        source,
        f"the JobSet has completed when all of {len(roles)} Jobs have; here {role} decides",
        "then wait for all of them: kubectl wait --for=condition=complete jobs"
        f" -l {_selector(builder, roles)}",
    )


def _leader(
    builder: Builder, jobs: list[Replicated], able: list[Replicated]
) -> tuple[Replicated, int]:
    """The Job for whose end others would wait: where the coordinator is, or the first.

    Not one on which others depend, as long as there is another.
    """
    awaited = {d.value["name"] for job in jobs for d in job.given.get("dependsOn").items()}
    if builder.spec.get("startupPolicy", "startupPolicyOrder").value == "InOrder":
        awaited = {job.name for job in jobs[:-1]}
    free = [job for job in able if job.name not in awaited] or able
    given = builder.spec.get("coordinator")
    for job in free:
        index = given.get("jobIndex").value or 0
        if given and given.value["replicatedJob"] == job.name and index < job.jobs:
            return job, index
    return free[0], 0


def _done_before(job: Replicated, jobs: list[Replicated]) -> set[str]:
    """The replicated Jobs that have completed before this one is made."""
    found: set[str] = set()
    for needed in job.given.get("dependsOn").items():
        for other in jobs:
            if other.name == needed.value["name"] and other.first < job.first:
                found |= _done_before(other, jobs)
                found |= {other.name} if needed.value["status"] == "Complete" else set()
    return found


def _enough(builder: Builder, jobs: list[Replicated], decider: Replicated | None) -> None:
    """Write how many pods of the deciding Job are enough."""
    for job in jobs:
        rules = job.spec.get("successPolicy", "rules")
        if not rules:
            continue
        only = rules.value[0] if len(rules.value) == 1 else {}
        count = only.get("succeededCount")
        if job is decider and only.get("succeededIndexes") == "0" and count in (None, 1):
            builder.put(("spec", "successPolicy", "replicas"), rules, "First")
        elif job is decider and count is not None and "succeededIndexes" not in only:
            builder.put(("spec", "successPolicy", "replicas"), rules, count)
        else:
            message = f"such pods are enough for {job.name}; here it completes with all of its pods"
            hint = "write one rule with succeededIndexes: '0' or with succeededCount"
            builder.differs(
                rules, message, hint if job is decider else "delete the Job when they end"
            )


def _known(builder: Builder, given: Iterable[SourceValue], names: list[str]) -> None:
    for item in given:
        if item.value not in names:
            hint = did_you_mean(item.value, names) or f"there are: {', '.join(names)}"
            builder.refuse(item, f"there is no replicated Job {item.value}", hint)


def _whole(builder: Builder, jobs: list[Replicated]) -> None:
    """Write what holds for the whole set."""
    spec, names = builder.spec, [job.name for job in jobs]
    for word in ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        builder.put(("spec", "runPolicy", word), spec.get(word))
    if spec.get("managedBy").value != MANAGER:
        builder.put(("spec", "runPolicy", "managedBy"), spec.get("managedBy"))
    _ttl(builder, jobs)
    failure = spec.get("failurePolicy")
    for rule in failure.get("rules").items():
        _known(builder, rule.get("targetReplicatedJobs").items(), names)
    if failure.get("maxRestarts").value or failure.get("rules").value:
        message = "JobSet restarts or ends all Jobs by it; here a failed Job stays so, alone"
        hint = "raise backoffLimit, or let a workflow delete the job and start it again"
        builder.differs(failure, message, hint)
    if spec.get("scheduling"):
        message = "JobSet makes Kubernetes' own pod groups of it; here none is formed"
        builder.differs(spec.get("scheduling"), message, "--set spec.scheduling.gang=volcano")
    _coordinator(builder, jobs)
    _claimed(builder, jobs)
    _placement(builder, jobs)


def _ttl(builder: Builder, jobs: list[Replicated]) -> None:
    """The Jobs' own, where the set has none: a JobSet would make a Job anew that is gone."""
    for job in jobs:
        given = job.spec.get("ttlSecondsAfterFinished")
        whole = builder.data["spec"].get("runPolicy", {}).get("ttlSecondsAfterFinished")
        if given and whole is None:
            builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), given)
        elif given and given.value != whole:
            message = f"all Jobs are deleted after {whole} s here"
            builder.differs(given, message, "write spec.ttlSecondsAfterFinished alone")


def _coordinator(builder: Builder, jobs: list[Replicated]) -> None:
    given = builder.spec.get("coordinator")
    if not given:
        return
    _known(builder, [given.get("replicatedJob")], [job.name for job in jobs])
    for job in jobs:
        if job.name == given.value["replicatedJob"]:
            for word, count in (("jobIndex", job.jobs), ("podIndex", job.pods)):
                index = given.get(word)
                if (index.value or 0) >= count:
                    message = f"there is no {word} {index.value} in {job.name}"
                    builder.refuse(index, message, f"write at most {count - 1}")


def _claimed(builder: Builder, jobs: list[Replicated]) -> None:
    mounted = {name for job in jobs for name in _mounted(job)}
    for policy in builder.spec.get("volumeClaimPolicies").items():
        for claim in policy.get("templates").items():
            name = claim.value["metadata"].get("name", "")
            if name not in mounted:
                message = f"no container mounts the claim {name}"
                builder.refuse(claim, message, "mount it, or leave it out")
            else:
                message = f"JobSet makes the PersistentVolumeClaim {name}-{builder.name}"
                builder.differs(claim, message, "write it into a file of its own, with this spec")


def _placement(builder: Builder, jobs: list[Replicated]) -> None:
    """The annotations that were for JobSet alone are not handed on."""
    notes = builder.data["metadata"].get("annotations", {})
    notes.pop(EXCLUSIVE, None)
    if not notes:
        builder.data["metadata"].pop("annotations", None)
    places = [builder.given.get("metadata")]
    places += [job.given.get("template", "metadata") for job in jobs]
    for place in places:
        given = place.get("annotations", LABELLED_NODES)
        if given:
            message = "the Jobs go to free nodes here, not to those that a script has labelled"
            builder.differs(given, message, "leave it out, or write nodeSelector yourself")


def _network(builder: Builder, jobs: list[Replicated]) -> None:
    """Pods are reached as `<JobSet>-<replicated Job>-<Job>-<pod>.<JobSet>`."""
    network = builder.spec.get("network")
    subdomain = network.get("subdomain")
    if subdomain and subdomain.value != builder.name:
        message = f"pods are reached as ….{builder.name} here, not as ….{subdomain.value}"
        builder.differs(subdomain, message, f"write .{builder.name} for .{subdomain.value}")
    if network.get("publishNotReadyAddresses").value is False:
        message = "the addresses of pods are known before they are ready here"
        builder.differs(network.get("publishNotReadyAddresses"), message, "try until they answer")
    if builder.given.value["apiVersion"] == OLD:
        _subdomains(builder, jobs)


def _subdomains(builder: Builder, jobs: list[Replicated]) -> None:
    """In v1alpha1 each replicated Job had a subdomain of its own."""
    for domain in [f"{builder.name}-{job.name}" for job in jobs]:
        for job in jobs:
            if f".{domain}" in json.dumps(job.template.value):
                message = f"pods are reached as ….{builder.name} here, not as ….{domain}"
                builder.differs(job.template, message, f"write .{builder.name} for .{domain}")


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXTS = _list(TEXT)

CONDITION = mapping({"type": TEXT, "status": TEXT}, "type")
EXITS = mapping(
    {
        "containerName": TEXT,
        "operator": {"enum": ["In", "NotIn"]},
        "values": _list(COUNT),
    },
    "operator",
    "values",
)
POD_RULE = mapping(
    {
        "action": {"enum": ["FailJob", "FailIndex", "Ignore", "Count"]},
        "onExitCodes": EXITS,
        "onPodConditions": _list(CONDITION),
    },
    "action",
)
ENOUGH = mapping({"succeededIndexes": TEXT, "succeededCount": COUNT})

JOB = mapping(
    {
        "template": TEMPLATE,
        "completions": COUNT,
        "parallelism": COUNT,
        "completionMode": {"enum": ["Indexed", "NonIndexed"]},
        "activeDeadlineSeconds": COUNT,
        "backoffLimit": COUNT,
        "backoffLimitPerIndex": COUNT,
        "maxFailedIndexes": COUNT,
        "podFailurePolicy": mapping({"rules": _list(POD_RULE)}, "rules"),
        "podReplacementPolicy": {"enum": ["TerminatingOrFailed", "Failed"]},
        "successPolicy": mapping({"rules": _list(ENOUGH)}, "rules"),
        "ttlSecondsAfterFinished": COUNT,
        "suspend": SWITCH,
        "managedBy": TEXT,
        "manualSelector": SWITCH,
        "selector": {"type": "object"},
    },
    "template",
)


def _replicated_jobs(**fields: Any) -> dict[str, Any]:
    words = {
        "name": {**TEXT, "minLength": 1, "examples": ["worker"]},
        "replicas": COUNT,
        "template": mapping({"metadata": METADATA, "spec": JOB}, "spec"),
    }
    return _list(mapping(words | fields, "name", "template")) | {"minItems": 1}


SUCCESS = mapping(
    {"operator": {"enum": ["All", "Any"]}, "targetReplicatedJobs": TEXTS},
    "operator",
)

REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
    "RecreateJob",
)
RULE = mapping(
    {
        "name": TEXT,
        "action": {"enum": list(ACTIONS)},
        "onJobFailureReasons": _list({"enum": list(REASONS)}),
        "onJobFailureMessagePatterns": TEXTS,
        "targetReplicatedJobs": TEXTS,
    },
    "action",
)
FAILURE = mapping(
    {
        "maxRestarts": COUNT,
        "restartStrategy": {"enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"]},
        "rules": _list(RULE),
    }
)
DEPENDS = mapping({"name": TEXT, "status": {"enum": ["Ready", "Complete"]}}, "name", "status")
CLAIM = mapping(
    {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": METADATA,
        "spec": {"type": "object"},
        "status": {},
    },
    "metadata",
    "spec",
)
CLAIMS = mapping(
    {
        "templates": _list(CLAIM),
        "retentionPolicy": mapping({"whenDeleted": {"enum": ["Delete", "Retain"]}}),
    }
)

V1ALPHA2 = mapping(
    {
        "replicatedJobs": _replicated_jobs(groupName=TEXT, dependsOn=_list(DEPENDS)),
        "network": mapping(
            {"enableDNSHostnames": SWITCH, "subdomain": TEXT, "publishNotReadyAddresses": SWITCH}
        ),
        "successPolicy": SUCCESS,
        "failurePolicy": FAILURE,
        "startupPolicy": mapping({"startupPolicyOrder": {"enum": ["AnyOrder", "InOrder"]}}),
        "suspend": SWITCH,
        "coordinator": mapping(
            {"replicatedJob": TEXT, "jobIndex": COUNT, "podIndex": COUNT}, "replicatedJob"
        ),
        "managedBy": TEXT,
        "ttlSecondsAfterFinished": COUNT,
        "activeDeadlineSeconds": COUNT,
        "volumeClaimPolicies": _list(CLAIMS),
        "scheduling": {"type": "object"},
    },
    "replicatedJobs",
)

V1ALPHA1 = mapping(
    {
        "replicatedJobs": _replicated_jobs(network=mapping({"enableDNSHostnames": SWITCH})),
        "successPolicy": SUCCESS,
        "failurePolicy": mapping({"maxRestarts": COUNT}),
        "suspend": SWITCH,
    },
    "replicatedJobs",
)

OLD = "jobset.x-k8s.io/v1alpha1"

DIALECT = Dialect(
    groups=("jobset.x-k8s.io",),
    kinds={
        ("jobset.x-k8s.io/v1alpha2", "JobSet"): Kind(V1ALPHA2, _jobset),
        (OLD, "JobSet"): Kind(V1ALPHA1, _jobset),
    },
)
