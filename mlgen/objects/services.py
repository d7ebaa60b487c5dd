"""The headless Service of a job, and the Services that give single replicas an address."""

from collections.abc import Iterator
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects.labels import index_label, metadata, selector, workload_name
from mlgen.objects.skeleton import filled
from mlgen.topology import PEERS, Role


def job_service(job: TrainingJob) -> dict[str, Any]:
    """Return the headless Service that gives every pod of the job a DNS name."""
    service_metadata = metadata(job, job.name, "rendezvous")
    return filled("service", metadata=service_metadata, selector=selector(job), ports=None)


def replica_services(job: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
    """Return the Service of a role's replica, if it needs one.

    Under host networking, a replica listens on a port of its node, but its peers dial the role's
    constant port. Only a Service with a cluster IP maps one port to the other. The Service also
    exposes the node port under its own number, because the replica refers to itself by that port.

    If the role's `bare_name` is set, a headless Service resolves the host name of the first replica
    without the job's domain.
    """
    if role.host_ports:
        service_metadata = metadata(job, workload_name(job, role), role.name)
        ports = _host_ports(role)
        yield filled(
            "service", metadata=service_metadata, selector=selector(job, role), ports=ports
        )
    elif role.bare_name:
        service_metadata = metadata(job, f"{workload_name(job, role)}-0", role.name)
        first_replica = selector(job, role) | {index_label(role): "0"}
        yield filled("service", metadata=service_metadata, selector=first_replica, ports=None)


def _host_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports of the Service of a replica that uses host networking."""
    constant_ports = {PEERS: role.port} | dict(role.more_ports)
    ports = []
    for name, host_port in role.host_ports.items():
        ports.append({"name": name, "port": constant_ports[name], "targetPort": host_port})
        if host_port not in constant_ports.values():
            ports.append({"name": f"{name}-on-node", "port": host_port, "targetPort": host_port})
    return ports
