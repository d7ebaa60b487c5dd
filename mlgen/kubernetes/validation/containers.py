"""Rules for containers and init containers.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (validateContainers,
validateInitContainers, validateContainerCommon, validateContainerPorts).
"""

from collections.abc import Iterator, Mapping

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation import images, mounts, probes, resources, security, volumes
from mlgen.kubernetes.validation._read import is_true, items, mapping, number, text, values
from mlgen.kubernetes.validation.env import env
from mlgen.kubernetes.validation.syntax import (
    conflict,
    few,
    label,
    missing,
    one_of,
    port,
    port_name,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

PROTOCOLS = ("TCP", "UDP", "SCTP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
RESTART_POLICIES = ("Always", "Never", "OnFailure")

RESTART_RULES = KubeVersion(1, 35)
"""Since then, containers may have a restartPolicy of their own (ContainerRestartRules)."""

RESTART_ALL = KubeVersion(1, 36)
"""Since then, sidecars may have rules, and a rule may restart all containers
(RestartAllContainersOnContainerExits)."""

RULES_MAX, CODES_MAX = 20, 255
"""How many restart rules a container may have, and how many exit codes a rule."""


def containers(at: ValuePath, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """Return the violations of all containers of a pod.

    Args:
        at: the path of the pod's spec.
        spec: the pod's spec.
        version: of the cluster.
    """
    if not any(items(spec, "containers")):
        yield missing(at, "containers")
    known = volumes.names(spec)
    claims = {text(claim, "name") for _, claim in items(spec, "resourceClaims")}
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for field in ("containers", "initContainers"):
        for index, container in items(spec, field):
            path, name = (*at, field, index), text(container, "name")
            yield from _common(path, container, spec, version)
            yield from resources.resources(
                (*path, "resources"), mapping(container, "resources"), claims
            )
            yield from mounts.mounts(path, container, known)
            if name and name in names:
                hint = "rename one of the two"
                yield conflict((*path, "name"), f"duplicate container {name}", hint)
            names.add(name)
            if field == "initContainers":
                # Init containers run one after the other.
                yield from _host_ports(path, container, spec, set())
                yield from _init(path, container, spec, version)
            else:
                if version < RESTART_RULES and container.get("restartPolicy") is not None:
                    # Before 1.34 it is rejected, and 1.34 drops it.
                    message = (
                        f"before Kubernetes {RESTART_RULES}, only sidecars have a restartPolicy"
                    )
                    hint = f"remove it, or set --kube-version {RESTART_RULES}"
                    yield conflict((*path, "restartPolicy"), message, hint)
                yield from _host_ports(path, container, spec, host_ports)
                yield from probes.probes(path, container)
                yield from probes.lifecycle(path, container, spec, version)
    yield from _ephemeral(at, spec)


def _common(
    at: ValuePath, container: Object, spec: Object, version: KubeVersion
) -> Iterator[Violation]:
    """The rules of validateContainerCommon, without image, mounts and resources."""
    name = text(container, "name")
    if not name:
        yield missing(at, "name")
    else:
        yield from label((*at, "name"), name, "container name")
    if text(container, "image"):
        yield from images.image((*at, "image"), text(container, "image"))
    else:
        message = f"container {name} has no image"
        yield Violation(at, message, "set image here or in spec", "missing-image")
    for field, allowed in ENUMERATIONS.items():
        yield from one_of((*at, field), container.get(field), allowed)
    yield from _ports(at, container)
    yield from env(at, container, version)
    yield from _resize(at, container, spec)
    if version >= RESTART_RULES:
        yield from _restart(at, container, version)
    yield from security.container_context(at, container, spec)


ENUMERATIONS: Mapping[str, tuple[str, ...]] = {
    "imagePullPolicy": PULL_POLICIES,
    "terminationMessagePolicy": MESSAGE_POLICIES,
}


def _ports(at: ValuePath, container: Object) -> Iterator[Violation]:
    """The rules of ValidateContainerPorts."""
    names: set[str] = set()
    for index, item in items(container, "ports"):
        path = (*at, "ports", index)
        name = text(item, "name")
        if name:
            yield from port_name((*path, "name"), name)
            if name in names:
                yield conflict((*path, "name"), f"duplicate port {name}", "rename one of the two")
            names.add(name)
        if not number(item, "containerPort"):
            yield missing(path, "containerPort")
        yield from port((*path, "containerPort"), number(item, "containerPort") or None)
        yield from port((*path, "hostPort"), number(item, "hostPort") or None)
        yield from one_of((*path, "protocol"), item.get("protocol"), PROTOCOLS)


def _host_ports(
    at: ValuePath, container: Object, spec: Object, used: set[tuple[str, str, int]]
) -> Iterator[Violation]:
    """The rules of AccumulateUniqueHostPorts, validatePodHostNetworkDeps.

    Args:
        at: the path of the container.
        container: the container.
        spec: the spec of its pod.
        used: the ports of the node that are taken; those of the container are added.
    """
    for index, item in items(container, "ports"):
        host, path = number(item, "hostPort"), (*at, "ports", index, "hostPort")
        if not host:
            continue
        key = (text(item, "protocol") or "TCP", text(item, "hostIP"), host)
        if key in used:
            yield conflict(path, f"hostPort {host} is used twice", "change one of the two")
        used.add(key)
        regular = at[-2] == "containers"
        if regular and is_true(spec, "hostNetwork") and host != number(item, "containerPort"):
            message = "with hostNetwork: true, hostPort and containerPort must be equal"
            yield conflict(path, message, "remove hostPort")


def _resize(at: ValuePath, container: Object, spec: Object) -> Iterator[Violation]:
    """The rules of validateResizePolicy."""
    seen: set[str] = set()
    for index, policy in items(container, "resizePolicy"):
        path, name = (*at, "resizePolicy", index), text(policy, "resourceName")
        action = text(policy, "restartPolicy")
        if name in seen:
            yield conflict(path, f"duplicate resizePolicy of {name}", "remove one of the two")
        seen.add(name)
        for field, value in (("resourceName", name), ("restartPolicy", action)):
            if not value:
                yield missing(path, field)
        yield from one_of((*path, "resourceName"), name, ("cpu", "memory"))
        yield from one_of((*path, "restartPolicy"), action, RESIZE_POLICIES)
        if spec.get("restartPolicy") == "Never" and action == "RestartContainer":
            message = "in a pod with restartPolicy: Never, no container can be restarted"
            yield conflict((*path, "restartPolicy"), message, "write NotRequired")


def _restart(at: ValuePath, container: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of validateContainerRestartPolicy, here of Kubernetes 1.37.0."""
    actions = ("Restart", "RestartAllContainers") if version >= RESTART_ALL else ("Restart",)
    yield from few((*at, "restartPolicyRules"), values(container, "restartPolicyRules"), RULES_MAX)
    yield from one_of(
        (*at, "restartPolicy"), container.get("restartPolicy"), RESTART_POLICIES, empty=False
    )
    if values(container, "restartPolicyRules") and "restartPolicy" not in container:
        yield missing(at, "restartPolicy", "add it, for containers to which no rule applies")
    for index, rule in items(container, "restartPolicyRules"):
        path = (*at, "restartPolicyRules", index)
        yield from one_of((*path, "action"), rule.get("action"), actions, empty=False)
        if "exitCodes" not in rule:
            yield missing(path, "exitCodes")
        codes = mapping(rule, "exitCodes")
        operator = text(codes, "operator")
        yield from one_of((*path, "exitCodes", "operator"), operator, ("In", "NotIn"))
        yield from few((*path, "exitCodes", "values"), values(codes, "values"), CODES_MAX)


def _init(
    at: ValuePath, container: Object, spec: Object, version: KubeVersion
) -> Iterator[Violation]:
    """Check what only restartable init containers, called sidecars, may have."""
    policy = text(container, "restartPolicy")
    if policy == "Always":
        ruled = values(container, "restartPolicyRules")
        if RESTART_RULES <= version < RESTART_ALL and ruled:
            message = "an init container with restartPolicy: Always has no restartPolicyRules"
            yield conflict((*at, "restartPolicyRules"), message, "remove it")
        yield from probes.probes(at, container)
        yield from probes.lifecycle(at, container, spec, version)
        return
    for field in ("lifecycle", *probes.PROBES):
        if field in container:
            message = f"an init container without restartPolicy: Always has no {field}"
            hint = "remove it, or write restartPolicy: Always to make it a sidecar"
            yield conflict((*at, field), message, hint)


def _ephemeral(at: ValuePath, spec: Object) -> Iterator[Violation]:
    if any(items(spec, "ephemeralContainers")):
        message = "a pod template has no ephemeral containers"
        yield conflict((*at, "ephemeralContainers"), message, "use kubectl debug")
