"""JobSet: sets of Jobs that are one workload, jobset.x-k8s.io/v1alpha2 and v1alpha1.

Each Job of a set becomes a role of the framework `generic`, so its pods have the same host names
as in JobSet: `<JobSet>-<replicated Job>-<Job index>-<pod index>.<JobSet>`. `jobs` reads the
replicated Jobs, and `restarts` says how they restart. Sources, in kubernetes-sigs/jobset:
api/jobset/v1alpha2 and v1alpha1 for fields; pkg/webhooks for defaults and rejections, and
pod_mutating_webhook.go there for exclusive placement; pkg/controllers for behavior:
jobset_controller.go, success_policy.go, failure_policy.go and volume_claim_policy.go.
"""

import json
from hashlib import sha1
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder, Dialect, SourceValue
from mlgen.dialects.jobset.jobs import (
    ReplicatedJob,
    are_too_many,
    completed_before,
    read_replicated_jobs,
    require_names,
    write_startup_order,
)
from mlgen.dialects.jobset.restarts import Restarts, read_restarts, retry_fields, write_restarts
from mlgen.problems import Collector

PREFIX = "jobset.sigs.k8s.io/"
"""The prefix of JobSet's labels, and of its annotations, which have the same values."""

JOB_KEY = f"{PREFIX}job-key"
COORDINATOR = f"{PREFIX}coordinator"

SELECTED_BY = tuple(
    f"{PREFIX}{name}"
    for name in (
        "jobset-name",
        "replicatedjob-name",
        "replicatedjob-replicas",
        "global-replicas",
        "job-index",
        "job-global-index",
    )
)
"""Labels that every pod gets, because users select pods by them.

A pod gets any other label only if its template refers to it.
"""

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"

PLACEMENT = (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR)
"""Annotations that only JobSet's controller reads."""


def pod_metadata(
    builder: Builder, jobs: list[ReplicatedJob], job: ReplicatedJob, index: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that JobSet adds to the pods of one Job."""
    values = _values(builder, jobs, job, index)
    text = json.dumps(job.pod_template.value)
    labels = {key: values[key] for key in values if f"'{key}'" in text or f'"{key}"' in text}
    annotations = {key: values[key] for key in values if f"annotations['{key}']" in text}
    labels |= {key: values[key] for key in (*SELECTED_BY, COORDINATOR) if key in values}
    if COORDINATOR in values:
        annotations[COORDINATOR] = values[COORDINATOR]
    if exclusive_topology(builder, job):
        labels[JOB_KEY] = values[JOB_KEY]
    return labels, annotations


def _values(
    builder: Builder, jobs: list[ReplicatedJob], job: ReplicatedJob, index: int
) -> dict[str, str]:
    """Return the value of each label of JobSet, for one Job."""
    group = [other for other in jobs if other.group == job.group]
    jobs_before = sum(o.job_count for o in group if o.first_index < job.first_index)
    namespace = builder.resource.get("metadata", "namespace").value or ""
    job_name = f"{namespace}/{builder.name}-{job.name}-{index}"
    values = {
        "jobset-name": builder.name,
        "replicatedjob-name": job.name,
        "replicatedjob-replicas": job.job_count,
        "global-replicas": sum(other.job_count for other in jobs),
        "job-index": index,
        "job-global-index": job.first_index + index,
        "job-key": sha1(job_name.encode(), usedforsecurity=False).hexdigest(),
        "restart-attempt": 0,
        "group-name": job.group,
        "group-replicas": sum(other.job_count for other in group),
        "job-group-index": jobs_before + index,
    }
    leader = builder.spec.get("coordinator").value
    if leader:
        indexes = f"{leader.get('jobIndex', 0)}-{leader.get('podIndex', 0)}"
        host = f"{builder.name}-{leader['replicatedJob']}-{indexes}"
        values["coordinator"] = f"{host}.{builder.name}"
    return {f"{PREFIX}{name}": str(value) for name, value in values.items()}


def exclusive_topology(builder: Builder, job: ReplicatedJob) -> str | None:
    """Return the node label of the domain that a Job has for itself, or None."""
    own = job.source.get("template", "metadata", "annotations", EXCLUSIVE_TOPOLOGY).value
    key = own or builder.resource.get("metadata", "annotations", EXCLUSIVE_TOPOLOGY).value
    return str(key) if key else None


def exclusive_affinity(affinity: dict[str, Any], topology_key: str) -> dict[str, Any]:
    """Return the affinity of a pod, extended so that its Job has a topology domain for itself.

    Pods of the same Job attract each other, and repel the pods of all other Jobs of JobSets.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    of_jobsets = {"matchExpressions": [{"key": f"{PREFIX}jobset-name", "operator": "Exists"}]}
    term = {"topologyKey": topology_key, "labelSelector": of_jobsets, "namespaceSelector": {}}
    extended = dict(affinity)
    for field, keys in (
        ("podAffinity", "matchLabelKeys"),
        ("podAntiAffinity", "mismatchLabelKeys"),
    ):
        rules = extended.get(field, {})
        terms = [*rules.get(required, []), term | {keys: [JOB_KEY]}]
        extended[field] = rules | {required: terms}
    return extended


def drop_placement_annotations(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Remove the annotation for exclusive placement; report the one for labelled nodes."""
    annotations = builder.data["metadata"].get("annotations", {})
    annotations.pop(EXCLUSIVE_TOPOLOGY, None)
    if not annotations:
        builder.data["metadata"].pop("annotations", None)
    metadata = [builder.resource.get("metadata")]
    metadata += [job.source.get("template", "metadata") for job in jobs]
    for source in metadata:
        annotation = source.get("annotations", NODE_SELECTOR)
        if annotation:
            message = "JobSet selects nodes that were labelled for each Job; here any node is used"
            hint = "remove it, or write nodeSelector in the pod template"
            builder.differs(annotation, message, hint)


def claim_volumes(builder: Builder) -> list[dict[str, Any]]:
    """Return a volume of a pod for each claim template that has a name."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{builder.name}"}}
        for policy in builder.spec.get("volumeClaimPolicies").items()
        for claim in policy.get("templates").items()
        if (name := claim.value["metadata"].get("name"))
    ]


def mounted_volumes(job: ReplicatedJob) -> set[str]:
    """Return the names of the volumes that containers of a replicated Job mount."""
    pod = job.pod_template.value["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    return {mount["name"] for item in containers for mount in item.get("volumeMounts", [])}


def write_claims(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write each claim, which a container must mount; report what differs when it is deleted."""
    mounted = {name for job in jobs for name in mounted_volumes(job)}
    for policy in builder.spec.get("volumeClaimPolicies").items():
        is_kept = policy.get("retentionPolicy", "whenDeleted").value != "Delete"
        for claim in policy.get("templates").items():
            name = claim.value["metadata"].get("name")
            if not name:
                builder.refuse(claim, "the claim has no name", "write metadata.name")
            elif name not in mounted:
                message = f'no container mounts the claim "{name}"'
                builder.refuse(claim, message, "mount it, or remove it")
            else:
                claim_name = f"{name}-{builder.name}"
                builder.put(("spec", "claims", claim_name), claim.get("spec"))
                _report_differences(builder, claim, claim_name, is_kept=is_kept)


def _report_differences(builder: Builder, claim: SourceValue, name: str, *, is_kept: bool) -> None:
    """Report when the claim is deleted, and metadata that it does not get."""
    ttl = builder.spec.get("ttlSecondsAfterFinished")
    if is_kept:
        message = f"JobSet keeps {name} when it is deleted; here kubectl delete -f deletes it"
        hint = f"delete the job by its label: mlgen.dev/job={builder.name}"
        builder.differs(claim, message, hint)
    elif ttl:
        message = f"JobSet deletes {name} {ttl.value} s after the end; here it is kept"
        builder.differs(claim, message, f"run kubectl delete pvc {quote(name)}")
    for field in ("labels", "annotations"):
        value = claim.get("metadata", field)
        if value.value:
            message = f"here the claim does not get these {field}"
            builder.differs(value, message, "remove them, or apply the claim yourself")


JOB_CONTROLLER = "kubernetes.io/job-controller"
"""The value of `managedBy` of a Job that Kubernetes itself manages."""

SCHEDULING_GROUP = "schedulingGroup"
"""The field of a pod that names its PodGroup in Kubernetes' own API."""

GANG_HINT = "for gang scheduling, pass --set spec.scheduling.gang=volcano"


def write_roles(
    builder: Builder,
    jobs: list[ReplicatedJob],
    job: ReplicatedJob,
    restarts: Restarts,
) -> None:
    """Write a role for each Job of a replicated Job; the roles differ only in their labels."""
    fields = retry_fields(builder, job, restarts)
    _report_job_fields(builder, job)
    for index, role in enumerate(job.roles):
        template = _pod_template(builder, jobs, job, index)
        builder.role(role, template, job.main_container)
        for name, (source, value) in fields.items():
            builder.put(("spec", "roles", role, name), source, value)


def _report_job_fields(builder: Builder, job: ReplicatedJob) -> None:
    """Report the fields of a Job that are rejected or not rendered; write `managedBy`."""
    spec = job.spec
    for name in ("manualSelector", "selector"):
        if spec.get(name):
            message = "mlgen sets the selector of each Job"
            builder.refuse(spec.get(name), message, "remove it")
    if spec.get("managedBy").value != JOB_CONTROLLER:
        builder.put(("spec", "runPolicy", "managedBy"), spec.get("managedBy"))
    for name in ("labels", "annotations"):
        metadata = job.source.get("template", "metadata", name)
        if set(metadata.value or {}) - set(PLACEMENT):
            message = f"{name} of a single Job are not rendered"
            hint = f"write {name} in metadata for all objects, or in the pod template for pods"
            builder.differs(metadata, message, hint)
    group = job.pod_template.get("spec", SCHEDULING_GROUP)
    if group:
        message = "Kubernetes' own pod groups are not rendered"
        builder.differs(group, message, GANG_HINT)


def _pod_template(
    builder: Builder, jobs: list[ReplicatedJob], job: ReplicatedJob, index: int
) -> SourceValue:
    """Return the pod template of one Job, with the fields that JobSet adds to it."""
    template = job.pod_template
    metadata, spec = dict(template.value.get("metadata", {})), dict(template.value["spec"])
    for name in ("subdomain", SCHEDULING_GROUP):
        spec.pop(name, None)
    topology_key = exclusive_topology(builder, job)
    if topology_key:
        spec["affinity"] = exclusive_affinity(spec.get("affinity", {}), topology_key)
    labels, annotations = pod_metadata(builder, jobs, job, index)
    metadata["labels"] = metadata.get("labels", {}) | labels
    metadata["annotations"] = metadata.get("annotations", {}) | annotations
    mounted = mounted_volumes(job)
    claims = [volume for volume in claim_volumes(builder) if volume["name"] in mounted]
    spec["volumes"] = [*spec.get("volumes", []), *claims]
    return SourceValue({"metadata": metadata, "spec": spec}, template.path)


def check_network(builder: Builder) -> None:
    """Report a subdomain other than the JobSet's name, and names that resolve only when ready."""
    network = builder.spec.get("network")
    subdomain, not_ready = network.get("subdomain"), network.get("publishNotReadyAddresses")
    if subdomain and subdomain.value != builder.name:
        message = f"here the subdomain of the pods is {builder.name}, not {subdomain.value}"
        hint = f"replace .{subdomain.value} with .{builder.name} in addresses"
        builder.differs(subdomain, message, hint)
    if not_ready.value is False:
        message = "here the names of pods resolve before the pods are ready"
        builder.differs(not_ready, message, "retry connections until they are accepted")


def check_v1alpha1_addresses(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Report addresses in v1alpha1's own form, with a subdomain for each replicated Job."""
    texts = [json.dumps(job.pod_template.value) for job in jobs]
    for subdomain in [f"{builder.name}-{job.name}" for job in jobs]:
        for job, text in zip(jobs, texts, strict=True):
            if f".{subdomain}" in text:
                message = f"here the subdomain of the pods is {builder.name}, not {subdomain}"
                hint = f"replace .{subdomain} with .{builder.name} in addresses"
                builder.differs(job.pod_template, message, hint)


CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
"""The value of `managedBy` of a JobSet that JobSet itself manages."""


def write_policies(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write `spec.runPolicy`; report what is not rendered."""
    spec = builder.spec
    for name in ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        builder.put(("spec", "runPolicy", name), spec.get(name))
    if spec.get("managedBy").value != CONTROLLER:
        builder.put(("spec", "runPolicy", "managedBy"), spec.get("managedBy"))
    _write_ttl(builder, jobs)
    if spec.get("scheduling"):
        message = "JobSet creates Kubernetes' own pod groups; here they are not rendered"
        builder.differs(spec.get("scheduling"), message, GANG_HINT)
    _check_coordinator(builder, jobs)


def _write_ttl(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write the TTL of the Jobs if the JobSet has none; report Jobs with another one.

    The TTL is that of the whole job.
    """
    for job in jobs:
        ttl = job.spec.get("ttlSecondsAfterFinished")
        seconds = builder.data["spec"].get("runPolicy", {}).get("ttlSecondsAfterFinished")
        if ttl and seconds is None:
            builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), ttl)
        elif ttl and ttl.value != seconds:
            message = f"here all Jobs are deleted {seconds} s after the job has finished"
            builder.differs(ttl, message, "write only spec.ttlSecondsAfterFinished")


def _check_coordinator(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Report a coordinator that is not one of the pods."""
    coordinator = builder.spec.get("coordinator")
    if not coordinator:
        return
    name = coordinator.get("replicatedJob")
    require_names(builder, [name], jobs)
    for job in jobs:
        if job.name == name.value:
            for field, unit, count in (
                ("jobIndex", "Jobs", job.job_count),
                ("podIndex", "pods", job.pod_count),
            ):
                index = coordinator.get(field)
                number = index.value or 0
                if number >= count:
                    message = f"expected an index below {count}, got {number}"
                    hint = f"the {unit} of {job.name} are counted from 0"
                    builder.refuse(index, message, hint)


def write_success_policy(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write the deciding roles, how many pods must succeed, and the cleanup of the rest."""
    policy = builder.spec.get("successPolicy")
    targets = policy.get("targetReplicatedJobs")
    require_names(builder, targets.items(), jobs)
    source = targets or policy or builder.spec.get("replicatedJobs")
    candidates = [
        job for job in jobs if job.has_pods and (not targets.value or job.name in targets.value)
    ]
    if not candidates:
        if not builder.collector.has_errors:
            hint = "write replicas and completions of at least 1"
            builder.refuse(source, "none of these Jobs has a pod", hint)
        return
    is_any = policy.get("operator").value == "Any"
    completed = frozenset[str]().union(
        *[completed_before(builder, candidate, jobs) for candidate in candidates]
    )
    if not is_any:
        candidates = [candidate for candidate in candidates if candidate.name not in completed]
    roles = [role for job in candidates for role in job.roles]
    if roles[1:]:
        builder.put(("spec", "successPolicy", "roles"), source, roles)
        if is_any:
            _write_any(builder, policy)
    elif _job_count(jobs) > 1:
        builder.put(("spec", "successPolicy", "role"), source, roles[0])
        _refuse_later_jobs(builder, jobs, candidates[0])
    _write_success_count(builder, jobs, None if roles[1:] else candidates[0])
    if _job_count(jobs, completed) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), source, "Running")


def _write_any(builder: Builder, policy: SourceValue) -> None:
    """Write that one Job is enough; report that the others may fail."""
    operator = policy.get("operator")
    builder.put(("spec", "successPolicy", "operator"), operator)
    message = (
        "JobSet fails with the first Job that fails; here the job fails when all of these have"
    )
    builder.differs(operator, message, "target one replicated Job with replicas: 1")


def _refuse_later_jobs(builder: Builder, jobs: list[ReplicatedJob], decider: ReplicatedJob) -> None:
    """Report Jobs that wait until the set has completed."""
    for job in jobs:
        for dependency in job.source.get("dependsOn").items():
            waits = dependency.value == {"name": decider.name, "status": "Complete"}
            if waits and job.has_pods:
                message = f"when {decider.name} has completed, so has the set"
                hint = f"add {job.name} to targetReplicatedJobs of successPolicy"
                builder.refuse(dependency, f"{message}: {job.name} never starts", hint)


def _job_count(jobs: list[ReplicatedJob], without: frozenset[str] = frozenset()) -> int:
    """Return the number of Jobs, without those of some replicated Jobs."""
    return sum(other.job_count for other in jobs if other.name not in without)


def _write_success_count(
    builder: Builder, jobs: list[ReplicatedJob], decider: ReplicatedJob | None
) -> None:
    """Write the number of pods that must succeed, from the successPolicy of the deciding Job.

    `decider` is None if several Jobs decide: then each policy is reported.
    """
    for job in jobs:
        rules = job.spec.get("successPolicy", "rules")
        if not rules:
            continue
        only_rule = rules.value[0] if len(rules.value) == 1 else {}
        indexes, count = only_rule.get("succeededIndexes"), only_rule.get("succeededCount")
        decides = job is decider
        if decides and indexes == "0" and count in (None, 1):
            builder.put(("spec", "successPolicy", "replicas"), rules, "First")
        elif decides and count is not None and "succeededIndexes" not in only_rule:
            builder.put(("spec", "successPolicy", "replicas"), rules, count)
        else:
            message = f"here {job.name} completes only when all of its pods have succeeded"
            hint = "write one rule with succeededIndexes: '0' or with succeededCount"
            if not decides:
                hint = "delete the Job when these pods have succeeded"
            builder.differs(rules, message, hint)


GROUP = "jobset.x-k8s.io"


def _convert_v1alpha2(builder: Builder) -> None:
    """Write the TrainingJob of a JobSet."""
    jobs = read_replicated_jobs(builder)
    _convert(builder, jobs)


def _convert_v1alpha1(builder: Builder) -> None:
    """Write the TrainingJob of a JobSet whose pods may use v1alpha1's form of addresses."""
    jobs = read_replicated_jobs(builder)
    _convert(builder, jobs)
    check_v1alpha1_addresses(builder, jobs)


def _convert(builder: Builder, jobs: list[ReplicatedJob]) -> None:
    """Write the parts of a TrainingJob that are the same in both versions."""
    if are_too_many(builder, jobs):
        return
    kind = builder.resource.get("kind")
    builder.put(("spec", "framework"), kind, "generic")
    builder.put(("spec", "options", "addresses"), kind, value=False)
    restarts = read_restarts(builder, jobs)
    for job in jobs:
        write_roles(builder, jobs, job, restarts)
    write_startup_order(builder, jobs)
    write_success_policy(builder, jobs)
    write_restarts(builder, jobs, restarts)
    write_policies(builder, jobs)
    write_claims(builder, jobs)
    drop_placement_annotations(builder, jobs)
    check_network(builder)
    builder.share_templates()
    # The roles of a replicated Job have one pod template, whose problems each role has reported.
    builder.collector = Collector(dict.fromkeys(builder.collector.problems))


DIALECT = Dialect(
    groups=(GROUP,),
    kinds={
        (f"{GROUP}/v1alpha2", "JobSet"): _convert_v1alpha2,
        (f"{GROUP}/v1alpha1", "JobSet"): _convert_v1alpha1,
    },
)
