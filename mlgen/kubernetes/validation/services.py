"""Rules for Services.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (validateService,
validateServicePort, ValidateServiceClusterIPsRelatedFields). Fields of load balancers are checked
only where mlgen renders them.
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, number, text, values
from mlgen.kubernetes.validation.containers import PROTOCOLS
from mlgen.kubernetes.validation.metadata import labels
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    ip_address,
    label,
    missing,
    one_of,
    port,
    port_or_name,
    qualified,
    subdomain,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

SPEC: ValuePath = ("spec",)
TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
EXTERNAL = ("NodePort", "LoadBalancer")
AFFINITY_SECONDS = 86400
TOPOLOGY_MODES = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)

SAME_TRAFFIC = KubeVersion(1, 34)
"""Since then, traffic can prefer the same zone or node (PreferSameTrafficDistribution)."""

POINTERS = {
    "internalTrafficPolicy": ("Cluster", "Local"),
    "ipFamilyPolicy": ("SingleStack", "PreferDualStack", "RequireDualStack"),
}
ENUMERATIONS = {
    "sessionAffinity": ("None", "ClientIP"),
    "type": TYPES,
}


def service(item: Object, version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of a Service."""
    spec = mapping(item, "spec")
    kind = text(spec, "type") or "ClusterIP"
    headless = text(spec, "clusterIP") == "None"
    for field, allowed in ENUMERATIONS.items():
        yield from one_of((*SPEC, field), spec.get(field), allowed)
    for field, allowed in POINTERS.items():
        yield from one_of((*SPEC, field), spec.get(field), allowed, empty=False)
    yield from labels((*SPEC, "selector"), mapping(spec, "selector"))
    yield from _ports(spec, kind)
    if kind == "ExternalName":
        yield from _external_name(spec)
    else:
        yield from _addresses(spec, kind)
        if not values(spec, "ports") and not headless:
            yield missing(SPEC, "ports", "add ports, or write clusterIP: None")
    yield from _external_fields(spec, kind)
    yield from _traffic(item, spec, version)


def _ports(spec: Object, kind: str) -> Iterator[Violation]:
    """The rules of ValidateServicePort, and duplicates."""
    names: set[str] = set()
    used: set[tuple[str, int]] = set()
    several = len(values(spec, "ports")) > 1
    for index, item in items(spec, "ports"):
        path, name = (*SPEC, "ports", index), text(item, "name")
        protocol = text(item, "protocol") or "TCP"
        if several and not name:
            yield missing(path, "name", "name each of several ports")
        if name:
            yield from label((*path, "name"), name, "name of a port")
            if name in names:
                yield conflict((*path, "name"), f"duplicate port {name}", "rename one of the two")
            names.add(name)
        yield from one_of((*path, "protocol"), protocol, PROTOCOLS)
        value = number(item, "port") or 0
        yield from port((*path, "port"), value)
        if (protocol, value) in used:
            yield conflict((*path, "port"), f"duplicate port {value}", "remove one of the two")
        used.add((protocol, value))
        target = item.get("targetPort")
        if target not in (None, 0, ""):
            yield from port_or_name((*path, "targetPort"), target)
        if "appProtocol" in item:
            yield from qualified(
                (*path, "appProtocol"), text(item, "appProtocol"), "name of a protocol"
            )
        if number(item, "nodePort") and kind not in EXTERNAL:
            message = f"a Service of type {kind} has no nodePort"
            yield conflict((*path, "nodePort"), message, "remove it, or write type: NodePort")


def _external_name(spec: Object) -> Iterator[Violation]:
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            message = f"a Service of type ExternalName has no {field}"
            yield conflict((*SPEC, field), message, "remove it")
    name = text(spec, "externalName").removesuffix(".")
    if not name:
        yield missing(SPEC, "externalName")
    else:
        yield from subdomain((*SPEC, "externalName"), name, "host name")


def _addresses(spec: Object, kind: str) -> Iterator[Violation]:
    """Check the addresses of the Service within the cluster."""
    address, addresses = text(spec, "clusterIP"), values(spec, "clusterIPs")
    if address == "None" and kind in EXTERNAL:
        message = f"a Service of type {kind} needs an address in the cluster"
        yield conflict((*SPEC, "clusterIP"), message, "remove clusterIP: None")
    if addresses and addresses[0] != address:
        message = "the first of clusterIPs must equal clusterIP"
        yield conflict((*SPEC, "clusterIPs"), message, "remove clusterIPs")
    if address not in ("", "None"):
        yield from ip_address((*SPEC, "clusterIP"), address)
    for index, ip in enumerate(addresses[1:], start=1):
        yield from ip_address((*SPEC, "clusterIPs", index), str(ip))
    families = values(spec, "ipFamilies")
    for index, family in enumerate(families):
        yield from one_of((*SPEC, "ipFamilies", index), family, ("IPv4", "IPv6"), empty=False)
        if family in families[:index]:
            message = f"duplicate family {family}"
            yield conflict((*SPEC, "ipFamilies", index), message, "remove one of the two")


def _external_fields(spec: Object, kind: str) -> Iterator[Violation]:
    """Check fields that only some types of Services have."""
    external = kind in EXTERNAL or bool(values(spec, "externalIPs"))
    policy, path = spec.get("externalTrafficPolicy"), (*SPEC, "externalTrafficPolicy")
    yield from one_of(path, policy, ("Cluster", "Local"))
    if policy and not external:
        yield conflict(path, f"a Service of type {kind} has no externalTrafficPolicy", "remove it")
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if field in spec and kind != "LoadBalancer":
            message = f"a Service of type {kind} has no {field}"
            yield conflict((*SPEC, field), message, "remove it")
    if values(spec, "loadBalancerSourceRanges") and kind != "LoadBalancer":
        message = f"a Service of type {kind} has no loadBalancerSourceRanges"
        yield conflict((*SPEC, "loadBalancerSourceRanges"), message, "remove it")
    health = number(spec, "healthCheckNodePort")
    if health and not (kind == "LoadBalancer" and policy == "Local"):
        message = "healthCheckNodePort requires type: LoadBalancer, externalTrafficPolicy: Local"
        yield conflict((*SPEC, "healthCheckNodePort"), message, "remove it")
    for index, ip in enumerate(values(spec, "externalIPs")):
        yield from ip_address((*SPEC, "externalIPs", index), str(ip))


def _traffic(item: Object, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """Check session affinity and the distribution of traffic."""
    if spec.get("sessionAffinity") == "ClientIP":
        config = mapping(spec, "sessionAffinityConfig", "clientIP")
        path = (*SPEC, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        yield from between(path, number(config, "timeoutSeconds"), 1, AFFINITY_SECONDS)
    modes = ("PreferClose", "PreferSameZone", "PreferSameNode")
    allowed = modes if version >= SAME_TRAFFIC else modes[:1]
    preference = spec.get("trafficDistribution")
    yield from one_of((*SPEC, "trafficDistribution"), preference, allowed, empty=False)
    pairs = mapping(item, "metadata", "annotations")
    if len({pairs[key] for key in TOPOLOGY_MODES if key in pairs}) > 1:
        message = f"{TOPOLOGY_MODES[0]} and {TOPOLOGY_MODES[1]} differ"
        path = ("metadata", "annotations", TOPOLOGY_MODES[0])
        yield conflict(path, message, "remove the second")
