"""Converts plain scalars by the core schema of YAML 1.2, with some additions.

https://yaml.org/spec/1.2.2/#103-core-schema. Additions: `1_000`, `0b11`, and `.5e+3`.
"""

import math
import re
from collections.abc import Callable
from typing import Any

WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), "null"),
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), "bool"),
    "<<": "merge",
}
"""The types of plain scalars that are words but not strings."""

INTEGER = re.compile("[-+]?(?:0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)")

FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)

OCTAL = re.compile("0[0-7]+")

MAX_EXACT = 1 << 53
"""From this number on, a 64-bit floating-point number cannot represent every integer."""


def kind(text: str) -> str:
    """Return the type of a plain scalar: `str`, `merge`, or one of TYPES."""
    word = WORDS.get(text)
    if word:
        return word
    if text[0] not in "0123456789-+.":
        return "str"
    if INTEGER.fullmatch(text):
        return "int"
    return "float" if FLOAT.fullmatch(text) else "str"


def boolean(text: str) -> bool:
    """Return `true` or `false`, in any case, as bool.

    Raises:
        ValueError: it is not one of these words.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def integer(text: str) -> int:
    """Return a decimal, `0x`, `0o`, `0b` or octal number as int.

    Kubernetes reads `0644`, a file mode, as octal, like YAML 1.1 (sigs.k8s.io/yaml).

    Raises:
        ValueError: it is not a number.
    """
    text = text.replace("_", "").lower()
    digits = text.lstrip("+-")
    if OCTAL.fullmatch(digits):
        return int(text, 8)
    return int(text, {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10))


def number(text: str) -> int | float:
    """Return a finite number, as an int if it is exactly one.

    Raises:
        ValueError: it is not a number, or it is infinity or NaN. JSON, the API server's format, has
            neither.
    """
    text = text.replace("_", "").lower()
    value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError
    return int(value) if value.is_integer() and abs(value) < MAX_EXACT else value


TYPES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", lambda _: None),
    "bool": ("a boolean", boolean),
    "int": ("an integer", integer),
    "float": ("a number", number),
}
"""By YAML type, except strings: its description in messages, and the function that reads it."""
