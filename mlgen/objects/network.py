"""Host networking, service mesh and RDMA, as a pod template patch."""

from typing import Any

from mlgen.jobfile.model import Rdma
from mlgen.kubernetes.values import merged
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
