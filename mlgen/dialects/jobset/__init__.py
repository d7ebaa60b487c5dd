"""JobSet: sets of Jobs that are one workload, jobset.x-k8s.io/v1alpha2 and v1alpha1.

Each Job of a JobSet becomes a role of the framework `generic`, so its pods keep their host names:
`<JobSet>-<replicated Job>-<Job index>-<pod index>.<JobSet>`. `jobs` reads the replicated Jobs, and
`restarts` writes how they restart. Sources, in kubernetes-sigs/jobset:

- fields: api/jobset/v1alpha2 and v1alpha1
- defaults and rejections: pkg/webhooks, with pod_mutating_webhook.go for exclusive placement
- behavior: pkg/controllers/jobset_controller.go, success_policy.go, failure_policy.go and
  volume_claim_policy.go
"""

import json
import re
from hashlib import sha1
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Dialect, Field, without_own
from mlgen.dialects.jobset.jobs import JobSet, ReplicatedJob
from mlgen.dialects.jobset.restarts import read_restarts, write_restarts, write_retries
from mlgen.problems import Collector

PREFIX = "jobset.sigs.k8s.io/"
"""The prefix of JobSet's labels and annotations. Both have the same names and values."""

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"

PLACEMENT = {EXCLUSIVE_TOPOLOGY, NODE_SELECTOR}
"""Annotations that only JobSet's controller reads."""

JOB_CONTROLLER = "kubernetes.io/job-controller"
"""The value of `managedBy` in Jobs that Kubernetes manages."""

CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
"""The value of `managedBy` in JobSets that JobSet's controller manages."""

GANG_HINT = "for gang scheduling, pass --set spec.scheduling.gang=volcano"

SCHEDULING_GROUP = "schedulingGroup"
"""The field of a pod that names its PodGroup in Kubernetes' own API."""


def write_roles(jobset: JobSet, job: ReplicatedJob) -> None:
    """Write a role for each Job of a replicated Job. The roles differ only in their labels.

    Fields of a Job that are rejected or not rendered are reported.
    """
    for index, role in enumerate(job.roles):
        template = _pod_template(jobset, job, index)
        jobset.role(role, template, job.main_container)
    write_retries(jobset, job)
    for name in ("manualSelector", "selector"):
        jobset.refuse(
            job.spec.get(name), "the selector of a Job cannot be set: mlgen sets it", "remove it"
        )
    jobset.put_manager(JOB_CONTROLLER, job.spec.get("managedBy"))
    for name in ("labels", "annotations"):
        metadata = job.source.get("template", "metadata", name)
        if set(without_own(metadata.value)) - PLACEMENT:
            jobset.warn(
                metadata,
                f"mlgen does not render {name} of a single replicated Job",
                "move them to metadata of the JobSet, or to the pod template",
            )
    group = job.pod_template.get("spec", SCHEDULING_GROUP)
    jobset.warn(group, "mlgen does not render Kubernetes' own pod groups", GANG_HINT)


def _pod_template(jobset: JobSet, job: ReplicatedJob, index: int) -> Field:
    """Return the pod template of one Job, with the fields that JobSet adds to it."""
    template = job.pod_template
    metadata, spec = dict(template.value.get("metadata", {})), dict(template.value["spec"])
    if "labels" in metadata:
        metadata["labels"] = without_own(metadata["labels"])
    for name in ("subdomain", SCHEDULING_GROUP):
        spec.pop(name, None)
    key = ("metadata", "annotations", EXCLUSIVE_TOPOLOGY)
    topology = job.source.get("template", *key).value or jobset.resource.get(*key).value
    if topology:
        spec["affinity"] = exclusive_affinity(spec.get("affinity", {}), str(topology))
    for kind, added in _metadata(jobset, job, index, is_exclusive=bool(topology)).items():
        metadata[kind] = metadata.get(kind, {}) | added
    for policy in jobset.spec.get("volumeClaimPolicies").items():
        for name in (
            claim.value["metadata"].get("name") for claim in policy.get("templates").items()
        ):
            if name in _mounted(job):
                claim = {"claimName": f"{name}-{jobset.name}"}
                volume = {"name": name, "persistentVolumeClaim": claim}
                spec["volumes"] = [*spec.get("volumes", []), volume]
    return Field({"metadata": metadata, "spec": spec}, template.path)


def _metadata(
    jobset: JobSet, job: ReplicatedJob, index: int, *, is_exclusive: bool
) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that JobSet adds to the pods of one Job.

    Every pod gets the labels that users select pods by. A pod gets the other labels and annotations
    only if its template refers to them.
    """
    name, namespace = jobset.name, jobset.resource.get("metadata", "namespace")
    group = [other for other in jobset.jobs if other.group == job.group]
    before = [other for other in group if other.first_index < job.first_index]
    job_name = f"{namespace.value or ''}/{name}-{job.name}-{index}"
    selected: dict[str, object] = {
        "jobset-name": name,
        "replicatedjob-name": job.name,
        "replicatedjob-replicas": job.job_count,
        "global-replicas": jobset.job_count(jobset.jobs),
        "job-index": index,
        "job-global-index": job.first_index + index,
    }
    values = selected | {
        "job-key": sha1(job_name.encode(), usedforsecurity=False).hexdigest(),
        "restart-attempt": 0,
        "group-name": job.group,
        "group-replicas": jobset.job_count(group),
        "job-group-index": jobset.job_count(before) + index,
    }
    leader = jobset.spec.get("coordinator").value
    if leader:
        host = f"{leader['replicatedJob']}-{leader.get('jobIndex', 0)}-{leader.get('podIndex', 0)}"
        domain = jobset.spec.get("network", "subdomain").value or name
        values["coordinator"] = selected["coordinator"] = f"{name}-{host}.{domain}"
    if is_exclusive:
        selected["job-key"] = values["job-key"]
    text = json.dumps(job.pod_template.value)
    labels, annotations = {}, {}
    for key, value in values.items():
        label = f"{PREFIX}{key}"
        if f"'{label}'" in text or f'"{label}"' in text:
            labels[label] = str(value)
        if f"annotations['{label}']" in text or key == "coordinator":
            annotations[label] = str(value)
    labels |= {f"{PREFIX}{key}": str(value) for key, value in selected.items()}
    return {"labels": labels, "annotations": annotations}


def exclusive_affinity(affinity: dict[str, Any], topology_key: str) -> dict[str, Any]:
    """Return the affinity of a pod, extended to give its Job a topology domain of its own.

    Pods of the same Job attract each other, and repel the pods of all other Jobs of JobSets.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    of_jobsets = {"matchExpressions": [{"key": f"{PREFIX}jobset-name", "operator": "Exists"}]}
    term = {"topologyKey": topology_key, "labelSelector": of_jobsets, "namespaceSelector": {}}
    extended = dict(affinity)
    fields = {"podAffinity": "matchLabelKeys", "podAntiAffinity": "mismatchLabelKeys"}
    for field, keys in fields.items():
        rules = extended.get(field, {})
        terms = [*rules.get(required, []), term | {keys: [f"{PREFIX}job-key"]}]
        extended[field] = rules | {required: terms}
    return extended


def _drop_placement_annotations(jobset: JobSet) -> None:
    """Remove the annotation for exclusive placement, and report the one for labelled nodes."""
    metadata = jobset.data["metadata"]
    metadata.get("annotations", {}).pop(EXCLUSIVE_TOPOLOGY, None)
    if not metadata.get("annotations", True):
        del metadata["annotations"]
    for source in (jobset.resource, *(job.source.get("template") for job in jobset.jobs)):
        jobset.warn(
            source.get("metadata", "annotations", NODE_SELECTOR),
            "JobSet selects nodes that were labelled for each Job; mlgen allows any node",
            "remove it, or write nodeSelector in the pod template",
        )


def _mounted(job: ReplicatedJob) -> set[str]:
    """Return the names of the volumes that containers of a replicated Job mount."""
    pod = job.pod_template.value["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    return {mount["name"] for item in containers for mount in item.get("volumeMounts", [])}


def _write_claims(jobset: JobSet) -> None:
    """Write the claims. Report unmounted claims, and deletion that differs from JobSet."""
    mounted = {name for job in jobset.jobs for name in _mounted(job)}
    ttl = jobset.spec.get("ttlSecondsAfterFinished")
    for policy in jobset.spec.get("volumeClaimPolicies").items():
        is_kept = policy.get("retentionPolicy", "whenDeleted").value != "Delete"
        for claim in policy.get("templates").items():
            name = claim.get("metadata", "name").value
            if not name:
                jobset.refuse(claim, "the PersistentVolumeClaim has no name", "write metadata.name")
                continue
            if name not in mounted:
                jobset.refuse(
                    claim,
                    f'no container mounts the PersistentVolumeClaim "{name}"',
                    "mount it, or remove it",
                )
                continue
            claim_name = f"{name}-{jobset.name}"
            jobset.put(("claims", claim_name), claim.get("spec"))
            if is_kept:
                jobset.warn(
                    claim,
                    f"deleting the JobSet keeps {claim_name}; "
                    "with mlgen, kubectl delete -f deletes it",
                    "delete the job with mlgen delete, which keeps it",
                )
            elif ttl:
                jobset.warn(
                    claim,
                    f"JobSet deletes {claim_name} {ttl.value} s after the job ends; mlgen keeps it",
                    f"to delete it, run kubectl delete pvc {quote(claim_name)}",
                )
            for field in ("labels", "annotations"):
                if (metadata := claim.get("metadata", field)).value:
                    jobset.warn(
                        metadata,
                        f"mlgen does not set the {field} of the PersistentVolumeClaim",
                        f"remove the {field}, or create the PersistentVolumeClaim yourself",
                    )


def _write_network(jobset: JobSet) -> None:
    """Write a subdomain other than the JobSet's name. Report names that resolve only when ready."""
    network = jobset.spec.get("network")
    subdomain, not_ready = network.get("subdomain"), network.get("publishNotReadyAddresses")
    if subdomain and subdomain.value != jobset.name:
        jobset.put(("network", "subdomain"), subdomain)
    if not_ready.value is False:
        jobset.warn(
            not_ready,
            "with mlgen, the DNS names of pods resolve before the pods are ready",
            "retry connections until they are accepted",
        )


ADDRESS = r"(?<![\w-])[\w-]+(?<=\d)\."
"""The host name of a pod, up to its subdomain."""


def _write_v1alpha1_subdomain(jobset: JobSet) -> None:
    """Write the subdomain of the addresses in v1alpha1, which has one for each replicated Job.

    Report the addresses if they have several, because all pods of a job have the same.
    """
    name = jobset.name
    texts = [(job.pod_template, json.dumps(job.pod_template.value)) for job in jobset.jobs]
    used = [
        (subdomain, source, address)
        for subdomain in (name, *(f"{name}-{job.name}" for job in jobset.jobs))
        for source, text in texts
        for address in re.findall(ADDRESS + re.escape(subdomain) + r"(?![\w-])", text)[:1]
    ]
    subdomains = {subdomain for subdomain, _, _ in used}
    for subdomain, source, address in used:
        if len(subdomains) > 1 and subdomain != name:
            jobset.refuse(
                source,
                f"the address {address} does not resolve: with mlgen, all pods of the job have the "
                "same subdomain",
                f"replace .{subdomain} with .{name} in all addresses",
            )
        elif subdomain != name:
            jobset.put(("network", "subdomain"), source, subdomain)


def _write_policies(jobset: JobSet) -> None:
    """Write `spec.runPolicy`, and report policies that are not rendered.

    The TTL applies to the whole job. If the JobSet has none, the Jobs' TTL is used.
    """
    spec, put, path = jobset.spec, jobset.put, ("runPolicy",)
    jobset.copy(spec, path, "suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    jobset.put_manager(CONTROLLER, spec.get("managedBy"))
    seconds = spec.get("ttlSecondsAfterFinished").value
    for ttl in (job.spec.get("ttlSecondsAfterFinished") for job in jobset.jobs):
        if seconds is None:
            put((*path, "ttlSecondsAfterFinished"), ttl)
            seconds = ttl.value
        elif ttl and ttl.value != seconds:
            jobset.warn(
                ttl,
                f"mlgen deletes all Jobs {seconds} s after the job has finished",
                "write only spec.ttlSecondsAfterFinished",
            )
    jobset.warn(
        spec.get("scheduling"),
        "JobSet creates Kubernetes' own pod groups; mlgen does not",
        GANG_HINT,
    )


def _check_coordinator(jobset: JobSet) -> None:
    """Report a coordinator that is not one of the pods."""
    coordinator = jobset.spec.get("coordinator")
    name = coordinator.get("replicatedJob")
    jobset.require_names([name] if coordinator else [])
    for job in (job for job in jobset.jobs if job.name == name.value):
        counts = {"jobIndex": ("Jobs", job.job_count), "podIndex": ("pods", job.pod_count)}
        for field, (unit, count) in counts.items():
            number = coordinator.get(field).value or 0
            if number >= count:
                jobset.refuse(
                    coordinator.get(field),
                    f"expected an index below {count}, got {number}",
                    f"the {unit} of {job.name} are counted from 0",
                )


def _write_success_policy(jobset: JobSet) -> None:
    """Write the deciding roles, how many pods must succeed, and the cleanup of the rest."""
    policy, put = jobset.spec.get("successPolicy"), jobset.put
    targets, operator = policy.get("targetReplicatedJobs"), policy.get("operator")
    jobset.require_names(targets.items())
    source = targets or policy or jobset.spec.get("replicatedJobs")
    deciders = [job for job in jobset.running if not targets.value or job.name in targets.value]
    if not deciders:
        if not jobset.collector.has_errors:
            jobset.refuse(
                source, "these Jobs have no pods", "set replicas and completions to at least 1"
            )
        return
    before, is_any = jobset.completed_before(), operator.value == "Any"
    completed = frozenset[str]().union(*(before[decider.name] for decider in deciders))
    deciders = [decider for decider in deciders if is_any or decider.name not in completed]
    roles = [role for job in deciders for role in job.roles]
    if roles[1:]:
        put(("successPolicy", "roles"), source, roles)
        if is_any:
            put(("successPolicy", "operator"), operator)
            jobset.warn(
                operator,
                "the JobSet fails when any of these Jobs fails; "
                "with mlgen, the job fails when all of them have failed",
                "target one replicated Job with replicas: 1",
            )
    elif jobset.job_count(jobset.jobs) > 1:
        put(("successPolicy", "role"), source, roles[0])
        last = deciders[0].name
        for job in jobset.running:
            for dependency in job.source.get("dependsOn").items():
                if dependency.value == {"name": last, "status": "Complete"}:
                    jobset.refuse(
                        dependency,
                        f"the JobSet completes when {last} completes, so {job.name} never starts",
                        f"add {job.name} to targetReplicatedJobs of successPolicy",
                    )
    _write_success_count(jobset, None if roles[1:] else deciders[0])
    if jobset.job_count(job for job in jobset.jobs if job.name not in completed) > 1:
        put(("runPolicy", "cleanPodPolicy"), source, "Running")


def _write_success_count(jobset: JobSet, decider: ReplicatedJob | None) -> None:
    """Write the number of pods that must succeed, from the successPolicy of the deciding Job.

    `decider` is None if several Jobs determine the outcome. Each of their policies is reported.
    """
    for job in jobset.jobs:
        rules = job.spec.get("successPolicy", "rules")
        only_rule = rules.value[0] if rules and len(rules.value) == 1 else {}
        indexes, count = only_rule.get("succeededIndexes"), only_rule.get("succeededCount")
        if indexes == "0" and count in (None, 1):
            count = "First"
        elif indexes is not None:
            count = None
        if job is decider and count is not None:
            jobset.put(("successPolicy", "replicas"), rules, count)
        elif rules:
            message = f"with mlgen, {job.name} completes only when all of its pods have succeeded"
            hint = "delete the Job when these pods have succeeded"
            if job is decider:
                hint = "write one rule with succeededIndexes: '0' or with succeededCount"
            jobset.warn(rules, message, hint)


GROUP = "jobset.x-k8s.io"


class WrittenJobSet(JobSet):
    """A JobSet that is written as a TrainingJob."""

    def write(self) -> None:
        """Write the TrainingJob."""
        self.read()
        if self.is_too_large():
            return
        self.put_framework("generic")
        self.put(("options", "addresses"), self.kind, value=False)
        read_restarts(self)
        for job in self.jobs:
            write_roles(self, job)
        self.write_startup_order()
        _write_success_policy(self)
        write_restarts(self)
        _write_policies(self)
        _check_coordinator(self)
        _write_claims(self)
        _drop_placement_annotations(self)
        _write_network(self)
        self.share_templates()
        if self.resource.get("apiVersion").value == f"{GROUP}/v1alpha1":
            _write_v1alpha1_subdomain(self)
        # The roles of a replicated Job share one pod template, so each has reported the same.
        self.collector = Collector(dict.fromkeys(self.collector.problems))


DIALECT = Dialect(
    groups=(GROUP,),
    kinds={(f"{GROUP}/{version}", "JobSet"): WrittenJobSet for version in ("v1alpha2", "v1alpha1")},
)
