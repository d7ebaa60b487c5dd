"""Rules about the network of a job: its domain, ports on the nodes, RDMA and clients."""

from collections.abc import Iterator

from mlgen.contradictions._registry import of_jobs
from mlgen.jobfile.model import written
from mlgen.kubernetes.limits import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX
from mlgen.problems import Problem, error, warning
from mlgen.resources import table
from mlgen.topology import Topology


@of_jobs
def cluster_domain(topology: Topology) -> Iterator[Problem]:
    """Report a domain of the cluster with which the replicas' addresses do not resolve.

    An address with the domain also contains the namespace: `<host>.<namespace>.svc.<domain>`.
    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {clusterDomain: svc.cluster.local}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: example, namespace: research}
        spec:
          framework: jax
          image: example/train:1
          command: [python, train.py]
          roles: {worker: {replicas: 2}}
          network: {clusterDomain: cluster.local}
    """
    path, domain = ("network", "clusterDomain"), topology.job.network.cluster_domain
    if not domain:
        return
    if not topology.job.namespace:
        hint = "set metadata.namespace, or pass --namespace"
        yield error(path, "clusterDomain requires a namespace", hint)
    _, services, rest = f".{domain}".partition(".svc.")
    if services:
        message = "mlgen adds svc to the addresses, so they would contain it twice"
        yield error(path, message, f"write {rest}")


@of_jobs
def host_ports(topology: Topology) -> Iterator[Problem]:
    """Report a range of ports on the nodes that is not used, or in which ports are not free.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {hostPorts: {base: 20000, size: 100}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 65000, size: 1000}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 30000, size: 10000}}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 20000, size: 10000}}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 30000, size: 100, allowReserved: true}}
    """
    path, ports = ("network", "hostPorts"), topology.job.network.host_ports
    if ports is None:
        return
    last = ports.base + ports.size - 1
    if not topology.job.network.on_host:
        message = "hostPorts has no effect without host networking"
        hint = "write network.host: true, or remove hostPorts"
        yield warning(path, message, hint, "no-effect")
    elif last > PORT_MAX:
        message = f"the range {ports.base} to {last} exceeds the highest port, {PORT_MAX}"
        yield error(path, message, "use a lower base or a smaller size")
    elif not ports.allow_reserved:
        for purpose, reserved in (
            ("NodePorts of Services", NODE_PORTS),
            ("outgoing connections of Linux", EPHEMERAL_PORTS),
        ):
            if ports.base < reserved.stop and last >= reserved.start:
                yield warning(
                    path,
                    f"the range {ports.base} to {last} overlaps with {reserved.start} to"
                    f" {reserved.stop - 1}, used for {purpose}",
                    "use another range, or write allowReserved: true if your nodes do not use it",
                )


@of_jobs
def mesh_on_host(topology: Topology) -> Iterator[Problem]:
    """Report a service mesh for pods with host networking, whose traffic it does not redirect.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, mesh: native}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {mesh: native}
    """
    network = topology.job.network
    if network.mesh == "native" and network.on_host:
        message = "pods with host networking cannot be part of a service mesh"
        hint = "remove network.mesh or network.host"
        yield warning(("network", "mesh"), message, hint, "no-effect")


@of_jobs
def rdma_fields(topology: Topology) -> Iterator[Problem]:
    """Report fields that the RDMA mode lacks or ignores, and networks on which it cannot work.

    `schemas/frameworks/fields.json` lists the fields of each mode.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: shared}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: host, networks: [ib]}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, rdma: {mode: shared, resource: rdma/ib}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: false, rdma: {mode: host, resource: rdma/ib}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: sriov, resource: nvidia.com/hca, networks: [ib]}}
    """
    job, network = topology.job, topology.job.network
    rdma, path = network.rdma, ("network", "rdma")
    values, fields = written(rdma), table("frameworks/fields")["rdma"][rdma.mode]
    for name in fields["required"]:
        if not values.get(name):
            hint = f"set {name}; ask your cluster administrator for the value"
            yield error(path, f"mode: {rdma.mode} requires {name}", hint)
    for name in fields["unused"]:
        if values.get(name):
            message = f"{name} has no effect with mode: {rdma.mode}"
            yield warning((*path, name), message, "remove it, or use another mode", "no-effect")
    if rdma.mode == "host" and network.host is False:
        hint = "write host: true, or rdma.mode: sriov"
        yield error(("network", "host"), "rdma.mode: host requires host networking", hint)
    if rdma.mode in ("sriov", "shared") and network.host:
        message = f"host networking and rdma.mode: {rdma.mode} are mutually exclusive"
        yield error(("network", "host"), message, "remove host: true, or write rdma.mode: host")
    if rdma.mode == "host" and not rdma.resource and job.security.profile != "privileged":
        message = "mode: host requires privileged pods or the resource of a device plugin"
        yield warning(path, message, "set resource, or write security.profile: privileged")


@of_jobs
def clients_of_supervisor(topology: Topology) -> Iterator[Problem]:
    """Report a NetworkPolicy of the supervisor's port that is not rendered, or blocks its clients.

    A policy selects pods by their addresses, so it does not select pods on the network of a node.
    https://kubernetes.io/docs/concepts/services-networking/network-policies/

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {metricsPort: 9090, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true}
        runPolicy: {progress: {}, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy:
          progress: {}
          networkPolicy: {alsoFrom: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/16}}]}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy:
          metricsPort: 9090
          networkPolicy: {alsoFrom: [{podSelector: {}}]}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true}
        runPolicy:
          progress: {}
          networkPolicy: {alsoFrom: [{ipBlock: {cidr: 10.0.0.0/16}}]}
    """
    policy, path = topology.job.run_policy, ("runPolicy", "networkPolicy")
    if policy.network_policy is None or not topology.supervised:
        return
    peers = policy.network_policy.also_from
    blocks = [peer for peer in peers if "ipBlock" in peer]
    if any(len(peer) > 1 for peer in blocks):
        hint = "write two peers: alsoFrom: [{ipBlock: {cidr: …}}, {podSelector: {}}]"
        yield error((*path, "alsoFrom"), "ipBlock is not allowed next to a selector", hint)
    if policy.port is None:
        yield warning(
            path,
            "networkPolicy has no effect: the supervisor receives no requests without progress,"
            " metricsPort or restartMode: InPlace",
            "remove it",
            "no-effect",
        )
    elif policy.metrics_port and not peers:
        yield warning(
            path,
            "networkPolicy lets only the pods of this job connect to metricsPort:"
            f" {policy.metrics_port}, so Prometheus cannot read the metrics",
            "add the namespace of Prometheus: alsoFrom: [{namespaceSelector:"
            " {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]",
        )
    if topology.job.network.on_host and policy.has_requests and not blocks:
        names = ", ".join(dict.fromkeys(role.name for role in topology.roles))
        yield warning(
            path,
            f"the pods of {names} use the network of their node, so a NetworkPolicy cannot select"
            " them, and networkPolicy may block their reports",
            "add the addresses of the nodes: alsoFrom: [{ipBlock: {cidr: 10.0.0.0/16}}]",
        )
