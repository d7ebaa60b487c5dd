"""Rules about the network of pods."""

from collections.abc import Iterator

from mlgen.checks.pods import POD, TEMPLATE, Located, Pods, of_pods
from mlgen.kubernetes.values import value_at
from mlgen.objects.network import ISTIO, LINKERD


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


@of_pods
def mesh_proxy(pods: Pods) -> Iterator[Located]:
    """Report a proxy of a service mesh that a template requests, with which a Job never completes.

    The proxy runs until it is stopped, unless it is a native sidecar:
    https://github.com/istio/istio/issues/11659, https://linkerd.io/2/tasks/graceful-shutdown/.
    Of Istio's label and annotation, the label counts, and mlgen sets it.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {metadata: {labels: {sidecar.istio.io/inject: "true"}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {metadata: {annotations: {sidecar.istio.io/inject: "true"}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        network: {mesh: native}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          metadata:
            labels: {sidecar.istio.io/inject: "true"}
            annotations: {sidecar.istio.io/nativeSidecar: "true"}
        roles: {worker: {replicas: 2}}
    """
    metadata = (*TEMPLATE, "metadata")
    label, annotation = (*metadata, "labels", ISTIO), (*metadata, "annotations", ISTIO)
    linkerd, item = (*metadata, "annotations", LINKERD), pods.item
    annotations = value_at(item, (*metadata, "annotations")) or {}
    natives = ("nativeSidecar", "proxy-enable-native-sidecar")
    is_native = any(name.endswith(natives) for name in annotations)
    hint = "remove it, or write network.mesh: native, with which the proxy is a native sidecar"
    if is_native or item["kind"] != "Job":
        return
    for path, value in ((label, "true"), (linkerd, "enabled")):
        if value_at(item, path) == value:
            message = "the proxy of the service mesh does not end, so the Job never completes"
            yield pods.warning(path, message, hint, "never-ends")
    if value_at(item, label) == "false" and value_at(item, annotation) == "true":
        message = f'mlgen sets the label {ISTIO}: "false", which overrides this annotation'
        yield pods.warning(annotation, message, hint, "no-effect")
