"""Rules for `resources`: names and amounts in requests and limits of containers and pods.

Sources, as of Kubernetes 1.34.4: pkg/apis/core/validation/validation.go
(validateResourceRequirements, validateContainerResourceName, validatePodResources) and
pkg/apis/core/helper/helpers.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import parse
from mlgen.kubernetes.validation.rows import Spot
from mlgen.kubernetes.validation.syntax import QUALIFIED_HINT, conflict, invalid, is_qualified
from mlgen.kubernetes.values import items, mapping, text
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
