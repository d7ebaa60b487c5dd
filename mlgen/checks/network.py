"""Rules about the network of pods."""

from collections.abc import Iterator

from mlgen.checks.pods import POD, Located, Pods, of_pods


@of_pods
def dns_policy(pods: Pods) -> Iterator[Located]:
    """Report a DNS policy with which pods cannot resolve each other.

    With these policies, pods use the DNS servers of their node:
    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {dnsPolicy: Default}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirst}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {dnsPolicy: Default}}
        roles: {worker: {}}
    """
    policy, on_host = (pods.template["spec"].get(name) for name in ("dnsPolicy", "hostNetwork"))
    is_alone = len(pods.job.pods) == 1 and pods.count == 1
    if is_alone or not (policy == "Default" or (policy == "ClusterFirst" and on_host)):
        return
    with_host = "hostNetwork and " if on_host else ""
    message = f"with {with_host}dnsPolicy {policy}, names of other pods do not resolve"
    hint = "remove dnsPolicy"
    if on_host:
        hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
    yield pods.warning((*POD, "dnsPolicy"), message, hint)
