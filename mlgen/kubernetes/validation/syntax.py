"""Rules for single values: names, keys, labels, ports, paths, numbers and enumerations.

Most functions return a rule for a row (mlgen/kubernetes/validation/rows.py): path and value →
problems. A value of another type than expected is passed over; the API's schema reports it. Source,
unless noted otherwise: k8s.io/apimachinery v0.34.4, pkg/util/validation/validation.go.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlgen.kubernetes.limits import PORT_MAX
from mlgen.kubernetes.names import DNS_1123, LABEL_MAX
from mlgen.kubernetes.validation.rows import Rule, Spot
from mlgen.problems import Code, Problem, ValuePath, choice

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


def invalid(at: ValuePath, value: Any, what: str, hint: str) -> Problem:
    """Return the problem of a value that is not what the field requires."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return Problem(at, f"{shown} is not a valid {what}", "bad-value", hint)


def conflict(at: ValuePath, message: str, hint: str) -> Problem:
    """Return the problem of values that cannot be used together."""
    return Problem(at, message, "combination", hint)


def texts(check: Callable[[ValuePath, str], Iterator[Problem]]) -> Rule:
    """Return the rule that checks a value if it is a string."""

    def rule(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
        if isinstance(value, str):
            yield from check(path, value)

    return rule


def valid(is_valid: Callable[[str], bool], what: str, hint: str) -> Rule:
    """Return the rule of a string for which a function must be true."""

    def rule(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
        if isinstance(value, str) and not is_valid(value):
            yield invalid(path, value, what, hint)

    return rule


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


def _is_data_key(value: str) -> bool:
    fits = len(value) <= SUBDOMAIN_MAX and re.match(_DATA_KEY, value)
    return bool(fits) and value != "." and not value.startswith("..")


def label(what: str) -> Rule:
    """The rules of IsDNS1123Label."""

    def check(at: ValuePath, value: str) -> Iterator[Problem]:
        if not is_label(value):
            long = len(value) > LABEL_MAX
            yield invalid(
                at, value, what, f"use at most {LABEL_MAX} characters" if long else LABEL_HINT
            )

    return texts(check)


def subdomain(what: str) -> Rule:
    """The rules of IsDNS1123Subdomain, the syntax of the names of most objects."""
    return valid(is_subdomain, what, SUBDOMAIN_HINT)


def qualified(what: str) -> Rule:
    """The rules of IsQualifiedName."""
    return valid(is_qualified, what, f"{QUALIFIED_HINT}; a domain and a slash may precede them")


label_key = qualified("label key")

label_value = valid(is_label_value, "label value", QUALIFIED_HINT)
"""The rules of IsValidLabelValue."""

data_key = valid(_is_data_key, "key", f"{KEY_HINT}; do not start with two dots")
"""The rules of IsConfigMapKey, which is also the syntax of the keys of a Secret."""

port_name = valid(
    lambda value: len(value) <= PORT_NAME_MAX and bool(_PORT_NAME.match(value)),
    "port name",
    f"use at most {PORT_NAME_MAX} lower-case letters, digits and dashes, at least one letter, and a"
    " dash only between two of the others",
)
"""The rules of IsValidPortName."""


def labels(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of ValidateLabels."""
    for key, text in value.items() if isinstance(value, dict) else ():
        yield from label_key((*path, key), key)
        yield from label_value((*path, key), text)


def port(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsValidPortNum."""
    if is_number(value) and not 1 <= value <= PORT_MAX:
        yield invalid(path, value, "port", f"use a number from 1 to {PORT_MAX}")


def port_or_zero(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of a port that is omitted if it is 0."""
    if value:
        yield from port(path, value)


def port_or_name(path: ValuePath, value: Any, spot: Spot | None = None) -> Iterator[Problem]:
    """The rules of ValidatePortNumOrName (pkg/apis/core/validation/validation.go)."""
    yield from port_name(path, value, spot)
    yield from port(path, value)


def _without_steps_up(at: ValuePath, value: str) -> Iterator[Problem]:
    if ".." in value.split("/"):
        yield Problem(at, f'the path "{value}" contains ".."', "bad-value", 'remove ".."')


def _relative(at: ValuePath, value: str) -> Iterator[Problem]:
    if value.startswith("/"):
        hint = 'remove the "/" at its start'
        yield Problem(at, f'expected a relative path, got "{value}"', "bad-value", hint)
    yield from _without_steps_up(at, value)


def _file_path(at: ValuePath, value: str) -> Iterator[Problem]:
    yield from _relative(at, value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield Problem(at, f'the path "{value}" starts with ".."', "bad-value", "use another name")


def _absolute(at: ValuePath, value: str) -> Iterator[Problem]:
    if not value.startswith("/"):
        message = f'expected an absolute path, got "{value}"'
        yield Problem(at, message, "bad-value", 'start it with "/"')


without_steps_up, relative = texts(_without_steps_up), texts(_relative)
file_path, absolute = texts(_file_path), texts(_absolute)
"""The rules of ValidatePathNoBacksteps, ValidateLocalDescendingPath, ValidateLocalNonReservedPath
and validateNFSVolumeSource (pkg/apis/core/validation/validation.go)."""


def one_of(*allowed: str) -> Rule:
    """Return the rule of an enumeration."""

    def check(at: ValuePath, value: str) -> Iterator[Problem]:
        if value not in allowed:
            hint = choice(value, allowed)
            yield Problem(at, f'unknown value "{value}"', "unknown-value", hint)

    return texts(check)


def few(limit: int, what: str = "items") -> Rule:
    """Return the rule of a list that has at most so many items."""

    def rule(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
        if isinstance(value, list) and len(value) > limit:
            message = f"expected at most {limit} {what}, got {len(value)}"
            yield Problem(path, message, "bad-value")

    return rule


def between(low: int, high: int | None = None) -> Rule:
    """Return the rule of an integer in a range; None is no bound."""

    def rule(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
        if is_number(value) and value < low:
            yield Problem(path, f"expected at least {low}, got {value}", "bad-value")
        elif is_number(value) and high is not None and value > high:
            yield Problem(path, f"expected at most {high}, got {value}", "bad-value")

    return rule


def is_number(value: Any) -> bool:
    """Return whether a value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def forbidden(message: str, hint: str = "remove it", code: Code = "combination") -> Rule:
    """Return the rule of a value that its conditions do not allow.

    Args:
        message: what is wrong; `{field}` is the field, `{value}` its value, and any other name in
            braces a field beside it.
        hint: what to do.
        code: the kind of problem.
    """

    def rule(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
        beside = {**spot.value, "field": path[-1] if path else "", "value": value}
        yield Problem(path, message.format_map(defaultdict(str, beside)), code, hint)

    return rule


def unique(key: str, what: str, hint: str = "remove one of the two", *, item: bool = False) -> Rule:
    """Return the rule of a list whose items differ in a field.

    Args:
        key: the field.
        what: what an item is called.
        hint: what to do with duplicates.
        item: the problem is at the item, and not at its field; "" is a value too.
    """

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        seen: set[str] = set()
        for index, name in fields_of(value, key):
            if name in seen and (name or item):
                place = (*path, index) if item else (*path, index, key)
                yield conflict(place, f"duplicate {what} {name}", hint)
            seen.add(name)

    return rule


def fields_of(listed: Any, key: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a field of the items of a list, "" if it is omitted, with the indexes."""
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if item is None or isinstance(item, dict):
            name = (item or {}).get(key)
            yield index, name if isinstance(name, str) else ""


def exactly_one(names: Sequence[str], message: str) -> Rule:
    """Return the rule of a mapping that has one of several fields, and only one."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        present = [name for name in names if value.get(name) is not None]
        if not present:
            told = message.format(field=path[-1])
            yield Problem(path, told, "missing-field", f"add one of: {', '.join(names)}")
        elif len(present) > 1:
            told = f"{' and '.join(present)} are mutually exclusive"
            yield conflict(path, told, "keep one of them")

    return rule


def either(
    first: str,
    second: str,
    hint: str = "keep or add one of them",
    omitted: tuple[Any, ...] = (None, []),
) -> Rule:
    """Return the rule of a mapping that has one of two fields, and not both."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        if (value.get(first) in omitted) == (value.get(second) in omitted):
            yield conflict(path, f"expected either {first} or {second}", hint)

    return rule


def _ip(at: ValuePath, value: str) -> Iterator[Problem]:
    import ipaddress

    plain = re.sub(r"(?<![0-9a-fA-F:.])0+(?=\d)|(?<=\.)0+(?=\d)", "", value)
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        yield invalid(at, value, "IP address", "use an IPv4 or IPv6 address")


ip_address = texts(_ip)
"""The rules of IsValidIPForLegacyField: leading zeros are allowed in IPv4 addresses."""


IMAGE_MAX = 255

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])"
_DOMAIN = rf"{_HOST}(?::[0-9]+)?\Z"
_NAME = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}\Z"
_HEXADECIMAL = r"[a-f0-9]{64}\Z"
_PLACEHOLDER = r"\$\{|\$\(|\$[A-Za-z_]|\{\{|<[^>]*>"


def image(at: ValuePath, reference: str) -> Iterator[Problem]:
    """Return a problem if a text is not a reference to an image.

    The API server accepts any text; the container runtime refuses to pull what is not a reference
    (InvalidImageName). Source: github.com/distribution/reference v0.6.0, regexp.go, normalize.go.
    """
    hint = _image_hint(reference)
    if hint:
        message = f'"{reference}" is not a valid image reference'
        yield Problem(at, message, "bad-value", hint)


def _image_hint(reference: str) -> str:
    """Return what to change in a reference; "" if it is valid."""
    domain, rest = _split(reference)
    named, _, digest = rest.partition("@")
    name, colon, tag = named.partition(":")
    if domain is None and re.match(_HEXADECIMAL, reference):
        return "write NAME@sha256:DIGEST"
    if (
        (domain is None or re.match(_DOMAIN, domain))
        and _NAME.match(name)
        and (not colon or _TAG.match(tag))
        and ("@" not in rest or re.match(_DIGEST, digest))
        and len(f"{domain or ''}/{name}") <= IMAGE_MAX
    ):
        return ""
    return _reason(reference, name)


def _reason(reference: str, name: str) -> str:
    """Return the hint for the most likely mistake in an invalid reference."""
    if re.search(_PLACEHOLDER, reference):
        return "mlgen does not fill in placeholders; write the name and the tag of the image"
    if "://" in reference:
        return f"remove {reference.partition('://')[0]}://"
    if reference != reference.strip() or " " in reference:
        return "remove the spaces"
    if name != name.lower():
        return "use lower-case letters in the name"
    return "write it as in registry.example.com/team/train:1.2"


def _split(reference: str) -> tuple[str | None, str]:
    """Return the domain, None if it is omitted, and the rest: splitDockerDomain."""
    first, slash, rest = reference.partition("/")
    if slash and (first == "localhost" or set(first) & {".", ":"} or first != first.lower()):
        return first, rest
    return None, reference
