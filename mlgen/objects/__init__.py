"""`Topology` → Kubernetes objects, as dicts, in the order in which they are applied."""

from collections.abc import Iterator
from typing import Any

from mlgen.job import Job
from mlgen.objects.labels import config_name, index_label, metadata, selector, workload_name
from mlgen.objects.pod import scripts, service_account
from mlgen.objects.skeleton import filled
from mlgen.objects.workload import workload
from mlgen.resources import script
from mlgen.topology import Role, Topology


def build(topology: Topology) -> list[dict[str, Any]]:
    """Return every object of a job: what pods need comes before the pods."""
    job, roles = topology.job, topology.roles
    found: list[dict[str, Any]] = []
    for role in roles:
        found += _rights(job, role)
    found += _config(topology)
    service = metadata(job, job.name, "rendezvous")
    found.append(filled("service", metadata=service, selector=selector(job)))
    for role in roles:
        found += _bare_name(job, role)
    found += [workload(job, role) for role in roles if role.serves]
    found += [workload(job, role) for role in roles if not role.serves]
    return found


def _config(topology: Topology) -> Iterator[dict[str, Any]]:
    """The ConfigMap with the files that pods see: scripts of ours, and what the framework wrote."""
    names = sorted(set().union(*(scripts(role) for role in topology.roles)))
    data = {name: topology.files.get(name) or script(name) for name in names}
    if data:
        job = topology.job
        yield filled("configmap", metadata=metadata(job, config_name(job), "config"), data=data)


def _rights(job: Job, role: Role) -> Iterator[dict[str, Any]]:
    """What lets a role ask the API: its service account, unless the user has one, and rights."""
    if not role.rights:
        return
    name, account = workload_name(job, role), service_account(job, role)
    meta = metadata(job, name, role.name)
    if account == name:
        yield filled("serviceaccount", metadata=meta)
    rules = [
        {
            "apiGroups": [""],
            "resources": [right.resource],
            "resourceNames": list(right.names),
            "verbs": list(right.verbs),
        }
        for right in role.rights
    ]
    yield filled("role", metadata=meta, rules=rules)
    yield filled(
        "rolebinding",
        metadata=meta,
        role=name,
        service_account=account,
        namespace=job.namespace,
    )


def _bare_name(job: Job, role: Role) -> Iterator[dict[str, Any]]:
    """A Service named as the first replica, whose host name then leads to it by itself."""
    if role.bare_name:
        meta = metadata(job, f"{workload_name(job, role)}-0", role.name)
        first = selector(job, role) | {index_label(role): "0"}
        yield filled("service", metadata=meta, selector=first)
