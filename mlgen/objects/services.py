"""The Services of a job and of single replicas, and TensorBoard, which outlives the training."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.values import merged
from mlgen.objects import helpers, security, storage
from mlgen.objects.labels import (
    ROLE,
    app_labels,
    helper_name,
    index_label,
    metadata,
    numbered,
    selector,
)
from mlgen.objects.skeleton import filled
from mlgen.topology import Role, Topology


def service(
    metadata: dict[str, Any],
    selector: dict[str, str],
    ports: list[dict[str, Any]] | None = None,
    *,
    only_ready: bool = False,
) -> dict[str, Any]:
    """Return a Service with a cluster IP for these ports; a headless Service without ports.

    Args:
        metadata: the Service's metadata.
        selector: the labels of its pods.
        ports: the Service's ports.
        only_ready: True if pods get addresses only when they are ready.
    """
    return filled(
        "service",
        metadata=metadata,
        cluster_ip=None if ports else "None",
        before_ready=None if only_ready else True,
        selector=selector,
        ports=ports or None,
    )


def job_service(topology: Topology) -> dict[str, Any]:
    """Return the headless Service that gives every pod of the job a DNS name."""
    job = topology.job
    service_metadata = metadata(job, job.subdomain, "rendezvous")
    return service(service_metadata, selector(job), only_ready=topology.only_ready)


def replica_services(job: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
    """Return the Services for the replicas of a role that need their own Service.

    Under host networking, a replica listens on a port of its node, but its peers dial the role's
    constant port. Only a Service with a cluster IP maps one port to the other. The Service also
    exposes the node port under its own number, because the replica refers to itself by that port.

    On the pod network, a headless Service resolves each alias of a replica. A Service that lists
    only ready pods shows peers that a replica runs, like the Services of operators.
    """
    names = {f"{job.name}-{numbered(role)}": 0} if role.host_ports else {}
    for name, index in {**names, **role.aliases, **role.ready}.items():
        service_metadata = metadata(job, name, role.name)
        is_only = index is None or role.index is not None
        replica = {} if is_only else {index_label(role): str(index)}
        ports = _host_ports(role) if role.host_ports else None
        only_ready = name in role.ready
        yield service(service_metadata, selector(job, role) | replica, ports, only_ready=only_ready)


def _host_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports of the Service of a replica that uses host networking."""
    ports = []
    for name, number in role.host_ports.items():
        ports.append({"name": name, "port": role.ports[name], "targetPort": number})
        if number not in role.ports.values():
            ports.append({"name": f"{name}-on-node", "port": number, "targetPort": number})
    return ports


BOARD, BOARD_LABEL = "tensorboard", "mlgen.dev/tensorboard"

BOARD_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}

SHARED = {"pvc", "nfs", "hostPath"}
"""Volume types that several pods can mount. TensorBoard mounts them."""


def board_name(job: TrainingJob) -> str:
    """Return the name of TensorBoard's Service and Deployment."""
    return helper_name(job, BOARD)


def tensorboard(
    topology: Topology, workloads: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return the Service and the Deployment of TensorBoard, if the job has one.

    Its image defaults to the first training image.

    Args:
        topology: the job's topology.
        workloads: the job's Jobs and StatefulSets.
    """
    job, board, name = topology.job, topology.job.tensorboard, BOARD
    if not board:
        return
    own = {BOARD_LABEL: job.name, ROLE: name}
    ports = [{"name": "http", "port": board.port, "targetPort": "http"}]
    yield service(metadata(job, board_name(job), name), own, ports)
    image = next((role.spec.image for role in topology.roles if role.spec.image), None)
    fields = helpers.pod_fields(topology, workloads, None if board.image else image)
    deployment = filled(
        "deployment",
        metadata=metadata(job, board_name(job), name),
        selector=own,
        labels=app_labels(job, name) | fields["labels"] | own,
        annotations=fields["annotations"] or None,
        # A priority like that of the job would let it preempt training.
        priority=job.helpers.priority_class_name,
        node_selector=fields["node_selector"],
        tolerations=fields["tolerations"],
        pull_secrets=fields["pull_secrets"],
        name=name,
        image=board.image or image,
        command=[name, "--logdir", board.log_dir, "--bind_all", "--port", str(board.port)],
        port=board.port,
        resources=board.resources or helpers.resources(job, BOARD_RESOURCES),
        security={**security.CONFINED, **security.SECCOMP},
    )
    shared = {
        volume: {**short_form, "readOnly": True}
        for volume, short_form in job.volumes.items()
        if SHARED & set(short_form)
    }
    for patch in (security.patch(job, name), storage.patch(job, name, shared)):
        deployment["spec"]["template"] = merged(deployment["spec"]["template"], patch)
    yield deployment
