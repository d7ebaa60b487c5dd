"""Rules for single values: names, keys, labels, ports, paths, numbers and enumerations.

Each rule gets the path and the value, and returns at most one violation. Unless noted otherwise,
they are those of k8s.io/apimachinery v0.34.4, pkg/util/validation/validation.go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes.limits import PORT_MAX
from mlgen.kubernetes.names import DNS_1123, LABEL_MAX
from mlgen.kubernetes.violation import Violation
from mlgen.problems import Code, ValuePath, choice

SUBDOMAIN_MAX = 253
PORT_NAME_MAX = 15

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_DATA_KEY = r"[-._a-zA-Z0-9]+\Z"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*\Z")

LABEL_HINT = "use lower-case letters, digits and dashes, starting and ending with a letter or digit"
SUBDOMAIN_HINT = (
    "use lower-case letters, digits, dashes and dots, starting and ending with a letter or digit"
)
QUALIFIED_HINT = (
    "use at most 63 letters, digits, dashes, underscores and dots, starting and ending with a"
    " letter or digit"
)
KEY_HINT = "use letters, digits, dashes, underscores and dots"


def invalid(at: ValuePath, value: Any, what: str, hint: str) -> Violation:
    """Return the violation of a value that is not what the field requires."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return Violation(at, f"{shown} is not a valid {what}", hint, "bad-value")


def missing(at: ValuePath, field: str, hint: str = "") -> Violation:
    """Return the violation of a mapping that lacks a field."""
    return Violation(at, f'field "{field}" is missing', hint or f"add {field}", "missing-field")


def conflict(at: ValuePath, message: str, hint: str, code: Code = "combination") -> Violation:
    """Return the violation of values that cannot be used together."""
    return Violation(at, message, hint, code)


def exactly_one(
    at: ValuePath, value: Mapping[str, Any], names: Sequence[str], message: str
) -> Iterator[Violation]:
    """Check that a mapping has one of several fields, and only one.

    Args:
        at: the path of the mapping.
        value: the mapping.
        names: the fields.
        message: what is wrong with a mapping that has none of them.
    """
    present = [name for name in names if value.get(name) is not None]
    if not present:
        yield Violation(at, message, f"add one of: {', '.join(names)}", "missing-field")
    elif len(present) > 1:
        message = f"{' and '.join(present)} are mutually exclusive"
        yield conflict(at, message, "keep one of them")


def label(at: ValuePath, value: str, what: str) -> Iterator[Violation]:
    """The rules of IsDNS1123Label."""
    if not is_label(value):
        hint = LABEL_HINT
        if len(value) > LABEL_MAX:
            hint = f"use at most {LABEL_MAX} characters"
        yield invalid(at, value, what, hint)


def subdomain(at: ValuePath, value: str, what: str) -> Iterator[Violation]:
    """The rules of IsDNS1123Subdomain, the syntax of the names of most objects."""
    if not is_subdomain(value):
        yield invalid(at, value, what, SUBDOMAIN_HINT)


def is_label(value: str) -> bool:
    """Return whether a text is a DNS label."""
    return len(value) <= LABEL_MAX and bool(DNS_1123.match(value))


def is_subdomain(value: str) -> bool:
    """Return whether a text is a DNS subdomain."""
    return len(value) <= SUBDOMAIN_MAX and bool(_SUBDOMAIN.match(value))


def is_qualified(value: str) -> bool:
    """The rules of IsQualifiedName: a name, or a domain, a slash and a name."""
    prefix, slash, name = value.rpartition("/")
    return (not slash or is_subdomain(prefix)) and is_label_value(name) and bool(name)


def is_label_value(value: str) -> bool:
    """The rules of IsValidLabelValue."""
    return not value or (len(value) <= LABEL_MAX and bool(_QUALIFIED.match(value)))


def qualified(at: ValuePath, value: str, what: str) -> Iterator[Violation]:
    """The rules of IsQualifiedName."""
    if not is_qualified(value):
        hint = f"{QUALIFIED_HINT}; a domain and a slash may precede them"
        yield invalid(at, value, what, hint)


def label_value(at: ValuePath, value: Any) -> Iterator[Violation]:
    """The rules of IsValidLabelValue."""
    if isinstance(value, str) and not is_label_value(value):
        yield invalid(at, value, "label value", QUALIFIED_HINT)


def data_key(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of IsConfigMapKey, which is also the syntax of the keys of a Secret."""
    fits = len(value) <= SUBDOMAIN_MAX and re.match(_DATA_KEY, value)
    if not fits or value == "." or value.startswith(".."):
        yield invalid(at, value, "key", f"{KEY_HINT}; do not start with two dots")


def port(at: ValuePath, value: int | None) -> Iterator[Violation]:
    """The rules of IsValidPortNum."""
    if value is not None and not 1 <= value <= PORT_MAX:
        yield invalid(at, value, "port", f"use a number from 1 to {PORT_MAX}")


def port_name(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of IsValidPortName."""
    if len(value) > PORT_NAME_MAX or not _PORT_NAME.match(value):
        hint = (
            f"use at most {PORT_NAME_MAX} lower-case letters, digits and dashes, at least one"
            " letter, and a dash only between two of the others"
        )
        yield invalid(at, value, "port name", hint)


def port_or_name(at: ValuePath, value: Any) -> Iterator[Violation]:
    """The rules of ValidatePortNumOrName (pkg/apis/core/validation/validation.go)."""
    if isinstance(value, str):
        yield from port_name(at, value)
    elif isinstance(value, int):
        yield from port(at, value)
    elif value is None:
        yield missing(at[:-1], str(at[-1]))


def without_steps_up(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of ValidatePathNoBacksteps (pkg/apis/core/validation/validation.go)."""
    if ".." in value.split("/"):
        yield Violation(at, f'the path "{value}" contains ".."', 'remove ".."', "bad-value")


def relative(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of ValidateLocalDescendingPath (pkg/apis/core/validation/validation.go)."""
    if value.startswith("/"):
        hint = 'remove the "/" at its start'
        yield Violation(at, f'expected a relative path, got "{value}"', hint, "bad-value")
    yield from without_steps_up(at, value)


def file_path(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of ValidateLocalNonReservedPath (pkg/apis/core/validation/validation.go)."""
    yield from relative(at, value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield Violation(at, f'the path "{value}" starts with ".."', "use another name", "bad-value")


def one_of(
    at: ValuePath, value: Any, allowed: Sequence[str], *, empty: bool = True
) -> Iterator[Violation]:
    """Return the violation of a text that is not in an enumeration.

    Args:
        at: its path.
        value: the text.
        allowed: the enumeration.
        empty: "" counts as omitted, as in fields that are no pointers in Go.
    """
    if isinstance(value, str) and value not in allowed and (value or not empty):
        yield Violation(at, f'unknown value "{value}"', choice(value, allowed), "unknown-value")


def few(at: ValuePath, listed: Sequence[object], limit: int) -> Iterator[Violation]:
    """Return the violation of a list with too many items."""
    if len(listed) > limit:
        yield Violation(at, f"expected at most {limit} items, got {len(listed)}", "", "bad-value")


def at_least(at: ValuePath, value: int | None, low: int) -> Iterator[Violation]:
    """Return the violation of a number below a bound."""
    if value is not None and value < low:
        yield Violation(at, f"expected at least {low}, got {value}", "", "bad-value")


def between(at: ValuePath, value: int | None, low: int, high: int) -> Iterator[Violation]:
    """Return the violation of a number out of a range."""
    yield from at_least(at, value, low)
    if value is not None and value > high:
        yield Violation(at, f"expected at most {high}, got {value}", "", "bad-value")


def ip_address(at: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of IsValidIPForLegacyField: leading zeros are allowed in IPv4 addresses."""
    import ipaddress

    plain = re.sub(r"(?<![0-9a-fA-F:.])0+(?=\d)|(?<=\.)0+(?=\d)", "", value)
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        yield invalid(at, value, "IP address", "use an IPv4 or IPv6 address")
