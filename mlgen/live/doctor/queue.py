"""Whether Kueue's queue can admit a job at all: what it covers, its quota, and its topology.

`capacity` says whether there is room now. Kueue does not list what is too large for a queue, or
not covered by it, as an error: the job waits for ever.
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse
from mlgen.live.doctor.capacity import Pod, pods_of
from mlgen.live.doctor.findings import Finding, Patient, allowed, shown
from mlgen.objects.placement import is_single_job
from mlgen.output.columns import named

LOCAL, CLUSTER, FLAVORS, TOPOLOGIES = (
    f"{plural}.kueue.x-k8s.io"
    for plural in ("localqueues", "clusterqueues", "resourceflavors", "topologies")
)

DEFAULT = "default"
"""Jobs without a queue get the LocalQueue of this name, if the namespace has one:
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/."""

PODS = "pods"
"""A queue can cover the number of pods, which no container requests."""


def queue(patient: Patient) -> Iterator[Finding]:
    """Yield whether the queue of a job can admit it."""
    topology = patient.rendered.topology
    scheduling = topology.job.scheduling
    if scheduling.gang != "kueue" or LOCAL not in patient.served or not patient.exists:
        return
    by_name = {item["metadata"]["name"]: item for item in patient.objects("get", LOCAL) or ()}
    if DEFAULT in by_name and not is_single_job(topology):
        text = "it takes the job's Jobs one by one, which are then no group"
        cure = "give the LocalQueue another name, or use a namespace without it"
        yield Finding("missing", f"LocalQueue {DEFAULT}", text, cure)
    if scheduling.queue not in by_name:
        return  # of which `needs` has a row
    name = by_name[scheduling.queue]["spec"]["clusterQueue"]
    subject = f"ClusterQueue {name}"
    found = allowed(patient.kubectl, "get", CLUSTER, name, "--ignore-not-found")
    if found is None:
        yield Finding("note", subject, "cannot be read with your rights")
    elif not found:
        yield Finding("missing", subject, f"not found; LocalQueue {scheduling.queue} names it")
    else:
        rows = list(_admission(patient, subject, found[0]))
        yield from rows or [Finding("ok", subject)]


def _admission(patient: Patient, subject: str, cluster_queue: Object) -> Iterator[Finding]:
    """Yield why a ClusterQueue never admits the job."""
    for condition in cluster_queue.get("status", {}).get("conditions") or ():
        if (condition["type"], condition["status"]) == ("Active", "False"):
            yield Finding("warning", subject, f"is not active: {condition.get('message', '')}")
    pods = pods_of(patient)
    groups = cluster_queue["spec"].get("resourceGroups") or []
    covered = {name for group in groups for name in group["coveredResources"]}
    yield from _uncovered(subject, pods, covered)
    if not cluster_queue["spec"].get("cohortName"):  # in a cohort, a queue can borrow
        yield from _short(subject, pods, groups)
    if patient.rendered.job.scheduling.topology:
        yield from _placed(patient, subject, pods, groups)


def _uncovered(subject: str, pods: Sequence[Pod], covered: set[str]) -> Iterator[Finding]:
    """Yield the resources that a queue does not cover.

    That Kueue ignores them is a setting of its own, which cannot be seen in the cluster.
    """
    for name in dict.fromkeys(name for pod in pods for name, n in pod.requests.items() if n):
        if name not in covered:
            roles = named(dict.fromkeys(pod.role for pod in pods if pod.requests.get(name)))
            text = f"does not cover {name}, which {roles} requests, so it does not admit the job"
            cure = (
                f"add {name} to coveredResources, remove the request, or set "
                "resources.quotaCheckStrategy: IgnoreUndeclared in Kueue's configuration"
            )
            yield Finding("warning", subject, text, cure)


def _short(subject: str, pods: Sequence[Pod], groups: Sequence[Object]) -> Iterator[Finding]:
    """Yield the resources of which a queue without a cohort has less than the job requests."""
    quotas: dict[str, Decimal] = {}
    for group in groups:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                name, amount = resource["name"], parse(resource["nominalQuota"])
                quotas[name] = quotas.get(name, Decimal(0)) + amount
    for name, quota in quotas.items():
        needed = _needed(pods, name)
        if needed > quota:
            text = f"{name}: {shown(needed)} needed, and its quota is {shown(quota)}"
            yield Finding("missing", subject, text, "lower the request, or ask for a larger quota")


def _needed(pods: Sequence[Pod], name: str) -> Decimal:
    """Return how much of a resource all pods request together."""
    amounts = (Decimal(1) if name == PODS else pod.requests.get(name, Decimal(0)) for pod in pods)
    return sum((n * pod.count for n, pod in zip(amounts, pods, strict=True)), Decimal(0))


def _placed(
    patient: Patient, subject: str, pods: Sequence[Pod], groups: Sequence[Object]
) -> Iterator[Finding]:
    """Yield why Kueue cannot place pods by topology: by flavors that know it, of what they request.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    placement = patient.rendered.job.scheduling.topology
    flavors = allowed(patient.kubectl, "get", FLAVORS)
    topologies = allowed(patient.kubectl, "get", TOPOLOGIES)
    if placement is None or flavors is None or topologies is None:
        yield Finding("note", f"{subject}'s flavors", "cannot be read with your rights")
        return
    levels = {
        item["metadata"]["name"]: [level["nodeLabel"] for level in item["spec"]["levels"]]
        for item in topologies
    }
    known = {item["metadata"]["name"]: _levels(item, levels) for item in flavors}
    placing = {
        name
        for group in groups
        for name in group["coveredResources"]
        if any(placement.key in known.get(flavor["name"], ()) for flavor in group["flavors"])
    }
    if not placing:
        text = f"has no flavor with a topologyName whose Topology has the level {placement.key}"
        yield Finding("missing", subject, text, "add it, or remove scheduling.topology")
        return
    for pod in {pod.role: pod for pod in pods}.values():
        if PODS not in placing and not any(pod.requests.get(name) for name in placing):
            text = f"cannot place {pod.role}, which requests none of {named(sorted(placing))}"
            yield Finding("missing", subject, text, f"set resources of {pod.role}")


def _levels(flavor: Object, levels: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the node labels of a flavor's topology."""
    return levels.get(flavor["spec"].get("topologyName", ""), ())
