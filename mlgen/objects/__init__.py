"""`Topology` → Kubernetes objects as dicts in the order in which to apply them, with comments.

A comment explains a field of a workload that a reviewer asks about. It is true for a value of the
user, too. Values that explain themselves have none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from mlgen.input_limits import JOB_BYTES, JOB_OBJECTS
from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import INT32_MAX, Notes, Object
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.objects import placement, storage, supervisor
from mlgen.objects.labels import DECIDES, config_name, metadata, numbered, sign, workload_name
from mlgen.objects.network import job_service, replica_services, tensorboard
from mlgen.objects.pod import scripts, service_account
from mlgen.objects.security import access, policy_rule
from mlgen.objects.skeleton import filled
from mlgen.objects.supervisor import RESTARTS, WORKLOADS, own_name
from mlgen.objects.workload import workloads
from mlgen.problems import MlgenError, Problem, ValuePath
from mlgen.resources import script
from mlgen.topology import Role, Topology

ORDER = (
    *("ServiceAccount", "Role", "RoleBinding", "Service", "PersistentVolumeClaim", "PodGroup"),
    *("Deployment", "StatefulSet", "Job", "ConfigMap"),
)
"""Kinds in the order in which to apply them: pods come after the objects that they need.

Scripts and files are last, to keep the workloads visible at the top of the manifest. A container
whose ConfigMap is created a moment later starts nevertheless.
"""

MANY = 20
"""From this number of workloads, ConfigMaps come first: kubelet retries a missing ConfigMap at
growing intervals of up to two minutes (pkg/util/goroutinemap/exponentialbackoff)."""


def build(topology: Topology, kube_version: KubeVersion = DEFAULT) -> list[dict[str, Any]]:
    """Return all objects of a job, in the order in which to apply them.

    Args:
        topology: the job's topology.
        kube_version: the cluster's Kubernetes version.

    Raises:
        MlgenError: a pod template of the user removes the training container or contains an invalid
            resource amount, or the job is too large.
    """
    job, roles = topology.job, topology.roles
    with_roles = list(workloads(topology))
    require_workloads(with_roles)
    placement.annotate(topology, with_roles)
    many = len(with_roles) >= MANY
    objects: list[dict[str, Any]] = []
    for role in roles:
        objects += _role_access(job, role)
    objects += _config_map(topology)
    objects += storage.claims(topology)
    objects += storage.config_maps(topology)
    objects.append(job_service(topology))
    for role in roles:
        objects += replica_services(job, role)
    objects += tensorboard(topology, [manifest for _, manifest in with_roles])
    objects += placement.pod_group(topology, with_roles)
    objects += [manifest for _, manifest in with_roles]
    objects.sort(key=lambda manifest: ORDER.index(manifest["kind"]))
    objects += supervisor.supervisor_objects(topology, objects, kube_version)
    sign(_deciding(topology, objects)["metadata"])
    return sorted(objects, key=lambda manifest: manifest["kind"] == "ConfigMap", reverse=many)


def _deciding(topology: Topology, objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the Job that determines the outcome; of several in a workflow, the first one."""
    names = {workload_name(topology.job, role) for role in topology.roles if role.decides}
    jobs = [item for item in objects if item["kind"] in supervisor.WORKLOADS]
    marked = [item for item in jobs if item["metadata"]["labels"].get(DECIDES) == "true"]
    return (marked or [item for item in jobs if item["metadata"]["name"] in names] or jobs)[0]


def _config_map(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return the ConfigMap with the scripts and framework files that pods mount, if any."""
    job = topology.job
    mounted = {name for role in topology.roles for name in scripts(job, role)}
    data = {name: topology.files.get(name) or script(name) for name in sorted(mounted)}
    if data:
        yield filled(
            "configmap", metadata=metadata(job, config_name(job.name), "config"), data=data
        )


def _role_access(job: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
    """Return the RBAC objects of a role whose pods use the Kubernetes API.

    Resources with the same names and verbs share a rule.
    """
    account = service_account(job, role)
    if not role.rights or account is None:
        return
    resources: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for right in role.rights:
        resources.setdefault((right.names, right.verbs), []).append(right.resource)
    rules = [policy_rule("", kinds, verbs, names) for (names, verbs), kinds in resources.items()]
    yield from access(job, metadata(job, workload_name(job, role), role.name), account, rules)


MATRIX: ValuePath = ("spec", "matrix")


def bytes_of(items: Iterable[Object]) -> int:
    """Return the approximate size of objects in a manifest, in bytes."""
    return sum(len(json.dumps(item, ensure_ascii=False)) for item in items)


def require_workloads(workloads: Sequence[tuple[Role, Object]]) -> None:
    """Check the total size of a job's workloads, assuming that a role's workloads are alike.

    Raises:
        MlgenError: the workloads are too large.
    """
    size = 0
    for _, group in groupby(workloads, key=lambda pair: pair[0].name):
        of_role = [item for _, item in group]
        size += bytes_of(of_role[-1:]) * len(of_role)
    if size > JOB_BYTES:
        message = (
            f"the {len(workloads):,} workloads of the job have {size >> 20:,} MiB together, the"
            f" limit is {JOB_BYTES >> 20} MiB"
        )
        hint = "put large files that many replicas read into a volume, or use fewer replicas"
        raise MlgenError([Problem(("spec", "roles"), message, "too-large", hint)])


def require_combinations(count: int, objects: Sequence[Object]) -> None:
    """Check the total number and size of the objects of all combinations of a matrix.

    Args:
        count: the number of combinations.
        objects: the objects of one combination.

    Raises:
        MlgenError: there are too many objects, or they are too large.
    """
    total = count * len(objects)
    size = count * bytes_of(objects) if total <= JOB_OBJECTS else 0
    if total > JOB_OBJECTS or size > JOB_BYTES:
        what = f"{total:,} objects" if total > JOB_OBJECTS else f"{size >> 20:,} MiB"
        limit = f"{JOB_OBJECTS:,} objects" if total > JOB_OBJECTS else f"{JOB_BYTES >> 20} MiB"
        message = f"the {count:,} combinations have {what} together, the limit is {limit}"
        raise MlgenError([Problem(MATRIX, message, "too-large", "use fewer values")])


LONGEST = 70
"""The maximum length of a comment on a condition, so that its line has less than 100 columns."""

PAUSED = "as in the input; render without suspend to start"
OWN_FAILURES = "failures of the supervisor itself, not of training"


def notes(topology: Topology) -> Callable[[Object], Notes]:
    """Return a function that returns the comments on an object of the job."""
    job = topology.job
    roles = {workload_name(job, role): role for role in topology.roles}
    added = {own_name(job): {"suspend": PAUSED, "backoffLimit": OWN_FAILURES}}
    added[placement.release_name(job)] = {
        "suspend": "the supervisor resumes it to release the group",
        "backoffLimit": "evictions of its pod count as failures",
    }

    def of_object(item: Object) -> Notes:
        if item["kind"] == "JobSet":
            return _of_jobset(topology, item)
        if item["kind"] not in WORKLOADS:
            return {}
        name, spec = item["metadata"]["name"], item["spec"]
        role = roles.get(name)
        fields = dict(_of_role(topology, role, spec)) if role else added.get(name, {})
        return {"spec": {key: text for key, text in fields.items() if _is_explained(spec, key)}}

    return of_object


def _is_explained(spec: Mapping[str, Any], key: str) -> bool:
    """Return True for a value that mlgen sets. Any other one is the user's."""
    values = {"suspend": (True,), "replicas": (0,)}.get(key, (0, RESTARTS, INT32_MAX))
    return spec.get(key) in values


def _of_jobset(topology: Topology, item: Object) -> Notes:
    """Return the comments on a JobSet and its Jobs."""
    roles = {numbered(role): role for role in topology.roles}
    jobs = {
        number: {"template": {"spec": dict(_of_role(topology, roles[each["name"]], spec))}}
        for number, each in enumerate(item["spec"]["replicatedJobs"])
        for spec in [each["template"]["spec"]]
    }
    return {"spec": {"suspend": PAUSED, "replicatedJobs": jobs}}


def _of_role(topology: Topology, role: Role, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield fields of a role's workload, each with its comment."""
    field = "replicas" if role.serves else "suspend"
    if topology.job.run_policy.suspend:
        yield field, PAUSED
    elif role.orders:
        yield field, _order(topology, role)
    limits = () if role.serves else ("backoffLimit", "backoffLimitPerIndex")
    for name in limits:
        if name in spec and (text := _limit(topology, role, spec[name])):
            yield name, text


def _order(topology: Topology, role: Role) -> str:
    """Return what a role waits for, and which program then starts it."""
    who = "the workflow" if topology.job.workflow else "the supervisor"
    verb = "scales it up" if role.serves else "resumes it"
    states = (f"{order.role} is {order.until.lower()}" for order in role.orders)
    text = f"{who} {verb} when {' and '.join(states)}"
    return text if len(text) <= LONGEST else f"{who} {verb} in order"


def _limit(topology: Topology, role: Role, limit: int) -> str:
    """Return why a role has no limit of retries, or no retries; "" for another limit.

    See `_retries` in `mlgen/objects/workload.py`.
    """
    job = topology.job
    if limit == INT32_MAX:
        why = ": it always restarts" if role.restart == "Always" else ""
        if role.restarts_together and not job.jobset:
            why = f": {'the workflow' if job.workflow else 'the supervisor'} counts the restarts"
        return f"no limit{why}"
    if limit == 0 and role.restarts_together and job.jobset and role.restart != "Never":
        return "JobSet counts the restarts"
    return NO_RETRIES.get(role.restart, "") if limit == 0 else ""


NO_RETRIES = {
    "Workflow": "the workflow counts the restarts",
    "Never": "no retries: the role's restartPolicy is Never",
}
"""Why a Job has no retries, by the restart policy of its role."""
