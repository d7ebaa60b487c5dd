"""Host networking, service mesh and RDMA, as a pod template patch."""

from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Role, Topology

ISTIO, LINKERD = "sidecar.istio.io/inject", "linkerd.io/inject"

ON_HOST = "ClusterFirstWithHostNet"
"""The DNS policy of pods on the host network that use the cluster's DNS:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy."""

MANY_SERVICES = 1000
"""With more replicas on the host network, each of which has a Service, pods get no variables for
Services: thirteen of each Service in the namespace. With about 3,000 Services these are 2 MiB, and
Linux starts no process with more arguments and variables, if stacks are limited to 8 MiB (ARG_MAX
in execve(2)); https://kubernetes.io/docs/tutorials/services/connect-applications-service/."""

NATIVE = "proxy-enable-native-sidecar"
"""Linkerd's name for the setting: alpha since 2.15, beta since 2.19, without either since 2.20."""

MESH: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "none": ({ISTIO: "false"}, {LINKERD: "disabled"}),
    "native": (
        {ISTIO: "true"},
        {
            "sidecar.istio.io/nativeSidecar": "true",
            LINKERD: "enabled",
            **{f"config{stage}.linkerd.io/{NATIVE}": "true" for stage in (".alpha", ".beta", "")},
        },
    ),
}
"""Labels and annotations of pods, by `network.mesh`.

A proxy that is not a native sidecar never exits, so its Job never completes, and init containers
have no network beside it. Istio reads the label since 1.10; older versions do not run on the
supported versions of Kubernetes. Pods can request a native sidecar since Istio 1.24 and Linkerd
2.15:
https://istio.io/latest/docs/reference/config/annotations/,
https://linkerd.io/2/reference/proxy-configuration/"""


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template patch for the job's network."""
    job = topology.job
    labels, mesh_annotations = MESH[job.network.mesh]
    annotations = dict(mesh_annotations)
    spec: dict[str, Any] = {}
    if job.network.on_host:
        # With the default policy, a pod on the host network uses the DNS servers of its node.
        spec = {"hostNetwork": True, "dnsPolicy": ON_HOST}
        if job.replicas > MANY_SERVICES:
            spec["enableServiceLinks"] = False
    if job.network.rdma.mode != "none" and _needs_rdma(topology, role):
        annotations |= _network_attachments(job)
        spec |= _rdma_volumes(job)
        spec["containers"] = [{"name": role.spec.main_container, **_rdma_container(job, role)}]
    return {"metadata": {"labels": dict(labels), "annotations": annotations}, "spec": spec}


def with_dns_policy(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which pods that a template puts on the host network find their peers.

    With the default policy, such a pod uses the DNS servers of its node. Volcano's webhook and the
    MPI operator set the same policy. A policy that the user has written is kept.
    """
    if not spec.get("hostNetwork") or spec.get("dnsPolicy"):
        return spec
    return spec | {"dnsPolicy": ON_HOST}


def _needs_rdma(topology: Topology, role: Role) -> bool:
    """True for roles with GPUs, and for every role of a job without GPUs."""
    return role.spec.gpus or not any(other.spec.gpus for other in topology.roles)


def _network_attachments(job: TrainingJob) -> dict[str, str]:
    """Return the annotation by which Multus attaches networks.

    https://k8snetworkplumbingwg.github.io/multus-cni/docs/how-to-use.html
    """
    networks = job.network.rdma.networks
    return {"k8s.v1.cni.cncf.io/networks": ",".join(networks)} if networks else {}


def _rdma_volumes(job: TrainingJob) -> dict[str, Any]:
    """Return the volume of the node's devices, unless a device plugin provides them."""
    rdma = job.network.rdma
    if rdma.mode != "host" or rdma.resource:
        return {}
    return {"volumes": [{"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}}]}


def _rdma_container(job: TrainingJob, role: Role) -> dict[str, Any]:
    """Return the training container's patch: the device, locked memory and NCCL's variables.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    rdma = job.network.rdma
    container: dict[str, Any] = {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
    if rdma.resource:
        # Each network needs a device of its own.
        devices = {rdma.resource: str(len(rdma.networks) or 1)}
        container["resources"] = {"limits": devices}
    else:
        container["securityContext"]["privileged"] = True
        container["volumeMounts"] = [{"name": "infiniband", "mountPath": "/dev/infiniband"}]
    env = {"NCCL_IB_DISABLE": "0"}
    if rdma.hca:
        env["NCCL_IB_HCA"] = rdma.hca
    if rdma.interface:
        env["NCCL_SOCKET_IFNAME"] = rdma.interface
    container["env"] = [
        {"name": name, "value": value} for name, value in env.items() if name not in role.spec.env
    ]
    return container
