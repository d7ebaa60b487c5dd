"""What the cluster allows a job: PodSecurity, quotas, Kueue's queue, and a dry run of its objects.

The dry run asks the API server itself: for its validation, its policies, and what LimitRanges and
quotas say of one pod of each workload.
https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from mlgen.checks import obstacles
from mlgen.checks.pods import workloads
from mlgen.checks.totals import totals
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.kubernetes.quantity import parse
from mlgen.live.doctor.report import Patient, Row, allowed, shown
from mlgen.live.kubectl import listed
from mlgen.live.reasons import shortened
from mlgen.objects.labels import workload_name
from mlgen.objects.placement import is_single_job
from mlgen.output.columns import named
from mlgen.output.next_steps import file_argument

ENFORCE = "pod-security.kubernetes.io/enforce"
"""https://kubernetes.io/docs/concepts/security/pod-security-admission/"""

MAX_UNMET = 3

LOCAL, CLUSTER, FLAVORS, TOPOLOGIES = (
    f"{plural}.kueue.x-k8s.io"
    for plural in ("localqueues", "clusterqueues", "resourceflavors", "topologies")
)

DEFAULT = "default"
"""Jobs without a queue get the LocalQueue of this name, if the namespace has one:
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/."""

PODS = "pods"
"""A queue can cover the number of pods, which no container requests."""

DRY_RUN = "dry run"

REPORTED = (
    "no matches for kind",
    "is forbidden: User ",
    "is attempting to grant RBAC permissions",
    '.rbac.authorization.k8s.io "',
)
"""In errors that have a row already: kinds and rights that are missing, and the binding of a Role
that is not there, because a dry run does not create it."""

IMMUTABLE = "field is immutable"

OF_PODS = re.compile(r"(maximum|minimum) \S+ usage per|max limit to request ratio|failed quota")
"""What the API server says of a pod that a LimitRange or a quota rejects, whenever it is created
(plugin/pkg/admission/limitranger and resourcequota in kubernetes/kubernetes)."""

NOT_YET = ("serviceAccountName", "priorityClassName", "runtimeClassName", "schedulingGates")
"""Fields of a pod that name what a dry run does not create, or what has a row of its own."""

Requests = dict[str, Mapping[str, Any]]
"""What a pod requests, by role and resource."""


def pod_security(patient: Patient, namespace: Object) -> Row:
    """Return whether the pods meet the level that their namespace enforces."""
    enforced = (namespace["metadata"].get("labels") or {}).get(ENFORCE, "privileged")
    unmet = obstacles(patient.rendered.objects, patient.rendered.kube_version)
    met = level(unmet)
    subject = f"PodSecurity {met}"
    if enforced not in LEVELS or LEVELS.index(met) >= LEVELS.index(enforced):
        return Row("ok", subject, f"the namespace enforces {enforced}")
    broken = [
        f"{each.field} {each.message} ({', '.join(roles)})"
        for each, roles in unmet.items()
        if LEVELS.index(each.level) <= LEVELS.index(enforced)
    ]
    more = f" and {len(broken) - MAX_UNMET} more" if len(broken) > MAX_UNMET else ""
    text = f"the namespace enforces {enforced}: {'; '.join(broken[:MAX_UNMET])}{more}"
    return Row("missing", subject, text, f"set security.profile: {enforced}")


def quotas(patient: Patient) -> Iterator[Row]:
    """Yield what is used of the namespace's quotas, and whether they have room for the pods.

    A quota with scopes counts some pods only, so it is not compared.
    """
    found = patient.objects("get", "resourcequotas")
    if found is None:
        yield Row("note", "quotas", "cannot be read with your rights")
        return
    needed = _needed(patient)
    for quota in found:
        subject = f"ResourceQuota {quota['metadata']['name']}"
        status = quota.get("status") or {}
        hard = status.get("hard") or quota["spec"].get("hard") or {}
        used = status.get("used") or {}
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            yield Row("note", subject, "has scopes, so it is not compared")
            continue
        rows = []
        for name in (name for name in hard if name in needed):
            wanted, taken, limit = needed[name], parse(used.get(name, "0")), parse(hard[name])
            text = f"{name}: {shown(wanted)} needed, {shown(max(limit - taken, Decimal(0)))} of"
            text = f"{text} {hard[name]} left"
            if wanted > limit:
                rows.append(Row("missing", subject, text, "ask for a larger quota"))
            elif wanted > limit - taken:
                rows.append(Row("warning", subject, text, "pods wait until others are deleted"))
        yield from rows or [Row("ok", subject)]


def _needed(patient: Patient) -> dict[str, Decimal]:
    """Return what the pods of a job need of each resource that a quota can limit."""
    rendered = patient.rendered
    amounts = totals(rendered.topology, rendered.objects)
    needed = {f"limits.{name}": parse(amount) for name, amount in amounts.limits.items()}
    for of_kind in (amounts.requests, amounts.auxiliary):
        for name, amount in of_kind.items():
            for key in (f"requests.{name}", *([name] if "/" not in name else [])):
                needed[key] = needed.get(key, Decimal(0)) + parse(amount)
    pods = sum(role.replicas for role in rendered.topology.roles) + len(amounts.auxiliaries)
    return needed | {"pods": Decimal(pods), "count/pods": Decimal(pods)}


def queue(patient: Patient) -> Iterator[Row]:
    """Yield whether the queue of a job can admit it."""
    topology = patient.rendered.topology
    scheduling = topology.job.scheduling
    if scheduling.gang != "kueue" or LOCAL not in patient.served or not patient.exists:
        return
    by_name = {item["metadata"]["name"]: item for item in patient.objects("get", LOCAL) or ()}
    if DEFAULT in by_name and not is_single_job(topology):
        text = "it takes the job's Jobs one by one, which are then no group"
        hint = "give the LocalQueue another name, or use a namespace without it"
        yield Row("missing", f"LocalQueue {DEFAULT}", text, hint)
    if scheduling.queue not in by_name:
        return  # of which `needs` has a row
    name = by_name[scheduling.queue]["spec"]["clusterQueue"]
    subject = f"ClusterQueue {name}"
    found = allowed(patient.kubectl, "get", CLUSTER, name, "--ignore-not-found")
    if found is None:
        yield Row("note", subject, "cannot be read with your rights")
    elif not found:
        yield Row("missing", subject, f"not found; LocalQueue {scheduling.queue} names it")
    else:
        rows = list(_admission(patient, subject, found[0]))
        yield from rows or [Row("ok", subject)]


def _admission(patient: Patient, subject: str, cluster_queue: Object) -> Iterator[Row]:
    """Yield why a ClusterQueue never admits the job."""
    for condition in cluster_queue.get("status", {}).get("conditions") or ():
        if (condition["type"], condition["status"]) == ("Active", "False"):
            yield Row("warning", subject, f"is not active: {condition.get('message', '')}")
    requests = _requests(patient)
    groups = cluster_queue["spec"].get("resourceGroups") or []
    covered = {name for group in groups for name in group["coveredResources"]}
    yield from _uncovered(subject, requests, covered)
    if patient.rendered.job.scheduling.topology:
        yield from _placed(patient, subject, requests, groups)


def _requests(patient: Patient) -> Requests:
    """Return what a pod of each role requests, by resource."""
    topology = patient.rendered.topology
    by_name = workloads(patient.rendered.objects)
    return {
        role.name: pod_resources.requests(
            by_name[workload_name(topology.job, role)]["spec"]["template"]["spec"]
        )
        for role in topology.roles
    }


def _uncovered(subject: str, requests: Requests, covered: set[str]) -> Iterator[Row]:
    """Yield the resources that a queue does not cover.

    That Kueue ignores them is a setting of its own, which cannot be seen in the cluster.
    """
    users: dict[str, list[str]] = {}
    for role, amounts in requests.items():
        for name, amount in amounts.items():
            if parse(amount) and name not in covered:
                users.setdefault(name, []).append(role)
    for name, roles in users.items():
        text = f"does not cover {name}, which {named(roles)} requests, so it does not admit the job"
        hint = (
            f"add {name} to coveredResources, remove the request, or set "
            "resources.quotaCheckStrategy: IgnoreUndeclared in Kueue's configuration"
        )
        yield Row("warning", subject, text, hint)


def _placed(
    patient: Patient, subject: str, requests: Requests, groups: Sequence[Object]
) -> Iterator[Row]:
    """Yield why Kueue cannot place pods by topology: by flavors that know it, of what they request.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    placement = patient.rendered.job.scheduling.topology
    flavors = allowed(patient.kubectl, "get", FLAVORS)
    topologies = allowed(patient.kubectl, "get", TOPOLOGIES)
    if placement is None or flavors is None or topologies is None:
        yield Row("note", f"{subject}'s flavors", "cannot be read with your rights")
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
        yield Row("missing", subject, text, "add it, or remove scheduling.topology")
        return
    for role, amounts in requests.items():
        if PODS not in placing and not any(parse(amounts.get(name, "0")) for name in placing):
            text = f"cannot place {role}, which requests none of {named(sorted(placing))}"
            yield Row("missing", subject, text, f"set resources of {role}")


def _levels(flavor: Object, levels: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the node labels of a flavor's topology."""
    return levels.get(flavor["spec"].get("topologyName", ""), ())


def dry_run(patient: Patient) -> Iterator[Row]:
    """Yield the errors with which the API server would reject objects of a job, or its pods."""
    rejected = _errors(patient, patient.rendered.objects)
    for error in rejected:
        if IMMUTABLE in error:
            hint = shlex.join(["mlgen", "diff", "--live", file_argument(patient.rendered.file)])
            text = "the job is in the cluster, with fields that cannot change"
            yield Row("warning", DRY_RUN, text, hint)
        else:
            yield Row("missing", DRY_RUN, shortened(error))
    if not rejected:
        yield Row("ok", DRY_RUN, "the API server accepts all objects")
    for error in _errors(patient, _pods(patient)):
        if OF_PODS.search(error):
            yield Row("missing", DRY_RUN, shortened(error), "change the resources")


def _pods(patient: Patient) -> Iterator[Object]:
    """Yield one pod of each workload, which the workload's controller will create.

    Its service account is that of the namespace, because a dry run does not create another.
    """
    for item in workloads(patient.rendered.objects).values():
        template = item["spec"]["template"]
        spec = {key: template["spec"][key] for key in template["spec"] if key not in NOT_YET}
        metadata = {"name": f"{item['metadata']['name']}-dry-run"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _errors(patient: Patient, objects: Iterable[Object]) -> list[str]:
    """Return the errors with which the API server rejects objects, without those of other rows."""
    words = ("apply", "--dry-run=server", "-f", "-")
    outcome = patient.kubectl.outcome(*words, namespace=patient.namespace, stdin=listed(objects))
    if not outcome.status:
        return []
    starts = r"(?m)^(?=Error from server|error: |The \w+ \")"
    found = [each.strip() for each in re.split(starts, outcome.stderr)]
    errors = [each for each in found if each and not each.startswith("Warning: ")]
    return list(dict.fromkeys(each for each in errors if not any(x in each for x in REPORTED)))
