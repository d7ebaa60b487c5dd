"""Over what pods talk: the node's network, a mesh, RDMA; as a patch of the pod template."""

from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.topology import Role, Topology

ISTIO, LINKERD = "sidecar.istio.io/inject", "linkerd.io/inject"

NATIVE = "proxy-enable-native-sidecar"
"""The name has been alpha since Linkerd 2.15, beta since 2.19, and is neither since 2.20."""

MESH: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "none": ({ISTIO: "false"}, {ISTIO: "false", LINKERD: "disabled"}),
    "native": (
        {ISTIO: "true"},
        {
            "sidecar.istio.io/nativeSidecar": "true",
            LINKERD: "enabled",
            **{f"config{stage}.linkerd.io/{NATIVE}": "true" for stage in (".alpha", ".beta", "")},
        },
    ),
}
"""Labels and annotations. A proxy that is no native sidecar never ends, nor does its Job, and init
containers have no network beside it. Istio prefers the label, older ones know the annotation alone.
A pod may ask for a native sidecar since Istio 1.24 and Linkerd 2.15:
https://istio.io/latest/docs/reference/config/annotations/,
https://linkerd.io/2/reference/proxy-configuration/"""


def patch(topology: Topology, role: Role) -> dict[str, Any]:
    """Return what a pod template says of networks."""
    job = topology.job
    labels, annotations = MESH[job.network.mesh]
    annotations, spec, main = dict(annotations), {}, {}
    if job.network.on_host:
        # Without this policy, a pod on its node's network asks the node's DNS server.
        spec = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if job.network.rdma.mode != "none" and _trains(topology, role):
        annotations |= _attachments(job)
        spec |= _devices(job)
        main = _rdma(job, role)
    if main:
        spec["containers"] = [{"name": role.spec.main_container, **main}]
    return {"metadata": {"labels": dict(labels), "annotations": annotations}, "spec": spec}


def _trains(topology: Topology, role: Role) -> bool:
    """Of a job with GPUs, only what has them gets network hardware too."""
    return role.spec.gpus or not any(other.spec.gpus for other in topology.roles)


def _attachments(job: TrainingJob) -> dict[str, str]:
    """Multus' annotation (https://k8snetworkplumbingwg.github.io/multus-cni/docs/how-to-use.html)."""
    networks = job.network.rdma.networks
    return {"k8s.v1.cni.cncf.io/networks": ",".join(networks)} if networks else {}


def _devices(job: TrainingJob) -> dict[str, Any]:
    rdma = job.network.rdma
    if rdma.mode != "host" or rdma.resource:
        return {}
    return {"volumes": [{"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}}]}


def _rdma(job: TrainingJob, role: Role) -> dict[str, Any]:
    """The main container's part: the device, memory that may be locked, and NCCL's variables.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    rdma = job.network.rdma
    found: dict[str, Any] = {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
    if rdma.resource:
        # Each network takes a device of its own.
        amount = {rdma.resource: str(len(rdma.networks) or 1)}
        found["resources"] = {"requests": amount, "limits": dict(amount)}
    else:
        found["securityContext"]["privileged"] = True
        found["volumeMounts"] = [{"name": "infiniband", "mountPath": "/dev/infiniband"}]
    env = {"NCCL_IB_DISABLE": "0"}
    if rdma.hca:
        env["NCCL_IB_HCA"] = rdma.hca
    if rdma.interface:
        env["NCCL_SOCKET_IFNAME"] = rdma.interface
    found["env"] = [{"name": n, "value": v} for n, v in env.items() if n not in role.spec.env]
    return found
