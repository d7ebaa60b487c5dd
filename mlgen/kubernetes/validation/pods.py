"""Rules for pods and resources that no row can express: functions that rules.json refers to.

Sources, as of Kubernetes 1.34.4: pkg/apis/core/validation/validation.go, in the cited functions,
and for the names and amounts of resources, validateResourceRequirements,
validateContainerResourceName and validatePodResources there, and pkg/apis/core/helper/helpers.go.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse, total
from mlgen.kubernetes.validation.rows import (
    QUALIFIED_HINT,
    Spot,
    between,
    conflict,
    invalid,
    is_qualified,
    is_subdomain,
    label,
    missing,
    qualified,
    values,
)
from mlgen.kubernetes.values import items, mapping, number, text
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem, ValuePath, did_you_mean

STANDARD = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES = "hugepages-"

COMPUTE = {"cpu", "memory"}
MILLI = Decimal("0.001")
"""Amounts of containers are rounded up to multiples of it (SetDefaults_ResourceList)."""


@lru_cache(maxsize=1024)
def _parsed(amount: str) -> Decimal | None:
    """Return a quantity in a string as a number; None if it is invalid."""
    try:
        return parse(amount)
    except ValueError:
        return None


def amount_of(value: Any) -> Decimal | None:
    """Return a quantity as a number; None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return _parsed(str(value))


def quantity(at: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """Yield a problem if a value is not a quantity, or is negative."""
    amount = amount_of(value)
    if amount is None:
        yield invalid(at, value, "quantity", "write a quantity such as 8, 0.5, 500m or 16Gi")
    elif amount < 0:
        yield Problem(at, f"expected at least 0, got {value}", "bad-value")


def requirements(at: ValuePath, value: Object, name_rule: Any) -> Iterator[Problem]:
    """The rules of ValidateResourceRequirements: requests, limits, and requests against limits."""
    requests, limits = mapping(value, "requests"), mapping(value, "limits")
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            path = (*at, kind, name)
            yield from name_rule(path, name)
            yield from _amount(path, name, amount)
    for name in requests:
        yield from _against_limit(at, name, requests, limits)
    names = {*requests, *limits}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & COMPUTE:
        yield conflict(at, "huge pages require cpu or memory", "set cpu or memory")


def _amount(path: ValuePath, name: str, value: Any) -> Iterator[Problem]:
    """The rules of ValidateResourceQuantityValue, validateResourceQuantityHugePageValue."""
    yield from quantity(path, value)
    amount = amount_of(value)
    if amount is None or amount < 0:
        return
    if is_device(name) and _rounded(amount) != _rounded(amount).to_integral_value():
        message = f"expected an integer number of {name}, got {value}"
        yield Problem(path, message, "bad-value", "write an integer")
    if name.startswith(HUGE_PAGES):
        size = amount_of(name.removeprefix(HUGE_PAGES))
        whole = amount.to_integral_value(ROUND_CEILING)
        if not size or size < 0 or size != size.to_integral_value() or whole % size:
            hint = "write a multiple of the page size, such as hugepages-2Mi: 64Mi"
            yield Problem(path, f"{value} is not a multiple of the page size", "bad-value", hint)


def _rounded(amount: Decimal) -> Decimal:
    """Return an amount as the API server stores it."""
    return amount.quantize(MILLI, rounding=ROUND_CEILING) if abs(amount) < 2**60 else amount


def _against_limit(
    at: ValuePath, name: str, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterator[Problem]:
    """Check a request against its limit. For devices and huge pages, both must be equal."""
    path = (*at, "requests", name)
    exact = is_device(name) or name.startswith(HUGE_PAGES)
    if name not in limits:
        if exact:
            message = f"{name} has a request, but no limit"
            yield conflict(path, message, "set the same amount in limits")
        return
    request, limit = amount_of(requests[name]), amount_of(limits[name])
    if request is None or limit is None:
        return
    difference = _rounded(request) - _rounded(limit)
    if exact and difference:
        message = f"the {name} request, {requests[name]}, differs from the limit, {limits[name]}"
        yield conflict(path, message, "write the same amount in both")
    elif difference > 0:
        message = f"the {name} request, {requests[name]}, exceeds the limit, {limits[name]}"
        yield conflict(path, message, "lower the request, or raise the limit")


def is_device(name: str) -> bool:
    """Return whether a resource is an extended resource, such as a GPU: IsExtendedResourceName."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def container_resource(path: ValuePath, name: str) -> Iterator[Problem]:
    """Yield a problem if a container cannot request a resource with this name."""
    if "/" not in name:
        if name not in STANDARD and not (name.startswith(HUGE_PAGES) and is_qualified(name)):
            alike = next((other for other in STANDARD if other.endswith(f"-{name}")), "")
            hint = did_you_mean(alike or name, STANDARD, 0.75) or _with_domain(name)
            yield Problem(path, f'Kubernetes has no resource "{name}"', "unknown-value", hint)
    elif not is_qualified(name) or (
        "kubernetes.io/" not in name
        and (name.startswith("requests.") or not is_qualified(f"requests.{name}"))
    ):
        hint = f"write a domain, a slash and a name; in the name, {QUALIFIED_HINT}"
        if name.startswith("requests."):
            hint = "remove requests."
        yield invalid(path, name, "resource name", hint)


def _with_domain(name: str) -> str:
    """Return the hint for a name without a domain."""
    full = "nvidia.com/gpu" if "gpu" in name.lower() or "nvidia" in name.lower() else f"…/{name}"
    return f"write the resource with its domain, as in {full}"


def _claims(at: ValuePath, value: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateResourceClaimNames."""
    known = {text(claim, "name") for _, claim in items(spot.around("PodSpec"), "resourceClaims")}
    seen: set[tuple[str, str]] = set()
    for index, claim in items(value, "claims"):
        path = (*at, "claims", index)
        name, request = text(claim, "name"), text(claim, "request")
        if not name:
            continue
        others = {part for used, part in seen if used == name}
        if request in others or "" in others or (others and not request):
            yield conflict(path, f"duplicate claim {name}", "remove one of them")
        seen.add((name, request))
        if name not in known:
            hint = did_you_mean(name, known) or "add it to resourceClaims of the pod"
            yield Problem((*path, "name"), f'the pod has no claim "{name}"', "reference", hint)


def pod_resource(path: ValuePath, name: str) -> Iterator[Problem]:
    """The rules of validatePodResourceName: the resources that a pod as a whole can request."""
    if name not in COMPUTE and not name.startswith(HUGE_PAGES):
        hint = "use cpu, memory or huge pages, or set it for a container"
        yield Problem(path, f"{name} cannot be set for a whole pod", "unknown-value", hint)


def of_container(at: ValuePath, value: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validateContainerResourceRequirements."""
    yield from requirements(at, value, container_resource)
    yield from _claims(at, value, spot)


def of_pod(at: ValuePath, value: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validatePodResources."""
    yield from requirements(at, value, pod_resource)
    if "claims" in value:
        message = "claims are not allowed in the resources of a pod"
        yield conflict((*at, "claims"), message, "set claims for a container")
    yield from _consistency(at, spot.around("PodSpec"))


def overhead(at: ValuePath, value: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateOverhead: the same as for limits."""
    for problem in requirements((), {"limits": value}, container_resource):
        yield replace(problem, path=(*at, *problem.path[1:]))


def _consistency(at: ValuePath, spec: Object) -> Iterator[Problem]:
    """The rules of validatePodResourceConsistency: a pod against its containers."""
    pod = mapping(spec, "resources")
    for name, value in mapping(pod, "requests").items():
        needed, amount = _needed(spec, "requests", name), amount_of(value)
        if amount is not None and needed > amount:
            total = f"{needed.normalize():f} in total"
            requests = f"the {name} requests of the containers, {total}"
            message = f"{requests}, exceed the request of the pod, {value}"
            yield conflict((*at, "requests", name), message, "raise the request of the pod")
    for name, value in mapping(pod, "limits").items():
        amount = amount_of(value)
        if amount is None:
            continue
        if name.startswith(HUGE_PAGES) and _needed(spec, "limits", name) > amount:
            message = f"the {name} limits of the containers exceed the limit of the pod, {value}"
            yield conflict((*at, "limits", name), message, "raise the limit of the pod")
        for _, container in items(spec, "containers"):
            limit = amount_of(mapping(container, "resources", "limits").get(name))
            if limit is not None and limit > amount:
                message = f"the {name} limit of a container exceeds the limit of the pod, {value}"
                yield conflict((*at, "limits", name), message, "raise the limit of the pod")


def _needed(spec: Object, kind: str, name: str) -> Decimal:
    """Return the total requests of a pod's containers: AggregateContainerRequests.

    Init containers run before the containers, and sidecars run in parallel with both.
    """

    def amount(container: Object) -> Decimal:
        limit = mapping(container, "resources", "limits").get(name)  # the default of a request
        return amount_of(mapping(container, "resources", kind).get(name, limit)) or Decimal(0)

    sidecars = most = Decimal(0)
    for _, container in items(spec, "initContainers"):
        if text(container, "restartPolicy") == "Always":
            sidecars += amount(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + amount(container))
    together = sum((amount(container) for _, container in items(spec, "containers")), sidecars)
    return max(most, together)


SLEEP_ZERO = KubeVersion(1, 33)
"""Since then, a hook may sleep for 0 s (PodLifecycleSleepActionAllowZero)."""

GRACE = 30
"""The default of terminationGracePeriodSeconds."""

LISTS = ("containers", "initContainers")
SEARCHES_MAX, SEARCHES_CHARACTERS = 32, 2048


def _claim_templates(spot: Spot) -> list[str]:
    """Return the names of the volumes from a StatefulSet's volumeClaimTemplates."""
    templates = items(spot.around("StatefulSetSpec"), "volumeClaimTemplates")
    return [text(mapping(claim, "metadata"), "name") for _, claim in templates]


def is_skipped(spot: Spot) -> bool:
    """Return whether the API server does not validate a mapping in its context."""
    if spot.kind == "Volume":  # a volumeClaimTemplate replaces it
        return text(spot.value, "name") in _claim_templates(spot)
    around = spot.outer.value if spot.outer else {}
    if spot.kind in ("Probe", "Lifecycle"):  # among init containers, only sidecars may have them
        return "initContainers" in spot.path and text(around, "restartPolicy") != "Always"
    if spot.outer and spot.outer.kind == "Volume":  # only the first source is validated
        return spot.path[-1] != next(iter(_sources(around)), "")
    return False


def _sources(volume: Object) -> list[str]:
    return [name for name, value in volume.items() if name != "name" and value is not None]


def _volumes(spot: Spot) -> dict[str, Object]:
    """Return the volumes of a pod, by name. Those of the last pod are kept for its containers."""
    pod, (last, volumes) = spot.nearest("PodSpec"), _LAST[0]
    if pod is None or last is not pod:
        volumes = _all_volumes(spot)
        _LAST[0] = (pod, volumes)
    return volumes


_LAST: list[tuple[Spot | None, dict[str, Object]]] = [(None, {})]
"""The last pod, and its volumes by name. Several rules need them for each container."""


def _all_volumes(spot: Spot) -> dict[str, Object]:
    listed = items(spot.around("PodSpec"), "volumes")
    made: Object = {name: {"persistentVolumeClaim": {}} for name in _claim_templates(spot)}
    return {text(volume, "name"): volume for _, volume in listed} | made


def volume_names(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumes, for the names."""
    made = _claim_templates(spot)
    listed = list(items(spot.value, "volumes"))
    own = [(index, text(each, "name")) for index, each in listed if text(each, "name") not in made]
    seen: set[str] = set()
    for index, name in [*own, *enumerate(made, start=len(listed))]:
        place = (*path, "volumes", index)
        if name and name in seen:
            yield conflict((*place, "name"), f"duplicate volume {name}", "rename one of the two")
        if index >= len(listed):
            yield from (
                label((*place, "name"), name, "volume name") if name else [missing(place, "name")]
            )
        seen.add(name)


def volume(path: ValuePath, volume: Object, _: Spot) -> Iterator[Problem]:
    """Check that a volume has at most one source. The default is emptyDir (SetDefaults_Volume)."""
    kinds = _sources(volume)
    if len(kinds) > 1:
        message = f"the volume {text(volume, 'name')} has several sources: {', '.join(kinds)}"
        yield Problem(path, message, "volume", "keep one source, or rename your volume")


def projected(path: ValuePath, source: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateProjectionSources."""
    used: set[str] = set()
    for index, part in items(source, "sources"):
        place = (*path, "sources", index)
        kinds = [kind for kind in part if part[kind] is not None]
        if len(kinds) > 1:
            message = f"several sources in one item: {', '.join(kinds)}"
            yield conflict(place, message, "write one item for each")
        for kind in kinds:
            for file in _files(kind, mapping(part, kind)):
                if file in used:
                    message = f"two sources have a file at the path {file}"
                    yield conflict(place, message, "change one of the two paths")
                used.add(file)


def _files(kind: str, source: Object) -> Iterator[str]:
    """Yield the file paths of a projection that must be unique among all projections."""
    if kind in ("secret", "configMap", "downwardAPI"):
        yield from filter(None, (text(item, "path") for _, item in items(source, "items")))
    elif kind == "clusterTrustBundle":
        yield text(source, "path")


def mounts(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumeMounts."""
    container, known, used = spot.value, _volumes(spot), dict[str, str]()
    devices = [device for _, device in items(container, "volumeDevices")]
    taken = {text(device, "name") for device in devices}
    paths = {text(device, "devicePath") for device in devices}
    for index, mount in items(container, "volumeMounts"):
        place = (*path, index)
        name, folder = text(mount, "name"), text(mount, "mountPath")
        if name and name not in known:
            message = (
                f"container {text(container, 'name')} mounts the volume {name}, "
                "which does not exist"
            )
            hint = did_you_mean(name, sorted(known)) or "add it to the volumes of the template"
            yield Problem(place, message, "volume", hint)
        if folder and folder in used:
            message = f"{used[folder]} and {name} are both mounted at {folder}"
            yield conflict((*place, "mountPath"), message, "change the mountPath of one of them")
        if name in taken or folder in paths:
            message = f"the volume {name} is both a device and a mount"
            yield conflict(place, message, "remove it from volumeDevices or volumeMounts")
        used.setdefault(folder, name)


def devices(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumeDevices, except for duplicates."""
    known = _volumes(spot)
    for index, device in items(spot.value, "volumeDevices"):
        place = (*path, index)
        volume = known.get(text(device, "name"))
        if volume is None:
            message = f'the pod has no volume "{text(device, "name")}"'
            yield Problem((*place, "name"), message, "volume", "add it to volumes")
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volume):
            message = "only a persistentVolumeClaim or an ephemeral volume can be a device"
            yield conflict((*place, "name"), message, "mount it in volumeMounts")


def names_and_host_ports(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateContainers, AccumulateUniqueHostPorts and validatePodHostNetworkDeps."""
    names, shared = set[str](), set[tuple[str, str, int]]()
    for field in LISTS:
        for index, container in items(spec, field):
            place, name = (*path, field, index), text(container, "name")
            if name and name in names:
                hint = "rename one of the two"
                yield conflict((*place, "name"), f"duplicate container {name}", hint)
            names.add(name)
            # Init containers run one after the other.
            used = shared if field == "containers" else set()
            for number_, item in items(container, "ports"):
                host = number(item, "hostPort")
                key = (text(item, "protocol") or "TCP", text(item, "hostIP"), host or 0)
                inner = (*place, "ports", number_, "hostPort")
                if host and key in used:
                    message = f"hostPort {host} is used twice"
                    yield conflict(inner, message, "change one of the two")
                used.add(key)
                own = field == "containers" and spec.get("hostNetwork") is True
                if host and own and host != number(item, "containerPort"):
                    message = "with hostNetwork: true, hostPort and containerPort must be equal"
                    yield conflict(inner, message, "remove hostPort")


def sleep(path: ValuePath, action: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validateSleepAction."""
    grace = number(spot.around("PodSpec"), "terminationGracePeriodSeconds")
    low = 0 if spot.version >= SLEEP_ZERO else 1
    seconds = number(action, "seconds") or 0
    yield from between((*path, "seconds"), seconds, (low, GRACE if grace is None else grace))


def file_key(path: ValuePath, name: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of validateFileKeyRefVolumes in Kubernetes 1.37.0."""
    known = _volumes(spot)
    if name not in known:
        yield conflict(path, f"there is no volume {name}", "add an emptyDir with this name")
    elif known[name].keys() - {"name", "emptyDir"}:
        yield conflict(path, f"the volume {name} is not an emptyDir", "use the name of an emptyDir")


def subscript(path: ValuePath, field: Any, _: Spot) -> Iterator[Problem]:
    """The rules of validateObjectFieldSelector, for single labels and annotations."""
    name, _bracket, rest = field.partition("['")
    key = rest.removesuffix("']")
    yield from qualified(path, key if name == "metadata.labels" else key.lower(), "label key")


CPU_DIVISORS = ("1m", "1")
DIVISORS = (
    *("1", "1k", "1M", "1G", "1T", "1P", "1E"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
)


def divisor(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of validateContainerResourceFieldSelector, for the divisor."""
    name, amount = text(spot.value, "resource"), amount_of(value)
    if amount == 0:
        return
    yield from quantity(path, value)
    allowed = CPU_DIVISORS if name.endswith(".cpu") else DIVISORS
    # An amount with an exponent keeps it.
    has_exponent = bool(re.search("[eE][+-]?[0-9]", str(value))) and amount != 1
    if amount is not None and (has_exponent or total([value]) not in allowed):
        yield invalid(path, value, f"divisor of {name}", f"use one of: {', '.join(allowed)}")


def searches(path: ValuePath, searches: Any, _: Spot) -> Iterator[Problem]:
    """The rules of validatePodDNSConfig, for all search domains together."""
    named = [str(search or "") for search in searches]
    characters = len(" ".join(named))
    if len(named) > SEARCHES_MAX or characters > SEARCHES_CHARACTERS:
        message = (
            f"expected at most {SEARCHES_MAX} search domains of {SEARCHES_CHARACTERS} characters,"
            f" got {len(named)} of {characters}"
        )
        yield Problem(path, message, "bad-value")


def node_names(path: ValuePath, names: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateNodeFieldSelectorRequirement, for the values."""
    if not all(isinstance(name, str) and is_subdomain(name) for name in names):
        yield invalid(path, names, "node name", "use the name of a node")


def label_keys(at: ValuePath, term: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateMatchLabelKeysAndMismatchLabelKeys."""
    wanted = [key for key in values(term, "matchLabelKeys") if isinstance(key, str)]
    unwanted = [key for key in values(term, "mismatchLabelKeys") if isinstance(key, str)]
    for key in sorted(set(wanted) & set(unwanted)):
        message = f"{key} is in both matchLabelKeys and mismatchLabelKeys"
        yield conflict((*at, "matchLabelKeys"), message, "remove one of them")
    rules = mapping(term, "labelSelector")
    seen = set(mapping(rules, "matchLabels"))
    for _number, rule in items(rules, "matchExpressions"):
        key = text(rule, "key")
        if key in wanted and key in seen:
            message = f"{key} is in both matchLabelKeys and labelSelector"
            yield conflict((*at, "matchLabelKeys"), message, "remove one of them")
        seen.add(key)


def deletion_cost(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
    """Check that a string is a 32-bit integer: GetDeletionCostFromPodAnnotations."""
    if not re.fullmatch("0|-?[1-9][0-9]{0,9}", value) or not -(2**31) <= int(value) < 2**31:
        yield invalid(path, value, "deletion cost", "write an integer in quotes")


def apparmor(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateAppArmorPodAnnotations, for the container name at the end of the key."""
    name = str(path[-1]).partition("/")[2]
    if name not in container_names(mapping(spot.around("PodTemplateSpec"), "spec")):
        message = f'the pod has no container "{name}"'
        yield Problem(path, message, "reference", "use appArmorProfile in a securityContext")


def container_names(spec: Object) -> set[str]:
    """Return the names of all containers of a pod."""
    return {text(container, "name") for field in LISTS for _, container in items(spec, field)}
