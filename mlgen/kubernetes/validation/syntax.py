"""Rules for names, keys, labels, ports, numbers, texts and enumerations, for use in rows.

The functions in `RULES` return the rule of a row: path, value and spot → problems. Values of the
wrong type are skipped, because the API's schema reports them. Source, unless noted otherwise:
 k8s.io/apimachinery v0.34.4, pkg/util/validation/validation.go.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes import field_hints as hints
from mlgen.kubernetes.limits import PORT_MAX
from mlgen.kubernetes.names import DNS_1123, LABEL_MAX
from mlgen.kubernetes.validation.rows import Rule, Spot, missing, values
from mlgen.kubernetes.values import mapping, sequence
from mlgen.problems import Code, Problem, ValuePath

SUBDOMAIN_MAX = 253
PORT_NAME_MAX = 15

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_DATA_KEY = r"[-._a-zA-Z0-9]+\Z"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*\Z")

LABEL_HINT = "use lowercase letters, digits and dashes, starting and ending with a letter or digit"
SUBDOMAIN_HINT = (
    "use lowercase letters, digits, dashes and dots, starting and ending with a letter or digit"
)
QUALIFIED_HINT = (
    "use at most 63 letters, digits, dashes, underscores and dots, starting and ending with a"
    " letter or digit"
)
KEY_HINT = "use letters, digits, dashes, underscores and dots"


def invalid(at: ValuePath, value: Any, what: str, hint: str) -> Problem:
    """Return the problem of an invalid value."""
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
    """Return the rule of a string that a function must accept."""

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


def label_value(what: str) -> Rule:
    """The rules of IsValidLabelValue."""
    return valid(is_label_value, what, QUALIFIED_HINT)


data_key = valid(_is_data_key, "key", f"{KEY_HINT}; do not start with two dots")
"""The rules of IsConfigMapKey, which is also the syntax of the keys of a Secret."""

port_name = valid(
    lambda value: len(value) <= PORT_NAME_MAX and bool(_PORT_NAME.match(value)),
    "port name",
    f"use at most {PORT_NAME_MAX} lowercase letters, digits and single dashes, with at least one"
    " letter; start and end with a letter or digit",
)
"""The rules of IsValidPortName."""


def port(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsValidPortNum."""
    if is_number(value) and not 1 <= value <= PORT_MAX:
        yield invalid(path, value, "port", f"use a number from 1 to {PORT_MAX}")


def port_or_name(path: ValuePath, value: Any, spot: Spot | None = None) -> Iterator[Problem]:
    """The rules of ValidatePortNumOrName (pkg/apis/core/validation/validation.go)."""
    yield from port_name(path, value, spot)
    yield from port(path, value)


def shown_in(message: str, path: ValuePath, value: Any, beside: Mapping[str, Any]) -> str:
    """Return a message with the names in braces replaced.

    `{field}` is the field, `{value}` its value, and any other name is a sibling field.
    """
    fields = {**beside, "field": path[-1] if path else "", "value": value}
    return message.format_map(defaultdict(str, fields))


def one_of(allowed: Sequence[str]) -> Rule:
    """Return the rule of an enumeration."""

    def check(at: ValuePath, value: str) -> Iterator[Problem]:
        if value not in allowed:
            hint = hints.for_choice(value, allowed)
            yield Problem(at, f'unknown value "{value}"', "unknown-value", hint)

    return texts(check)


def like(pattern: str, hint: str, what: str = "", message: str = "") -> Rule:
    """Return the rule for a string that must match a pattern to be a valid `what`."""
    told = message or f'"{{value}}" is not a valid {what}'

    def check(at: ValuePath, value: str) -> Iterator[Problem]:
        if not re.fullmatch(pattern, value):
            yield Problem(at, shown_in(told, at, value, {}), "bad-value", hint)

    return texts(check)


def few(limit: int, what: str = "items") -> Rule:
    """Return the rule of a list or text with a maximum length."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        if isinstance(value, list | str) and len(value) > limit:
            message = f"expected at most {limit} {what}, got {len(value)}"
            yield Problem(path, message, "bad-value")

    return rule


def between(
    limits: Sequence[int | None], message: str = "", hint: str = "", code: Code = "bad-value"
) -> Rule:
    """Return the rule of an integer in a range; None for no bound."""
    low, high = limits

    def rule(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
        told = ""
        if is_number(value) and low is not None and value < low:
            told = f"expected at least {low}, got {value}"
        elif is_number(value) and high is not None and value > high:
            told = f"expected at most {high}, got {value}"
        if told:
            yield Problem(path, shown_in(message or told, path, value, {}), code, hint)

    return rule


def is_number(value: Any) -> bool:
    """Return whether a value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def forbidden(message: str, hint: str = "remove it", code: Code = "combination") -> Rule:
    """Return the rule that always reports a problem, for rows with conditions.

    Args:
        message: the message, in the format of `shown_in`.
        hint: the fix.
        code: the problem code.
    """

    def rule(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
        yield Problem(path, shown_in(message, path, value, spot.value), code, hint)

    return rule


def required(hint: str) -> Rule:
    """Return the rule of a field that must not be missing or empty.

    The API's schema requires most of these fields. Rows add a hint.
    """

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        if not value:
            yield missing(path[:-1], str(path[-1]), hint)

    return rule


def needs(name: str, hint: str = "") -> Rule:
    """Return the rule that reports a missing field, for rows with conditions."""

    def rule(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
        yield missing(path, name, shown_in(hint, path, value, spot.value))

    return rule


def only(names: Sequence[str], message: str) -> Rule:
    """Return the rule of a mapping that may only have certain fields."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        for field in mapping(value):
            if field not in names:
                at = (*path, field)
                yield conflict(at, shown_in(message, at, value[field], {}), "remove it")

    return rule


def unique(
    keys: Mapping[str, Any],
    what: str = "",
    hint: str = "remove one of them",
    message: str = "",
    *,
    item: bool = False,
) -> Rule:
    """Return the rule for a list of unique items.

    Args:
        keys: the fields that identify an item, each with its default; {} for items that are not
            mappings.
        what: the name of an item in the message.
        hint: the fix.
        message: replaces the default message, in the format of `shown_in`.
        item: True to report the item, not its field, and to treat "" as a value.
    """

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        seen = []
        for index, each in enumerate(sequence(value)):
            fields = mapping(each)
            found = [fields.get(key) or default for key, default in keys.items()] or [each]
            if found in seen and (found[0] or item):
                told = shown_in(message, (), "", fields) or f"duplicate {what} {found[0]}"
                yield conflict((*path, index, *([] if item else list(keys)[:1])), told, hint)
            seen.append(found)

    return rule


def one_item(name: str, message: str) -> Rule:
    """Return the rule of a mapping with a list of one item. `{count}` is its length."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        count = len(values(value, name))
        if count != 1:
            told = shown_in(message, path, value, {**value, "count": count})
            yield conflict((*path, name), told, "write one value")

    return rule


def exactly_one(names: Sequence[str], message: str) -> Rule:
    """Return the rule of a mapping that must have exactly one of several fields."""

    def rule(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
        present = [name for name in names if value.get(name) is not None]
        if not present:
            told = shown_in(message, path, value, {})
            yield Problem(path, told, "missing-field", f"add one of: {', '.join(names)}")
        elif len(present) > 1:
            told = f"{' and '.join(present)} are mutually exclusive"
            yield conflict(path, told, "keep one of them")

    return rule


RULES: dict[str, Callable[..., Rule]] = {
    rule.__name__: rule
    for rule in (
        *(between, exactly_one, few, forbidden, label, label_value, like, needs, one_item),
        *(one_of, only, qualified, required, subdomain, unique),
    )
}
"""The rules of rows, by name."""


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
_PLACEHOLDER = r"\$\{|\$\(|\$[A-Za-z_]|\{\{|<[^<>]*>"


def _image(at: ValuePath, reference: str) -> Iterator[Problem]:
    """Yield a problem if a text is not an image reference.

    The API server accepts any text, but the container runtime does not pull an invalid reference
    (InvalidImageName). Source: github.com/distribution/reference v0.6.0, regexp.go, normalize.go.
    """
    hint = _image_hint(reference)
    if hint:
        message = f'"{reference}" is not a valid image reference'
        yield Problem(at, message, "bad-value", hint)


image = texts(_image)


def _image_hint(reference: str) -> str:
    """Return the hint for an image reference; "" if it is valid."""
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
        return "use lowercase letters in the name"
    return "write a reference such as registry.example.com/team/train:1.2"


def _split(reference: str) -> tuple[str | None, str]:
    """Return the domain (None if omitted) and the rest: splitDockerDomain."""
    first, slash, rest = reference.partition("/")
    if slash and (first == "localhost" or set(first) & {".", ":"} or first != first.lower()):
        return first, rest
    return None, reference
