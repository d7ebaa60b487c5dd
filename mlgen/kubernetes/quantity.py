"""Quantities of resources as Kubernetes writes them: `500m` of CPU, `16Gi` of memory.

Grammar, limits and the canonical form of results are from
https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/api/resource/quantity.go.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal

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
