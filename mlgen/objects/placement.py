"""Scheduling of pods: a pod template patch with scheduler, gang, nodes and affinity; the PodGroup.

Each gang scheduler finds the pods of a group by a label, an annotation or a field. It has its own
kind of PodGroup, which makes it start all pods of a job together:

- Volcano: `scheduling.k8s.io/group-name` (volcano.sh/apis, scheduling/v1beta1/labels.go),
- coscheduling: `scheduling.x-k8s.io/pod-group` (scheduler-plugins, apis/scheduling/v1alpha1),
- KAI: the annotation `pod-group-name` (kai-scheduler/KAI-Scheduler v0.17.0, docs/batch/README.md),
- Kubernetes' own: the field `schedulingGroup` (k8s.io/api v0.37.0, core/v1),
- Kueue: `kueue.x-k8s.io/pod-group-name`, and the number of pods in
  `kueue.x-k8s.io/pod-group-total-count` instead of a PodGroup
  (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#running-a-group-of-pods-to-be-admitted-together).
  The source of its other rules is kubernetes-sigs/kueue v0.19.2; tests/parts/kueue tests them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mlgen.jobfile.model import Placement, Together, TrainingJob
from mlgen.kubernetes import quantity
from mlgen.kubernetes.names import JOB_INDEX, KUEUE, KUEUE_QUEUE
from mlgen.kubernetes.quantity import times, total
from mlgen.objects import security
from mlgen.objects.labels import ROLE, app_labels, helper_name, metadata, selector
from mlgen.objects.skeleton import filled, template_error
from mlgen.resources import table
from mlgen.topology import Role, Topology

SCHEDULERS = {
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
    "kai": "kai-scheduler",
}
"""The schedulers' names in their projects' Helm charts."""

API_VERSIONS = {
    "volcano": "scheduling.volcano.sh/v1beta1",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1",
    "kubernetes": "scheduling.k8s.io/v1beta1",
    "kai": "scheduling.run.ai/v2alpha2",
}

FIELDS: dict[str, list[str]] = table("frameworks/fields")["gang"]
"""The fields of `scheduling` that each gang scheduler reads."""

KAI_QUEUE = "kai.scheduler/queue"
"""The pod label with the queue of a pod for which KAI creates a PodGroup itself."""

OWN_GROUP = {"kai.scheduler/skip-podgrouper": "true"}
"""With this pod annotation, KAI 0.15 and later does not create a PodGroup for each Job."""

MODES = {"required": "hard", "preferred": "soft"}
"""Volcano's modes of a network topology."""

TERMINATED = "TerminationTarget"
"""The condition that Kueue sets on a group's pods to stop them, for example to preempt the group
(pkg/controller/jobs/pod/pod_controller.go, Stop)."""

NOT_RETRIED = {"kueue.x-k8s.io/retriable-in-group": "false"}
"""With this annotation of a pod, its group ends when none of its pods runs, even if some have
failed. Without it, such a group waits for replacements. It keeps its quota, and the finalizers of
its pods, until a user deletes its Workload
(https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#termination).

After a preemption, no pod runs until the Job controller has replaced the first one. So in a
supervised job, only the pod that the supervisor starts at the end has the annotation; see
`release`."""

POD_SET = "kueue.x-k8s.io/role-hash"
"""The pod annotation with the name of the pod's set in the group's Workload. By default, it is a
hash of the resources and the placement of the pod (pkg/util/pod/pod.go, GenerateRoleHash)."""

RELEASE = "kueue"
"""The name of the role, and the suffix of the Job, of the pod that ends a group."""

PLACED_TOGETHER = "kueue.x-k8s.io/podset-group-name"
"""The pod annotation that places the pods of two roles in the same domain. Kueue requires that one
of the roles has a single pod, and that no role has slices
(pkg/controller/jobframework/tas_validation.go, ValidatePodSetGroupingTopology)."""

ELASTIC = "kueue.x-k8s.io/elastic-job"
"""The annotation of a Job that Kueue 0.18 and later scales without stopping it. Without it, Kueue
stops an admitted Job whose number of pods changes (pkg/workloadslicing/workloadslicing.go)."""

PARTIAL = "kueue.x-k8s.io/job-min-parallelism"
"""The annotation of a Job that Kueue may start with fewer pods."""

INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"
"""The pod annotation that names the label with the index of a pod in its role
(pkg/controller/jobs/pod/pod_webhook.go)."""


def is_single_job(topology: Topology) -> bool:
    """True if the only workload is a Kubernetes Job, which Kueue admits without a pod group."""
    first, *others = topology.roles
    return not (others or first.gang or first.always_restarts)


def pod_count(topology: Topology) -> int:
    """Return the number of pods of the gang.

    Roles that start after others are not counted: the gang would wait for pods that do not exist.
    """
    return sum(role.replicas for role in topology.roles if not role.orders)


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template patch that places a role's pods."""
    job, spec = topology.job, role.spec
    scheduling = job.scheduling
    labels, annotations = _group(topology, role)
    is_native = scheduling.gang == "kubernetes" and not role.orders
    fields = {
        "schedulerName": scheduling.scheduler_name or SCHEDULERS.get(scheduling.gang),
        "priorityClassName": scheduling.priority_class_name,
        "schedulingGroup": {"podGroupName": job.name} if is_native else None,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": list(spec.tolerations),
        "affinity": _affinity(job, spec.affinity),
        "topologySpreadConstraints": [
            *([_spread(job, scheduling.spread)] if scheduling.spread else []),
            *spec.topology_spread_constraints,
        ],
    }
    annotations |= security.KEEP[scheduling.safe_to_evict]
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {name: value for name, value in fields.items() if value},
    }


def _group(topology: Topology, role: Role) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that make a pod a member of the job's gang.

    If Kueue admits a single Job, the Job has the queue label.
    """
    job, placement = topology.job, topology.job.scheduling.topology
    gang = job.scheduling.gang
    if gang == "kai":
        member = {} if role.orders else {"pod-group-name": job.name, **OWN_GROUP}
        return {KAI_QUEUE: job.scheduling.queue or ""}, member
    if role.orders:
        return {}, {}
    if gang == "volcano":
        return {}, {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": role.name}
    if gang == "coscheduling":
        return {"scheduling.x-k8s.io/pod-group": job.name}, {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if is_group(topology):
        # Kueue reads the priority class, for example, from the pods of a group.
        labels = {name: value for name, value in job.labels.items() if name.startswith(KUEUE)}
        labels[KUEUE_QUEUE] = job.scheduling.queue or ""
        labels["kueue.x-k8s.io/pod-group-name"] = job.name
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(pod_count(topology))
        annotations[POD_SET] = role.name
    if placement and is_queued(topology):
        annotations |= _topology_request(placement, role, grouped=is_group(topology))
    return labels, annotations


def _topology_request(placement: Together, role: Role, *, grouped: bool) -> dict[str, str]:
    """Return the annotations with which Kueue chooses a domain, and a smaller one for each slice.

    Kueue knows the index of a pod in an Indexed Job, but in a group only by its label.
    """
    request = {}
    if placement.key:
        request[f"kueue.x-k8s.io/podset-{placement.mode}-topology"] = placement.key
    if placement.slice:
        size = min(placement.slice.size, role.replicas)
        request["kueue.x-k8s.io/podset-slice-required-topology"] = placement.slice.key
        request["kueue.x-k8s.io/podset-slice-size"] = str(size)
        if grouped:
            request[INDEX_LABEL] = JOB_INDEX
    return request


def _affinity(job: TrainingJob, user_affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's affinity, plus a term that keeps the job's pods in one topology domain.

    Kueue uses annotations instead of the term. With other schedulers, the term also applies to the
    roles that are not in the gang, and if the scheduler ignores the constraint of the PodGroup.
    """
    affinity = dict(user_affinity)
    placement = job.scheduling.topology
    if placement is None or placement.key is None or job.scheduling.gang == "kueue":
        return affinity
    term: dict[str, Any] = {
        "labelSelector": {"matchLabels": selector(job)},
        "topologyKey": placement.key,
    }
    field = f"{placement.mode}DuringSchedulingIgnoredDuringExecution"
    if placement.mode == "preferred":
        term = {"weight": 100, "podAffinityTerm": term}
    pod_affinity = dict(affinity.get("podAffinity") or {})
    pod_affinity[field] = [*(pod_affinity.get(field) or []), term]
    return affinity | {"podAffinity": pod_affinity}


def _spread(job: TrainingJob, spread: Placement) -> dict[str, Any]:
    """Return the constraint that spreads the job's pods over topology domains.

    Nodes with a taint that the pods do not tolerate, such as control plane nodes, are excluded.
    Otherwise each would count as an empty domain, and limit the other domains to one pod.
    https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
    """
    required = spread.mode == "required"
    return {
        "maxSkew": 1,
        "topologyKey": spread.key,
        "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(job)},
    } | ({"nodeTaintsPolicy": "Honor"} if required else {})


def pod_group(
    topology: Topology, workloads: Sequence[tuple[Role, dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Return the PodGroup, if the job's gang scheduler uses one.

    Args:
        topology: the job's topology.
        workloads: each role with its Job or StatefulSet.

    Raises:
        MlgenError: a container's resource request is not a valid amount.
    """
    job, scheduling = topology.job, topology.job.scheduling
    gang, members = scheduling.gang, scheduling.min_member
    if gang not in API_VERSIONS:
        return
    if members is None:
        members = pod_count(topology)
    is_native = gang == "kubernetes"
    # A strict API server rejects a field that the kind does not have. A rule reports it.
    known = FIELDS[gang]
    resources = dict(scheduling.min_resources or _min_resources(workloads, members))
    constraint = _constraint(gang, scheduling.topology) if scheduling.topology else None
    yield filled(
        "podgroup",
        api_version=API_VERSIONS[gang],
        metadata=metadata(job, job.name, "gang"),
        min_count=members if is_native else None,
        min_member=None if is_native else members,
        min_resources=resources or None if "minResources" in known else None,
        topology=constraint if is_native else None,
        disruption={"all": {}} if scheduling.disruption == "All" and is_native else None,
        network_topology=constraint if gang == "volcano" else None,
        topology_constraint=constraint if gang == "kai" else None,
        queue=scheduling.queue if "queue" in known else None,
        priority_class=None if gang == "coscheduling" else scheduling.priority_class_name,
        timeout=scheduling.schedule_timeout_seconds if "scheduleTimeoutSeconds" in known else None,
    )


def _constraint(gang: str, placement: Together) -> Any:
    """Return the constraint with which a scheduler chooses a topology domain for a PodGroup.

    None if the scheduler has none. Kubernetes has no preferred domains (k8s.io/api v0.37.0,
    scheduling/v1beta1). Volcano has tiers instead of node labels (volcano.sh/apis v1.15.0,
    scheduling/v1beta1/types.go). KAI reads the levels from a Topology.
    """
    key, mode, tier = placement.key, placement.mode, placement.tier
    if gang == "kubernetes" and key and mode == "required":
        return [{"key": key}]
    if gang == "volcano" and tier is not None:
        field = "highestTierAllowed" if isinstance(tier, int) else "highestTierName"
        return {"mode": MODES[mode], field: tier}
    if gang == "kai" and placement.name:
        return {"topology": placement.name, f"{mode}TopologyLevel": key}
    return None


def _min_resources(
    workloads: Sequence[tuple[Role, dict[str, Any]]], members: int
) -> dict[str, str]:
    """Return the resources that this number of pods requests, counting deciding pods first.

    Raises:
        MlgenError: a value is not a valid amount.
    """
    amounts: dict[str, list[str]] = {}
    at_once = [pair for pair in workloads if not pair[0].orders]
    for role, workload in sorted(at_once, key=lambda pair: not pair[0].decides):
        pods = min(role.replicas, members)
        members -= pods
        if not pods:
            continue
        try:
            requests = quantity.requests(workload["spec"]["template"]["spec"])
        except ValueError as error:
            raise template_error(role, str(error), "bad-value") from None
        for name, amount in requests.items():
            amounts.setdefault(name, []).append(times(amount, pods))
    return {name: total(amounts_of_roles) for name, amounts_of_roles in amounts.items()}


def is_queued(topology: Topology) -> bool:
    """True if Kueue admits the job."""
    return topology.job.scheduling.gang == "kueue"


def is_group(topology: Topology) -> bool:
    """True if Kueue admits the job as a group of pods, not as a Kubernetes Job or a JobSet."""
    return is_queued(topology) and not (is_single_job(topology) or topology.job.jobset)


def is_sliced(job: TrainingJob, role: Role) -> bool:
    """True if Kueue can scale a role's Job while it runs, by a Workload for each new size.

    Kueue rejects such a Job with a topology, and with partial admission
    (pkg/controller/jobs/job/job_webhook.go).
    """
    partial = PARTIAL in job.annotations
    return role.max_replicas is not None and not job.scheduling.topology and not partial


def with_modest_helpers(
    spec: dict[str, Any],
    own: Collection[Mapping[str, Any]],
    kept: Collection[str],
) -> dict[str, Any]:
    """Return a pod spec whose helpers request only resources that its containers also request.

    Kueue admits a job only if its ClusterQueue covers every resource that a pod requests
    (https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources). A queue for GPUs may not
    cover memory, so a helper must not be the only container that requests it. A limit without a
    request counts as a request.

    Args:
        spec: the pod spec.
        own: mlgen's resources for helpers. Other resources are from the user, and are kept.
        kept: the names of resources that the user has set for helpers.
    """
    if "initContainers" not in spec:
        return spec
    of_pod = [each.get("resources") or {} for each in (spec, *spec["containers"])]
    kinds = [of.get(kind) or {} for of in of_pod for kind in ("requests", "limits")]
    requested = {name for amounts in kinds for name in amounts}.union(kept)

    def modest(helper: dict[str, Any]) -> dict[str, Any]:
        if helper.get("resources") not in own:
            return helper
        resources = {
            kind: {name: amount for name, amount in amounts.items() if name in requested}
            for kind, amounts in helper["resources"].items()
        }
        non_empty = {kind: amounts for kind, amounts in resources.items() if amounts}
        rest = {name: value for name, value in helper.items() if name != "resources"}
        return rest | ({"resources": non_empty} if non_empty else {})

    return spec | {"initContainers": list(map(modest, spec["initContainers"]))}


def annotate(topology: Topology, workloads: Sequence[tuple[Role, dict[str, Any]]]) -> None:
    """Add the annotations that depend on all workloads of a group or JobSet to their pod templates.

    The user's annotations are kept. Templates may share equal dicts.

    Args:
        topology: the job's topology.
        workloads: each role with its Job.
    """
    in_group = is_group(topology)
    if not (in_group or (topology.job.jobset and is_queued(topology))):
        return
    serves = any(role.always_restarts for role, _ in workloads)
    specs = [manifest["spec"] for _, manifest in workloads]
    retries = any(spec.get("backoffLimit") or spec.get("backoffLimitPerIndex") for spec in specs)
    # If failed pods may be replaced, a group has not ended after all have failed. A group with a
    # role that serves still has running pods then.
    ends = not topology.supervised and (serves or not retries)
    annotations = {**NOT_RETRIED} if ends and in_group else {}
    sizes = [role.replicas for role in topology.roles]
    placement = topology.job.scheduling.topology
    if placement and not placement.slice and sorted(sizes)[:-1] == [1]:
        annotations[PLACED_TOGETHER] = topology.job.name
    for _, manifest in workloads:
        own = manifest["spec"]["template"]["metadata"].setdefault("annotations", {})
        for name, value in annotations.items():
            own.setdefault(name, value)


def release(topology: Topology, image: str, fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the suspended Job of the pod that ends the job's group in Kueue, if there is one.

    The supervisor resumes it when no other pod runs. Its pod replaces a pod of the role in POD_SET.
    That is a role with a failed or deleted pod, because Kueue deletes a pod that is more than the
    role has.

    Args:
        topology: the job's topology.
        image: the image of the helpers that wait.
        fields: of a pod that mlgen adds. Kueue chooses its node, as for the pod that it replaces.
    """
    if not has_release(topology):
        return
    job = topology.job
    labels, annotations = _group(topology, topology.roles[0])
    own = metadata(job, release_name(job), RELEASE)
    own["labels"][ROLE] = RELEASE
    yield filled(
        "release",
        metadata=own,
        labels=app_labels(job, RELEASE) | fields["labels"] | {ROLE: RELEASE} | labels,
        annotations=fields["annotations"]
        | annotations
        | NOT_RETRIED
        | security.KEEP[job.scheduling.safe_to_evict],
        tolerations=fields["tolerations"],
        priority=fields["priority"],
        pull_secrets=fields["pull_secrets"],
        image=image,
        resources=security.helper_resources(job, {}) or None,
        security=security.helper_context(job),
    )


def has_release(topology: Topology) -> bool:
    """True if the supervisor ends the job's group in Kueue, with the Job that `release` returns."""
    return topology.supervised and is_group(topology)


def release_name(job: TrainingJob) -> str:
    """Return the name of the Job that `release` returns."""
    return helper_name(job, RELEASE)
