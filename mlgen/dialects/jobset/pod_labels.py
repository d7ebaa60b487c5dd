"""The labels, annotations and affinity that JobSet adds to the pods of a Job.

Sources: kubernetes-sigs/jobset, pkg/controllers/jobset_controller.go and
pkg/webhooks/pod_mutating_webhook.go (exclusive placement).
"""

import json
from hashlib import sha1
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob

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
    builder: Builder, replicated_jobs: list[ReplicatedJob], replicated: ReplicatedJob, index: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that JobSet adds to the pods of one Job."""
    values = _values(builder, replicated_jobs, replicated, index)
    text = json.dumps(replicated.pod_template.value)
    labels = {key: values[key] for key in values if f"'{key}'" in text or f'"{key}"' in text}
    annotations = {key: values[key] for key in values if f"annotations['{key}']" in text}
    labels |= {key: values[key] for key in (*SELECTED_BY, COORDINATOR) if key in values}
    if COORDINATOR in values:
        annotations[COORDINATOR] = values[COORDINATOR]
    if exclusive_topology(builder, replicated):
        labels[JOB_KEY] = values[JOB_KEY]
    return labels, annotations


def _values(
    builder: Builder, replicated_jobs: list[ReplicatedJob], replicated: ReplicatedJob, index: int
) -> dict[str, str]:
    """Return the value of each label of JobSet, for one Job."""
    group = [other for other in replicated_jobs if other.group == replicated.group]
    jobs_before = sum(o.job_count for o in group if o.first_index < replicated.first_index)
    namespace = builder.resource.get("metadata", "namespace").value or ""
    job_name = f"{namespace}/{builder.name}-{replicated.name}-{index}"
    values = {
        "jobset-name": builder.name,
        "replicatedjob-name": replicated.name,
        "replicatedjob-replicas": replicated.job_count,
        "global-replicas": sum(other.job_count for other in replicated_jobs),
        "job-index": index,
        "job-global-index": replicated.first_index + index,
        "job-key": sha1(job_name.encode(), usedforsecurity=False).hexdigest(),
        "restart-attempt": 0,
        "group-name": replicated.group,
        "group-replicas": sum(other.job_count for other in group),
        "job-group-index": jobs_before + index,
    }
    leader = builder.spec.get("coordinator").value
    if leader:
        indexes = f"{leader.get('jobIndex', 0)}-{leader.get('podIndex', 0)}"
        host = f"{builder.name}-{leader['replicatedJob']}-{indexes}"
        values["coordinator"] = f"{host}.{builder.name}"
    return {f"{PREFIX}{name}": str(value) for name, value in values.items()}


def exclusive_topology(builder: Builder, replicated: ReplicatedJob) -> str | None:
    """Return the node label of the domain that a Job has for itself, or None."""
    own = replicated.source.get("template", "metadata", "annotations", EXCLUSIVE_TOPOLOGY).value
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


def drop_placement_annotations(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Remove the annotation for exclusive placement; report the one for labelled nodes."""
    annotations = builder.data["metadata"].get("annotations", {})
    annotations.pop(EXCLUSIVE_TOPOLOGY, None)
    if not annotations:
        builder.data["metadata"].pop("annotations", None)
    metadata = [builder.resource.get("metadata")]
    metadata += [replicated.source.get("template", "metadata") for replicated in replicated_jobs]
    for source in metadata:
        annotation = source.get("annotations", NODE_SELECTOR)
        if annotation:
            message = "JobSet selects nodes that were labelled for each Job; here any node is used"
            hint = "remove it, or write nodeSelector in the pod template"
            builder.differs(annotation, message, hint)
