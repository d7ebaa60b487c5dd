"""Services of the job and its replicas, host networking, service mesh, RDMA, and TensorBoard."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import Rdma, TrainingJob
from mlgen.kubernetes.values import merged
from mlgen.objects import security, storage
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

ISTIO, LINKERD = "sidecar.istio.io/inject", "linkerd.io/inject"

ON_HOST = "ClusterFirstWithHostNet"
"""The DNS policy of pods on the host network that use the cluster's DNS:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy."""

MANY_SERVICES = 1000
"""With more replicas on the host network, where each has a Service, pods get no variables for
Services. There are thirteen variables for each Service in the namespace: 2 MiB for about 3,000
Services. Linux starts no process with more arguments and variables, if stacks are limited to 8 MiB
(ARG_MAX in execve(2)); https://kubernetes.io/docs/tutorials/services/connect-applications-service/.
"""

MESH: dict[str, dict[str, dict[str, str]]] = {
    "none": {"labels": {ISTIO: "false"}, "annotations": {LINKERD: "disabled"}},
    "native": {
        "labels": {ISTIO: "true"},
        "annotations": {
            "sidecar.istio.io/nativeSidecar": "true",
            LINKERD: "enabled",
            "config.alpha.linkerd.io/proxy-enable-native-sidecar": "true",
            "config.beta.linkerd.io/proxy-enable-native-sidecar": "true",
            "config.linkerd.io/proxy-enable-native-sidecar": "true",
        },
    },
}
"""Labels and annotations of pods, by `network.mesh`.

A proxy that is not a native sidecar never exits, so its Job never completes, and init containers
run before it, without a network. Istio reads the label since 1.10. Older versions do not run on the
supported versions of Kubernetes. Pods can request a native sidecar since Istio 1.24 and Linkerd
2.15. Linkerd's setting is alpha in 2.15, beta since 2.19, and neither since 2.20:
https://istio.io/latest/docs/reference/config/annotations/,
https://linkerd.io/2/reference/proxy-configuration/"""


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template patch for the job's network."""
    job = topology.job
    spec: dict[str, Any] = {}
    if job.network.on_host:
        # With the default policy, a pod on the host network uses the DNS servers of its node.
        spec = {"hostNetwork": True, "dnsPolicy": ON_HOST}
        if job.replicas > MANY_SERVICES:
            spec["enableServiceLinks"] = False
    plain = {"metadata": MESH[job.network.mesh], "spec": spec}
    # In a job with GPUs, only roles with GPUs need RDMA. In other jobs, all roles do.
    needs_rdma = role.spec.gpus or not any(other.spec.gpus for other in topology.roles)
    if job.network.rdma.mode == "none" or not needs_rdma:
        return plain
    patched: dict[str, Any] = merged(plain, _rdma(job.network.rdma, role))
    return patched


def with_dns_policy(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec with the DNS policy that host networking needs to resolve peers.

    With the default policy, such a pod uses the DNS servers of its node. Volcano's webhook and the
    MPI operator set the same policy. A policy from the user is kept.
    """
    if not spec.get("hostNetwork") or spec.get("dnsPolicy"):
        return spec
    return spec | {"dnsPolicy": ON_HOST}


def _rdma(rdma: Rdma, role: Role) -> dict[str, Any]:
    """Return the patch for RDMA: networks, devices, locked memory and NCCL's variables.

    The devices come from a device plugin, one for each network, or from the node.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    variables = {
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": rdma.hca,
        "NCCL_SOCKET_IFNAME": rdma.interface,
    }
    name, path = "infiniband", "/dev/infiniband"
    plugin = bool(rdma.resource)
    of_node = rdma.mode == "host" and not plugin
    return filled(
        "rdma",
        networks=",".join(rdma.networks) or None,
        volume={"name": name, "hostPath": {"path": path}} if of_node else None,
        container=role.spec.main_container,
        privileged=None if plugin else True,
        devices={rdma.resource: str(len(rdma.networks) or 1)} if plugin else None,
        mount=None if plugin else {"name": name, "mountPath": path},
        env=[
            {"name": variable, "value": value}
            for variable, value in variables.items()
            if value and variable not in role.spec.env
        ],
    )


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
    fields = security.helper_fields(topology, workloads, None if board.image else image)
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
        resources=board.resources or security.helper_resources(job, BOARD_RESOURCES),
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
