"""`Topology` → Kubernetes objects as dicts, in the order in which to apply them."""

from collections.abc import Iterator
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.objects import placement, storage, supervisor
from mlgen.objects.errors import require_workloads
from mlgen.objects.labels import DECIDES, config_name, metadata, sign, workload_name
from mlgen.objects.pod import scripts, service_account
from mlgen.objects.security import access, policy_rule
from mlgen.objects.services import job_service, replica_services, tensorboard
from mlgen.objects.skeleton import filled
from mlgen.objects.workload import workloads
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
