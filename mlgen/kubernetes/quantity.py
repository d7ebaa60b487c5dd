"""Amounts of resources as Kubernetes writes them: `500m` of a CPU, `16Gi` of memory.

The grammar, the limits and the form in which results are written are those of
k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_FLOOR, ROUND_UP, Context, Decimal
from functools import reduce

Amount = str | int | float
"""As in a job file: 500m, 16Gi, 8, 0.5."""

MAX = Decimal(2**63 - 1)
"""What is larger counts as this."""

FINEST = Decimal("1e-9")
"""What is finer is rounded up to this, away from zero."""

BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
"""Suffixes, each 1024 or 1000 times the one before it."""

_AMOUNT = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i)|([eE][+-]?[0-9]{1,9})|([numkMGTPE]?))\Z"
)

_CONTEXT = Context(prec=100, rounding=ROUND_UP)
"""Has room for a sum that is as large as MAX and as fine as FINEST, and for many times it."""


def parse(amount: Amount) -> Decimal:
    """Return an amount as a number, by which amounts of one resource compare.

    Raises:
        ValueError: it is not an amount.
    """
    return _read(amount)[0]


def total(amounts: Iterable[Amount]) -> str:
    """Return the sum of amounts of one resource, which is 0 where there are none.

    It has a binary suffix (Ki, Mi, …) if all of them do, and is never a fraction: 1500m, not 1.5.

    Raises:
        ValueError: one of them is not an amount.
    """
    read = [_read(amount) for amount in amounts]
    value = reduce(_CONTEXT.add, (value for value, _ in read), Decimal(0))
    return _text(value, binary=all(binary for value, binary in read if value))


def times(amount: Amount, count: int) -> str:
    """Return so many times an amount, written as `total` does.

    Raises:
        ValueError: it is not an amount.
    """
    value, binary = _read(amount)
    return _text(_CONTEXT.multiply(value, Decimal(count)), binary=binary)


def half(amount: Amount) -> str:
    """Return half of an amount, rounded down to whole units, as bytes are, and written so too.

    Raises:
        ValueError: it is not an amount.
    """
    value, binary = _read(amount)
    halved = _CONTEXT.divide(value, Decimal(2)).to_integral_value(ROUND_FLOOR)
    return _text(halved, binary=binary)


def _read(amount: Amount) -> tuple[Decimal, bool]:
    """Return an amount as a number, and whether its suffix is binary."""
    found = _AMOUNT.match(str(amount))
    if not found:
        raise ValueError(f'"{amount}" is not an amount: write it as in 8, 0.5, 500m or 16Gi')
    number, binary, exponent, suffix = found.groups()
    if binary:
        value = _CONTEXT.multiply(Decimal(number), Decimal(1024 ** BINARY.index(binary)))
    else:
        value = Decimal(number + (exponent or f"e{3 * DECIMAL.index(suffix) - 9}"))
    value = max(-MAX, min(value, MAX))
    return value.quantize(FINEST, context=_CONTEXT), bool(binary)


def _text(value: Decimal, *, binary: bool) -> str:
    """Write a number as Kubernetes does, which has no binary suffix for what is below 1Ki."""
    if binary and abs(value) >= 1024 and value == value.to_integral_value():  # noqa: PLR2004
        return _units(int(value), 1024, BINARY)
    return _units(int(_CONTEXT.scaleb(value, 9)), 1000, DECIMAL)


def _units(count: int, base: int, suffixes: tuple[str, ...]) -> str:
    """Write so many of the first unit in the largest one that needs no fraction."""
    if count == 0:
        return "0"
    power = 0
    while count % base == 0 and power + 1 < len(suffixes):
        count //= base
        power += 1
    return f"{count}{suffixes[power]}"
