"""Quantities of resources, such as `500m` of CPU and `16Gi` of memory, and their sum in a pod.

Grammar, limits and the canonical form of results are from
https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/api/resource/quantity.go.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from typing import Any, Literal

from mlgen.input_limits import NUMBER_DIGITS

Quantity = str | int | float
"""A quantity as in a job file: 500m, 16Gi, 8, 0.5."""

MAX = Decimal(2**63 - 1)
"""The maximum. Larger quantities are capped."""

FINEST = Decimal("1e-9")
"""The precision. Quantities are rounded to multiples of it, away from zero."""

BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
"""Suffixes, each 1024 or 1000 times the one before it."""

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i)|([eE][+-]?[0-9]{1,9})|([numkMGTPE]?))\Z"
)

_CONTEXT = Context(prec=100, rounding=ROUND_UP)
"""Enough digits for multiples of a sum as large as MAX and as fine as FINEST."""


def natural(text: str) -> int | None:
    """Return a string of digits as a number; None for other strings and for too many digits.

    Python refuses to convert thousands of digits:
    https://docs.python.org/3/library/stdtypes.html#integer-string-conversion-length-limitation
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS
    return int(text) if is_number else None


def parse(quantity: Quantity) -> Decimal:
    """Return a quantity as a number.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _read(quantity)[0]


def total(quantities: Iterable[Quantity]) -> str:
    """Return the sum of quantities; "0" for none.

    The sum has a binary suffix (Ki, Mi, …) if all quantities do. It is never a fraction: 1500m, not
    1.5.

    Raises:
        ValueError: one of the texts is not a quantity.
    """
    amount, binary = Decimal(0), True
    for quantity in quantities:
        value, is_binary = _read(quantity)
        amount = _CONTEXT.add(amount, value)
        binary = binary and (is_binary or not value)
    return _text(amount, binary=binary)


def times(quantity: Quantity, count: int) -> str:
    """Return a multiple of a quantity, in the form of `total`.

    Raises:
        ValueError: the text is not a quantity.
    """
    value, binary = _read(quantity)
    return _text(_CONTEXT.multiply(value, Decimal(count)), binary=binary)


def readable(quantity: Quantity, *, size: bool) -> str:
    """Return a quantity in the unit that people use: `26.1`, `104 Gi`, `~6.8 Gi` if it is rounded.

    Args:
        quantity: the quantity.
        size: True for a number of bytes, False for a number such as CPUs, which has no unit.

    Raises:
        ValueError: the text is not a quantity.
    """
    value, binary = _read(quantity)
    base, units = (1024, BINARY) if binary else (1000, ("", *DECIMAL[4:]))
    power = 0
    while size and abs(value) >= base and power + 1 < len(units):
        value, power = _CONTEXT.divide(value, Decimal(base)), power + 1
    exact = abs(value) < 1 or value == value.quantize(Decimal("1e-3"), context=_CONTEXT)
    number = value if exact else value.quantize(Decimal("0.1"), rounding=ROUND_HALF_EVEN)
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'' if exact else '~'}{text} {units[power]}".rstrip()


def half(quantity: Quantity) -> str:
    """Return half of a quantity, rounded down to whole units, in the form of `total`.

    Raises:
        ValueError: the text is not a quantity.
    """
    value, binary = _read(quantity)
    halved = _CONTEXT.divide(value, Decimal(2)).to_integral_value(ROUND_FLOOR)
    return _text(halved, binary=binary)


def cure(text: str) -> str:
    """Return the hint for a misspelled quantity: `write 8G or 8Gi` for 8 GB; "" for other texts."""
    match = re.fullmatch(_MISWRITTEN, text.strip())
    if not match:
        return ""
    number, unit, binary, byte = match.groups()
    if not unit or (unit == "m" and not byte and not binary):
        return f"write {number}{unit}"
    prefix = unit.upper()
    two = f"{number}{prefix}i"
    return f"write {two}" if binary else f"write {number}{prefix.replace('K', 'k')} or {two}"


def seconds(text: str) -> int | None:
    """Return a duration in seconds: 5m, 24h, Slurm's 2-12:00:00; None for other texts."""
    if match := re.fullmatch(r"([0-9]{1,9})([smhd])", text):
        return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    match = re.fullmatch(r"(?:([0-9]{1,4})-)?([0-9]{1,4}):([0-9]{2}):([0-9]{2})", text)
    if not match:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


_MISWRITTEN = r"([0-9]+(?:\.[0-9]+)?)\s*([kKMmGgTtPp]?)(i?)([bB]?)"
"""A quantity with a space, a unit in the wrong case, or `B` for bytes."""


def _read(quantity: Quantity) -> tuple[Decimal, bool]:
    """Return a quantity as a number, and whether its suffix is binary."""
    match = _QUANTITY.match(str(quantity))
    if not match:
        hint = cure(str(quantity)) or "write a quantity such as 8, 0.5, 500m or 16Gi"
        raise ValueError(f'"{quantity}" is not a quantity; {hint}')
    number, binary, exponent, suffix = match.groups()
    if binary:
        value = _CONTEXT.multiply(Decimal(number), Decimal(1024 ** BINARY.index(binary)))
    else:
        value = Decimal(number + (exponent or f"e{3 * DECIMAL.index(suffix) - 9}"))
    value = max(-MAX, min(value, MAX))
    return value.quantize(FINEST, context=_CONTEXT), bool(binary)


def _text(value: Decimal, *, binary: bool) -> str:
    """Return the canonical form of a number. Below 1Ki, Kubernetes uses only decimal suffixes."""
    if binary and abs(value) >= 1024 and value == value.to_integral_value():  # noqa: PLR2004
        return _units(int(value), 1024, BINARY)
    return _units(int(_CONTEXT.scaleb(value, 9)), 1000, DECIMAL)


def _units(count: int, base: int, suffixes: tuple[str, ...]) -> str:
    """Return a count of the first suffix's units, in the largest unit that needs no fraction."""
    if count == 0:
        return "0"
    power = 0
    while count % base == 0 and power + 1 < len(suffixes):
        count //= base
        power += 1
    return f"{count}{suffixes[power]}"


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


def readable_amounts(amounts: Amounts) -> Amounts:
    """Return amounts in the units that people use: `26.1` for CPU, `104 Gi` for memory."""
    return {
        name: readable(amount, size=name.startswith(SIZES) or amount.endswith("i"))
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
