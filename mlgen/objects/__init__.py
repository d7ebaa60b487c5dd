"""`Topology` → Kubernetes objects, as dicts, in the order in which they are applied."""

from collections.abc import Iterator
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects import supervisor
from mlgen.objects.gang import group
from mlgen.objects.labels import config_name, index_label, metadata, selector, workload_name
from mlgen.objects.pod import scripts, service_account
from mlgen.objects.skeleton import filled
from mlgen.objects.storage import files
from mlgen.objects.tensorboard import board, board_service
from mlgen.objects.workload import workload
from mlgen.resources import script
from mlgen.topology import PEERS, Role, Topology

ORDER = (
    *("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Service", "PodGroup"),
    *("Deployment", "StatefulSet", "Job"),
)
"""What others need comes before them."""


def build(topology: Topology) -> list[dict[str, Any]]:
    """Return every object of a job: what pods need comes before the pods.

    Raises:
        MlgenError: a template of the user's makes no sense.
    """
    job, roles = topology.job, topology.roles
    found: list[dict[str, Any]] = []
    for role in roles:
        found += _rights(job, role)
    found += _config(topology)
    found += files(topology)
    service = metadata(job, job.name, "rendezvous")
    found.append(filled("service", metadata=service, selector=selector(job), ports=None))
    for role in roles:
        found += _own_service(job, role)
    workloads = [(role, workload(topology, role)) for role in roles]
    found += [*board_service(topology), *group(topology, workloads), *board(topology)]
    found += [item for _, item in workloads]
    found += supervisor.supervision(topology, found)
    return sorted(found, key=lambda item: ORDER.index(item["kind"]))


def _config(topology: Topology) -> Iterator[dict[str, Any]]:
    """The ConfigMap with the files that pods see: scripts of ours, and what the framework wrote."""
    seen = (scripts(topology.job, role) for role in topology.roles)
    names = sorted(set(supervisor.files(topology)).union(*seen))
    data = {name: topology.files.get(name) or script(name) for name in names}
    if data:
        job = topology.job
        yield filled("configmap", metadata=metadata(job, config_name(job), "config"), data=data)


def _rights(job: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
    """What lets a role ask the API: its service account, unless the user has one, and rights."""
    if not role.rights:
        return
    name, account = workload_name(job, role), service_account(job, role)
    meta = metadata(job, name, role.name)
    if account == name:
        yield filled("serviceaccount", metadata=meta)
    rules: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for right in role.rights:
        rules.setdefault((right.names, right.verbs), []).append(right.resource)
    yield filled("role", metadata=meta, rules=[_rule(*rule) for rule in rules.items()])
    yield filled(
        "rolebinding",
        metadata=meta,
        role=name,
        service_account=account,
        namespace=job.namespace,
    )


def _rule(allowed: tuple[tuple[str, ...], ...], resources: list[str]) -> dict[str, Any]:
    names, verbs = allowed
    only = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [""], "resources": resources, **only, "verbs": list(verbs)}


def _own_service(job: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
    """A Service named as one replica.

    On its node's network a replica listens on another port than others dial, and only a Service
    with an address leads from the one to the other. It leads to the port on the node too: by that
    one a replica calls itself. Else, a host name that leads to the first replica by itself.
    """
    if role.host_ports:
        constant = {PEERS: role.port} | dict(role.more_ports)
        ports = []
        for name, port in role.host_ports.items():
            ports.append({"name": name, "port": constant[name], "targetPort": port})
            if port not in constant.values():
                ports.append({"name": f"{name}-on-node", "port": port, "targetPort": port})
        meta = metadata(job, workload_name(job, role), role.name)
        yield filled("service", metadata=meta, selector=selector(job, role), ports=ports)
    elif role.bare_name:
        meta = metadata(job, f"{workload_name(job, role)}-0", role.name)
        first = selector(job, role) | {index_label(role): "0"}
        yield filled("service", metadata=meta, selector=first, ports=None)
