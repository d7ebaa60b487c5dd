"""Plain scalars as YAML 1.2 reads them: the core schema, with ruamel.yaml's additions.

https://yaml.org/spec/1.2.2/#103-core-schema; additions: `1_000`, `0b11`, and `.5e+3`.
"""

import math
import re
from typing import Any

from mlgen.bounds import NUMBER_DIGITS

WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""The plain scalars that are words, but not strings."""

INTEGER = "[-+]?(?:0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)"

FLOAT = (
    r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)

OCTAL = "0[0-7]+"

MAX_EXACT = 1 << 53
"""From here on, a 64-bit floating-point number cannot represent every integer."""


def plain(text: str) -> Any:
    """Return the value of a plain scalar: a string, number, boolean or None.

    Raises:
        ValueError: it is a number that a manifest cannot hold.
    """
    if text in WORDS:
        return WORDS[text]
    if text[0] not in "0123456789-+." or text.startswith("--"):
        return text
    if text[0] != "0" and len(text) < NUMBER_DIGITS and text.isascii() and text.isdecimal():
        return int(text)  # the most frequent
    if re.fullmatch(INTEGER, text):
        return integer(text)
    return number(text) if re.fullmatch(FLOAT, text) else text


def boolean(text: str) -> bool:
    """Return `true` or `false`, in any case, as bool.

    Raises:
        ValueError: it is another word.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def integer(text: str) -> int:
    """Return a decimal, `0x`, `0o`, `0b` or octal number as int.

    Kubernetes reads `0644`, a file mode, as octal, like YAML 1.1 (sigs.k8s.io/yaml).

    Raises:
        ValueError: it is no number, or too long.
    """
    if len(text) > NUMBER_DIGITS:
        raise ValueError
    text = text.replace("_", "").lower()
    digits = text.lstrip("+-")
    if re.fullmatch(OCTAL, digits):
        return int(text, 8)
    return int(text, {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10))


def number(text: str) -> int | float:
    """Return a finite number, as an int if it is exactly one.

    Raises:
        ValueError: it is infinity or NaN, of which JSON, in which the API server gets objects, has
            neither; or it is no number, or too long.
    """
    if len(text) > NUMBER_DIGITS:
        raise ValueError
    text = text.replace("_", "").lower()
    value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError
    return int(value) if value.is_integer() and abs(value) < MAX_EXACT else value
