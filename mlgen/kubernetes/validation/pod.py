"""Rules for a pod template, except for those of its containers, volumes and placement.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidatePodTemplateSpec,
ValidatePodSpec and the functions that it calls).
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation import resources, scheduling, security
from mlgen.kubernetes.validation._read import is_true, items, mapping, number, text, values
from mlgen.kubernetes.validation.containers import containers
from mlgen.kubernetes.validation.metadata import annotations, labels
from mlgen.kubernetes.validation.pod_annotations import pod_annotations
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    ip_address,
    label,
    missing,
    one_of,
    qualified,
    subdomain,
)
from mlgen.kubernetes.validation.volumes import names, volumes
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

ENUMERATIONS = {
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "restartPolicy": ("Always", "OnFailure", "Never"),
}
NAMES = {
    "nodeName": "node name",
    "priorityClassName": "name of a PriorityClass",
    "runtimeClassName": "name of a RuntimeClass",
    "serviceAccount": "name of a ServiceAccount",
    "serviceAccountName": "name of a ServiceAccount",
}
LABELS = {"hostname": "host name", "subdomain": "name of a Service"}

SECONDS_MAX = 2**31 - 1
NAMESERVERS_MAX = 3
SEARCHES_MAX = 32
SEARCHES_CHARACTERS = 2048

RELAXED_SEARCHES = KubeVersion(1, 33)
"""Since then, a search domain may be a dot or have underscores (RelaxedDNSSearchValidation)."""

POD_RESOURCES = KubeVersion(1, 34)
"""Since then, a pod may have resources of its own (PodLevelResources)."""

HOST_NAMES = KubeVersion(1, 35)
"""Since then, a pod may replace its host name (HostnameOverride)."""

ENV_FILES = KubeVersion(1, 35)
"""Since then, variables may come from a file in an emptyDir (EnvFiles)."""

HOST_NAME_MAX = 64


def pod_template(
    at: ValuePath, template: Object, version: KubeVersion, ignored: tuple[str, ...] = ()
) -> Iterator[Violation]:
    """Return the violations of a pod template.

    Args:
        at: its path.
        template: the mapping.
        version: of the cluster.
        ignored: fields of its spec that a controller replaces.
    """
    meta, spec = mapping(template, "metadata"), mapping(template, "spec")
    path = (*at, "spec")
    yield from labels((*at, "metadata", "labels"), mapping(meta, "labels"))
    place = (*at, "metadata", "annotations")
    yield from annotations(place, mapping(meta, "annotations"))
    yield from pod_annotations(place, mapping(meta, "annotations"), spec)
    yield from _names(path, spec, ignored)
    yield from _host_name(path, spec, version)
    yield from _others(path, spec)
    yield from volumes(path, spec)
    yield from containers(path, spec, version)
    yield from _file_keys(path, spec, version)
    yield from labels((*path, "nodeSelector"), mapping(spec, "nodeSelector"))
    yield from security.pod_context(path, spec)
    yield from scheduling.affinity((*path, "affinity"), mapping(spec, "affinity"))
    yield from scheduling.tolerations(path, spec)
    yield from scheduling.spread(path, spec)
    yield from _dns(path, spec, version)
    yield from _gates(path, spec)
    yield from _resource_claims(path, spec)
    yield from _amounts(path, spec, version)


def _names(at: ValuePath, spec: Object, ignored: tuple[str, ...]) -> Iterator[Violation]:
    """Check enumerations, and the names of the objects that the pod refers to."""
    for field, allowed in ENUMERATIONS.items():
        yield from one_of((*at, field), spec.get(field), allowed)
    preemption = ("PreemptLowerPriority", "Never")
    yield from one_of(
        (*at, "preemptionPolicy"), spec.get("preemptionPolicy"), preemption, empty=False
    )
    for field, what in NAMES.items():
        name = spec.get(field)
        if field == "serviceAccount" and text(spec, "serviceAccountName"):
            continue
        if isinstance(name, str) and (name or field == "runtimeClassName"):
            yield from subdomain((*at, field), name, what)
    for field, what in LABELS.items():
        if text(spec, field) and field not in ignored:
            yield from label((*at, field), text(spec, field), what)


def _host_name(at: ValuePath, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of validatePodHostName in Kubernetes 1.37.0."""
    name, path = spec.get("hostnameOverride"), (*at, "hostnameOverride")
    if version < HOST_NAMES or not isinstance(name, str):
        return
    for field in ("hostNetwork", "setHostnameAsFQDN"):
        if is_true(spec, field):
            message = f"a pod with {field}: true has no hostnameOverride"
            yield conflict(path, message, "remove one of the two")
    if len(name) > HOST_NAME_MAX:
        message = f"expected at most {HOST_NAME_MAX} characters, got {len(name)}"
        yield Violation(path, message, "", "bad-value")
    yield from subdomain(path, name, "host name")


def _file_keys(at: ValuePath, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of validateFileKeyRefVolumes in Kubernetes 1.37.0."""
    if version < ENV_FILES:
        return
    known = names(spec)
    for field in ("containers", "initContainers"):
        for index, container in items(spec, field):
            for place, variable in items(container, "env"):
                name = text(mapping(variable, "valueFrom", "fileKeyRef"), "volumeName")
                path = (*at, field, index, "env", place, "valueFrom", "fileKeyRef", "volumeName")
                if name and name not in known:
                    yield conflict(path, f"there is no volume {name}", "add it, an emptyDir")
                elif name and known[name].keys() - {"name", "emptyDir"}:
                    message = f"the volume {name} is not an emptyDir"
                    yield conflict(path, message, "name an emptyDir")


def _others(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """Check Secrets, deadline, operating system and entries of /etc/hosts."""
    for index, secret in items(spec, "imagePullSecrets"):
        # The API server does not check these names, and the kubelet ignores Secrets it cannot find.
        if text(secret, "name"):
            path = (*at, "imagePullSecrets", index, "name")
            yield from subdomain(path, text(secret, "name"), "name of a Secret")
    deadline = number(spec, "activeDeadlineSeconds")
    yield from between((*at, "activeDeadlineSeconds"), deadline, 1, SECONDS_MAX)
    system = mapping(spec, "os")
    if "os" in spec:
        if not text(system, "name"):
            yield missing((*at, "os"), "name")
        yield from one_of((*at, "os", "name"), system.get("name"), ("linux", "windows"))
    for index, alias in items(spec, "hostAliases"):
        path = (*at, "hostAliases", index)
        yield from ip_address((*path, "ip"), text(alias, "ip"))
        for position, name in enumerate(values(alias, "hostnames")):
            yield from subdomain((*path, "hostnames", position), str(name), "host name")


def _dns(at: ValuePath, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of validatePodDNSConfig."""
    config, path = mapping(spec, "dnsConfig"), (*at, "dnsConfig")
    servers, searches = values(config, "nameservers"), values(config, "searches")
    if spec.get("dnsPolicy") == "None" and not servers:
        message = "dnsPolicy: None requires dnsConfig with nameservers"
        yield conflict((*at, "dnsPolicy"), message, "add dnsConfig.nameservers")
    if len(servers) > NAMESERVERS_MAX:
        message = f"expected at most {NAMESERVERS_MAX} nameservers, got {len(servers)}"
        yield Violation((*path, "nameservers"), message, "", "bad-value")
    for index, server in enumerate(servers):
        yield from ip_address((*path, "nameservers", index), str(server))
    characters = len(" ".join(map(str, searches)))
    if len(searches) > SEARCHES_MAX or characters > SEARCHES_CHARACTERS:
        message = (
            f"expected at most {SEARCHES_MAX} search domains of {SEARCHES_CHARACTERS} characters,"
            f" got {len(searches)} of {characters}"
        )
        yield Violation((*path, "searches"), message, "", "bad-value")
    for index, search in enumerate(map(str, searches)):
        name = search.removesuffix(".")
        if version >= RELAXED_SEARCHES:
            if search == ".":
                continue
            name = ".".join(_without_underscores(part) for part in name.split("."))
        yield from subdomain((*path, "searches", index), name, "search domain")
    for index, option in items(config, "options"):
        if not text(option, "name"):
            yield missing((*path, "options", index), "name")


def _without_underscores(part: str) -> str:
    """Return a DNS label with its allowed underscores replaced by dashes."""
    first = part.removeprefix("_")
    return first[:1] + first[1:-1].replace("_", "-") + first[1:][-1:]


def _gates(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """The rules of validateReadinessGates, validateSchedulingGates."""
    for index, gate in items(spec, "readinessGates"):
        path = (*at, "readinessGates", index, "conditionType")
        yield from qualified(path, text(gate, "conditionType"), "type of a condition")
    seen: set[str] = set()
    for index, gate in items(spec, "schedulingGates"):
        path, name = (*at, "schedulingGates", index, "name"), text(gate, "name")
        yield from qualified(path, name, "name of a scheduling gate")
        if name in seen:
            yield conflict(path, f"duplicate scheduling gate {name}", "remove one of the two")
        seen.add(name)


def _resource_claims(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """The rules of validatePodResourceClaims."""
    seen: set[str] = set()
    for index, claim in items(spec, "resourceClaims"):
        path, name = (*at, "resourceClaims", index), text(claim, "name")
        if not name:
            yield missing(path, "name")
        else:
            yield from label((*path, "name"), name, "name")
        if name in seen:
            yield conflict((*path, "name"), f"duplicate claim {name}", "rename one of the two")
        seen.add(name)
        sources = [f for f in ("resourceClaimName", "resourceClaimTemplateName") if f in claim]
        if len(sources) != 1:
            message = "expected either resourceClaimName or resourceClaimTemplateName"
            yield conflict(path, message, "keep or add one of them")
        for field in sources:
            yield from subdomain((*path, field), text(claim, field), "name of a claim")


def _amounts(at: ValuePath, spec: Object, version: KubeVersion) -> Iterator[Violation]:
    """The rules of validateOverhead, validatePodResources."""
    overhead = {"limits": mapping(spec, "overhead")}
    for violation in resources.requirements((), overhead, resources.container_resource):
        yield Violation(
            (*at, "overhead", *violation.path[1:]),
            violation.message,
            violation.hint,
            violation.code,
        )
    if version >= POD_RESOURCES and "resources" in spec:
        value, path = mapping(spec, "resources"), (*at, "resources")
        yield from resources.requirements(path, value, resources.pod_resource)
        if "claims" in value:
            message = "the resources of a pod have no claims"
            yield conflict((*path, "claims"), message, "set claims for a container")
        yield from resources.consistency(path, spec)
