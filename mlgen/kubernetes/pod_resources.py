"""The resources of a pod: its effective requests and limits.

https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from mlgen.kubernetes import quantity
from mlgen.kubernetes.quantity import parse, total

Kind = Literal["requests", "limits"]

Amounts = dict[str, str]
"""Quantities by resource name."""

GPU = "/gpu"
"""The suffix of GPU resource names: nvidia.com/gpu, amd.com/gpu."""

SHARED = {"cpu", "memory", "ephemeral-storage"}
"""Resources that a container without a limit may use up to the capacity of the node."""


SIZES = ("memory", "ephemeral-storage", "hugepages-")
"""The beginnings of the names of resources whose amounts are bytes."""


def requests(pod: Mapping[str, Any]) -> Amounts:
    """Return the amounts that the scheduler reserves for a pod, by resource.

    A resource without a request defaults to its limit.

    Args:
        pod: the spec of a pod.

    Raises:
        ValueError: a value is not a quantity.
    """
    return _effective(pod, "requests")


def limits(pod: Mapping[str, Any]) -> Amounts:
    """Return the total limits of all containers of a pod, by resource.

    CPU, memory and storage are omitted if a container or sidecar has no limit for them. Devices are
    never omitted, because a container without a limit for a device cannot use it.

    Raises:
        ValueError: a value is not a quantity.
    """
    unlimited = {
        name
        for name in SHARED - _amounts(pod, "limits").keys()
        for container in _running(pod)
        if name not in _amounts(container, "limits")
    }
    amounts = _effective(pod, "limits")
    return {name: amount for name, amount in amounts.items() if name not in unlimited}


def lasting(pod: Mapping[str, Any], kind: Kind) -> Amounts:
    """Return the requests or limits of a pod that apply while it runs.

    Excludes resources that only init containers request, because they are free after the start.

    Args:
        pod: the spec of a pod.
        kind: requests or limits.

    Raises:
        ValueError: a value is not a quantity.
    """
    amounts = requests(pod) if kind == "requests" else limits(pod)
    kept = {name for holder in (*_running(pod), pod) for name in _amounts(holder, kind)}
    return {name: amount for name, amount in amounts.items() if name in kept}


def readable(amounts: Amounts) -> Amounts:
    """Return amounts in the units that people use: `26.1` for CPU, `104 Gi` for memory."""
    return {
        name: quantity.readable(amount, size=name.startswith(SIZES) or amount.endswith("i"))
        for name, amount in amounts.items()
    }


def _running(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers and sidecars."""
    return [*pod["containers"], *filter(_is_sidecar, pod.get("initContainers") or [])]


def _effective(pod: Mapping[str, Any], kind: Kind) -> Amounts:
    """Return the largest amount of each resource that a pod has at any time.

    Sidecars start in order with the init containers, and keep running. Pod-level resources replace
    the sum of the containers:
    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#pod-level-resource-specification
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.get("initContainers") or []:
        present = _sum([sidecars, _amounts(container, kind)])
        if _is_sidecar(container):
            sidecars = present
        peak = _largest(peak, present)
    running = _sum([*(_amounts(container, kind) for container in pod["containers"]), sidecars])
    # The amounts of containers come first, to keep the order of the manifest.
    return _largest(running, peak) | _amounts(pod, kind)


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _amounts(holder: Mapping[str, Any], kind: Kind) -> Amounts:
    """Return the requests or limits of a container, or of a pod as a whole."""
    resources = holder.get("resources") or {}
    amounts = resources.get("limits") or {}
    if kind == "requests":
        amounts = amounts | (resources.get("requests") or {})
    return {name: str(amount) for name, amount in amounts.items()}


def _sum(holders: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts by resource."""
    by_name: dict[str, list[str]] = {}
    for amounts in holders:
        for name, amount in amounts.items():
            by_name.setdefault(name, []).append(amount)
    return {name: total(amounts) for name, amounts in by_name.items()}


def _largest(first: Amounts, second: Amounts) -> Amounts:
    """Return the larger amount of each resource."""
    larger = {
        name: amount
        for name, amount in second.items()
        if name not in first or parse(first[name]) < parse(amount)
    }
    return first | larger
