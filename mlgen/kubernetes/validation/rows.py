"""Rows of rules, the rules that rows name, and a traversal of an object that applies them.

The traversal follows the definitions of the API (`schemas/kubernetes/api.json`), so a row applies
wherever its definition is used: rows of `Toleration` apply in the pods of every kind.

The arguments of a rule are the path and the value, for most rules the argument of the row, and the
spot. Values of the wrong type are skipped, because the API's schema reports them.
Source of rules for names, keys, labels, ports and numbers, unless noted otherwise:
 k8s.io/apimachinery v0.34.4, pkg/util/validation/validation.go.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from mlgen.kubernetes.names import DNS_1123, LABEL_MAX
from mlgen.kubernetes.objects import PORT_MAX, Object
from mlgen.kubernetes.values import mapping, sequence
from mlgen.kubernetes.versions import (
    SUPPORTED,
    Definition,
    KubeVersion,
    definition,
    is_definition,
    names,
)
from mlgen.problems import Code, Problem, ValuePath

EMPTY: tuple[Any, ...] = (None, "", [])
"""Values that count as omitted."""


class Spot(NamedTuple):
    """A mapping within an object.

    Attributes:
        path: its path.
        value: the mapping.
        kind: its definition.
        version: the version of the cluster.
        outer: the spot around it; None for the object itself.
    """

    path: ValuePath
    value: Object
    kind: str
    version: KubeVersion
    outer: "Spot | None" = None

    def around(self, kind: str) -> Object:
        """Return this mapping or the nearest one around it of a definition; {} if there is none."""
        spot = self.nearest(kind)
        return spot.value if spot else {}

    def nearest(self, kind: str) -> "Spot | None":
        """Return this spot or the nearest one around it of a definition, if any."""
        spot: Spot | None = self
        while spot and spot.kind != kind:
            spot = spot.outer
        return spot


Rule = Callable[..., Iterator[Problem]]
"""The path and value to check, and the mapping that contains the field → problems."""

Condition = Mapping[str, Sequence[Any] | str]
"""Field names, each with the accepted values (None if omitted) or a pattern of the value.

A name is a sibling field of the value, or a field of a definition around it: `PodSpec.hostNetwork`.
"." is the value itself, and "{key}" its key in a mapping.
"""


@dataclass(frozen=True, eq=False)
class Row:
    """One rule of the API server.

    Attributes:
        at: the definition and the field with the rule: `Toleration.key`. `[]` is each item of a
            list, `{}` each value of a mapping, and `{key}` each key. Several are separated by
            spaces. A definition alone is the mapping as a whole.
        rule: yields the problems of a value.
        when: conditions that must all hold.
        unless: conditions that must not hold.
        since: the first version with the rule.
        until: the last version with the rule.
        empty: True to apply it to "", which otherwise counts as omitted.
        omitted: True to apply it even if the field is omitted.
        of: the type of the value. Values of other types are skipped.
        warning: True if the API server has no such rule, and pods start with the value.
    """

    at: str
    rule: Rule
    when: Condition = field(default_factory=dict)
    unless: Condition = field(default_factory=dict)
    since: KubeVersion = SUPPORTED[0]
    until: KubeVersion = SUPPORTED[-1]
    empty: bool = False
    omitted: bool = False
    of: type = object
    warning: bool = False

    def problems_at(self, steps: Sequence[str], spot: Spot) -> Iterator[Problem]:
        """Yield the problems of all values at a path below a spot."""
        for path, value, parent in _values(spot.value, spot.path, steps, spot.value):
            omitted = value is None or (value == "" and not self.empty)
            if self.omitted or (not omitted and isinstance(value, self.of)):
                holder = Spot(path, parent, "", spot.version, spot)
                if self._applies(value, holder):
                    for problem in self.rule(path, value, holder):
                        yield replace(problem, warning=True) if self.warning else problem

    def _applies(self, value: Any, holder: Spot) -> bool:
        for name, allowed in self.when.items():
            if not _holds(name, allowed, value, holder):
                return False
        for name, allowed in self.unless.items():
            if _holds(name, allowed, value, holder):
                return False
        return True


def _holds(name: str, allowed: Sequence[Any] | str, value: Any, holder: Spot) -> bool:
    """Return whether a condition of a row holds for a value."""
    if name == ".":
        return _fits(value, allowed)
    if name == "{key}":
        return _fits(holder.path[-1], allowed)
    kind, steps = _steps(name)
    parent = holder.around(kind) if kind else holder.value
    if steps[1:] or name[-1] == "]":
        found = [found for _, found, _ in _values(parent, (), steps, parent)] or [None]
        return any(_fits(value, allowed) for value in found)
    return _fits(parent.get(steps[0]), allowed)


@cache
def _steps(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the definition in the name of a condition, or "", and the steps after it."""
    first, *others = name.split(".")
    return (first, tuple(others)) if is_definition(name) else ("", (first, *others))


def _fits(value: Any, allowed: Sequence[Any] | str) -> bool:
    """Return whether a value is in a list, or matches a pattern."""
    if isinstance(allowed, str):
        return isinstance(value, str) and bool(re.fullmatch(allowed, value))
    return value in allowed


def _values(
    value: Any, path: ValuePath, steps: Sequence[str], parent: Object
) -> Iterable[tuple[ValuePath, Any, Object]]:
    """Return the path and value of each field at some steps, and the mapping that contains it."""
    if not steps:
        return ((path, value, parent),)
    if not isinstance(value, dict):
        return ()
    name = steps[0]
    if name[-1] in "]}":
        return _members(value, path, steps)
    if len(steps) == 1:
        return (((*path, name), value.get(name), value),)
    return _values(value.get(name), (*path, name), steps[1:], value)


def _members(
    value: Object, path: ValuePath, steps: Sequence[str]
) -> Iterator[tuple[ValuePath, Any, Object]]:
    """Yield the same for each member of a list or mapping. Null counts as an empty value."""
    name = _field(steps[0])
    pairs: Iterable[tuple[Any, Any]] = enumerate(sequence(value, name))
    if steps[0][-1] == "}":
        found = mapping(value, name)
        pairs = zip(found, found, strict=True) if steps[0].endswith("{key}") else found.items()
    empty: Any = {} if steps[1:] else ""
    for key, member in pairs:
        inner = empty if member is None else member
        holder = inner if isinstance(inner, dict) else value
        yield from _values(inner, (*path, name, key), steps[1:], holder)


@cache
def _field(step: str) -> str:
    """Return the field of a step: `values[]` → values."""
    return re.split(r"[\[{]", step, maxsplit=1)[0]


def values(value: Object, key: str, zero: Any = "") -> list[Any]:
    """Return a list with `zero` in place of null; [] if there is none."""
    return [zero if item is None else item for item in sequence(value, key)]


def missing(at: ValuePath, name: str, hint: str = "") -> Problem:
    """Return the problem of a mapping that lacks a field."""
    return Problem(at, f'field "{name}" is missing', "missing-field", hint or f"add {name}")


def _mappings(value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Object]]:
    """Yield a mapping, or each mapping in a list. Null in a list counts as {}."""
    if isinstance(value, dict):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item is None or isinstance(item, dict):
                yield (*path, index), item or {}


class _Plan(NamedTuple):
    """The checks of the mappings of a definition, in one version.

    Attributes:
        always: rows that apply even if their field is omitted, each with the steps to its value.
        rows: the other rows, by the first step.
        required: required fields, and whether a row reports "".
        inner: the definitions of fields.
    """

    always: Sequence[tuple[Row, tuple[str, ...]]]
    rows: Mapping[str, Sequence[tuple[Row, tuple[str, ...]]]]
    required: Mapping[str, bool]
    inner: Mapping[str, str]


NOTHING = Definition({}, (), {}, {})
"""The definition of `Metadata`, which only rows describe."""


class Plans(dict[str, _Plan]):
    """The checks of a version by definition, created on first use."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        as_row: Callable[..., Row],
        unchecked: Container[str],
        is_skipped: Callable[[Spot], bool],
        version: KubeVersion,
    ) -> None:
        """Select the rows of a version.

        Args:
            rows: all rows as mappings, of which those with `note` are no rules.
            as_row: returns the row of such a mapping.
            unchecked: fields whose content is not checked: `Toleration.key`.
            is_skipped: returns True for a mapping that is not checked in its context.
            version: the version of the cluster.
        """
        super().__init__()
        self.version, self.unchecked, self.is_skipped = version, unchecked, is_skipped
        self.as_row = as_row
        self.rows: dict[str, list[tuple[Mapping[str, Any], tuple[str, ...]]]] = defaultdict(list)
        for row in rows:
            for at in row["at"].split() if "note" not in row else ():
                owner, *steps = at.split(".")
                self.rows[owner].append((row, tuple(steps)))

    def broken_by(self, spot: Spot) -> Iterator[Problem]:
        """Yield the problems of a mapping and its content."""
        if self.is_skipped(spot):
            return
        plan, value = self[spot.kind], spot.value
        for row, steps in plan.always:
            yield from row.problems_at(steps, spot)
        for name, has_row in plan.required.items():
            if value.get(name) in EMPTY and not (has_row and value.get(name) == ""):
                yield missing(spot.path, name)
        if "spec" in plan.inner and "spec" not in value:
            value = {**value, "spec": {}}
        for name, inner in value.items():
            for row, steps in plan.rows.get(name, ()):
                yield from row.problems_at(steps, spot)
            if name in plan.inner:
                for path, mapping in _mappings(inner, (*spot.path, name)):
                    yield from self.broken_by(
                        Spot(path, mapping, plan.inner[name], spot.version, spot)
                    )

    def __missing__(self, kind: str) -> _Plan:
        always, rows = [], defaultdict(list)
        for columns, steps in self.rows[kind]:
            row = self.as_row(**columns)
            if not row.since <= self.version <= row.until:
                continue
            if row.omitted or not steps:
                always.append((row, steps))
            else:
                rows[_field(steps[0])].append((row, steps))
        known = definition(kind, self.version) if kind in names() else NOTHING
        hinted = {steps for row, steps in always if row.omitted}
        required = {
            name: any(row.empty and len(steps) == 1 for row, steps in rows.get(name, ()))
            for name in known.required
            if (name,) not in hinted
        }
        inner = {
            name: inner.strip("[]")
            for name, inner in known.fields.items()
            if is_definition(inner.strip("[]")) and f"{kind}.{name}" not in self.unchecked
        }
        self[kind] = _Plan(always, rows, required, inner)
        return self[kind]


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


def label(path: ValuePath, value: Any, what: str, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsDNS1123Label."""
    if isinstance(value, str) and not is_label(value):
        long = len(value) > LABEL_MAX
        hint = f"use at most {LABEL_MAX} characters" if long else LABEL_HINT
        yield invalid(path, value, what, hint)


def subdomain(path: ValuePath, value: Any, what: str, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsDNS1123Subdomain, the syntax of the names of most objects."""
    if isinstance(value, str) and not is_subdomain(value):
        yield invalid(path, value, what, SUBDOMAIN_HINT)


def qualified(path: ValuePath, value: Any, what: str, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsQualifiedName."""
    if isinstance(value, str) and not is_qualified(value):
        hint = f"{QUALIFIED_HINT}; a domain and a slash may precede them"
        yield invalid(path, value, what, hint)


def label_value(path: ValuePath, value: Any, what: str, _: Spot) -> Iterator[Problem]:
    """The rules of IsValidLabelValue."""
    if isinstance(value, str) and not is_label_value(value):
        yield invalid(path, value, what, QUALIFIED_HINT)


def data_key(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
    """The rules of IsConfigMapKey, which is also the syntax of the keys of a Secret."""
    fits = isinstance(value, str) and len(value) <= SUBDOMAIN_MAX and re.match(_DATA_KEY, value)
    if isinstance(value, str) and (not fits or value == "." or value.startswith("..")):
        yield invalid(path, value, "key", f"{KEY_HINT}; do not start with two dots")


def port_name(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
    """The rules of IsValidPortName."""
    is_text = isinstance(value, str)
    if is_text and not (len(value) <= PORT_NAME_MAX and _PORT_NAME.match(value)):
        hint = (
            f"use at most {PORT_NAME_MAX} lowercase letters, digits and single dashes, with at"
            " least one letter; start and end with a letter or digit"
        )
        yield invalid(path, value, "port name", hint)


def port(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsValidPortNum."""
    if is_number(value) and not 1 <= value <= PORT_MAX:
        yield invalid(path, value, "port", f"use a number from 1 to {PORT_MAX}")


def port_or_name(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidatePortNumOrName (pkg/apis/core/validation/validation.go)."""
    yield from port_name(path, value, spot)
    yield from port(path, value)


def shown_in(message: str, path: ValuePath, value: Any, beside: Mapping[str, Any]) -> str:
    """Return a message with the names in braces replaced.

    `{field}` is the field, `{value}` its value, and any other name is a sibling field.
    """
    fields = {**beside, "field": path[-1] if path else "", "value": value}
    return message.format_map(defaultdict(str, fields))


def one_of(path: ValuePath, value: Any, allowed: Sequence[str], _: Spot) -> Iterator[Problem]:
    """An enumeration."""
    if isinstance(value, str) and value not in allowed:
        from mlgen.kubernetes.schema import for_choice  # late: few values are wrong

        hint = for_choice(value, allowed)
        yield Problem(path, f'unknown value "{value}"', "unknown-value", hint)


def like(
    path: ValuePath,
    value: Any,
    pattern: str,
    _: Spot,
    *,
    hint: str,
    what: str = "",
    message: str = "",
) -> Iterator[Problem]:
    """A string that must match a pattern to be a valid `what`."""
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        told = message or f'"{{value}}" is not a valid {what}'
        yield Problem(path, shown_in(told, path, value, {}), "bad-value", hint)


def few(path: ValuePath, value: Any, limit: int, _: Spot, what: str = "items") -> Iterator[Problem]:
    """A list or text with a maximum length."""
    if isinstance(value, list | str) and len(value) > limit:
        yield Problem(path, f"expected at most {limit} {what}, got {len(value)}", "bad-value")


def between(
    path: ValuePath,
    value: Any,
    limits: Sequence[int | None],
    _: Spot | None = None,
    *,
    message: str = "",
    hint: str = "",
    code: Code = "bad-value",
) -> Iterator[Problem]:
    """An integer in a range; None for no bound."""
    low, high = limits
    told = ""
    if is_number(value) and low is not None and value < low:
        told = f"expected at least {low}, got {value}"
    elif is_number(value) and high is not None and value > high:
        told = f"expected at most {high}, got {value}"
    if told:
        yield Problem(path, shown_in(message or told, path, value, {}), code, hint)


def is_number(value: Any) -> bool:
    """Return whether a value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def forbidden(
    path: ValuePath,
    value: Any,
    message: str,
    spot: Spot,
    *,
    hint: str = "remove it",
    code: Code = "combination",
) -> Iterator[Problem]:
    """Always a problem, for rows with conditions. `message` has the format of `shown_in`."""
    yield Problem(path, shown_in(message, path, value, spot.value), code, hint)


def required(path: ValuePath, value: Any, hint: str, _: Spot) -> Iterator[Problem]:
    """A field that must not be missing or empty.

    The API's schema requires most of these fields. Rows add a hint.
    """
    if not value:
        yield missing(path[:-1], str(path[-1]), hint)


def needs(path: ValuePath, value: Any, name: str, spot: Spot, hint: str = "") -> Iterator[Problem]:
    """Always the problem of a missing field, for rows with conditions."""
    yield missing(path, name, shown_in(hint, path, value, spot.value))


def only(
    path: ValuePath, value: Any, names: Sequence[str], _: Spot, message: str
) -> Iterator[Problem]:
    """A mapping that may only have certain fields."""
    for name in mapping(value):
        if name not in names:
            at = (*path, name)
            yield conflict(at, shown_in(message, at, value[name], {}), "remove it")


def unique(
    path: ValuePath,
    value: Any,
    keys: Mapping[str, Any],
    _: Spot,
    *,
    what: str = "",
    hint: str = "remove one of them",
    message: str = "",
    item: bool = False,
) -> Iterator[Problem]:
    """A list of unique items.

    Args:
        path: the path of the list.
        value: the list.
        keys: the fields that identify an item, each with its default; {} for items that are not
            mappings.
        what: the name of an item in the message.
        hint: the fix.
        message: replaces the default message, in the format of `shown_in`.
        item: True to report the item, not its field, and to treat "" as a value.
    """
    seen = []
    for index, each in enumerate(sequence(value)):
        fields = mapping(each)
        found = [fields.get(key) or default for key, default in keys.items()] or [each]
        if found in seen and (found[0] or item):
            told = shown_in(message, (), "", fields) or f"duplicate {what} {found[0]}"
            yield conflict((*path, index, *([] if item else list(keys)[:1])), told, hint)
        seen.append(found)


def one_item(path: ValuePath, value: Any, name: str, _: Spot, message: str) -> Iterator[Problem]:
    """A mapping with a list of one item. `{count}` in the message is its length."""
    count = len(values(value, name))
    if count != 1:
        told = shown_in(message, path, value, {**value, "count": count})
        yield conflict((*path, name), told, "write one value")


def exactly_one(
    path: ValuePath, value: Any, names: Sequence[str], _: Spot, message: str
) -> Iterator[Problem]:
    """A mapping that must have exactly one of several fields."""
    present = [name for name in names if value.get(name) is not None]
    if not present:
        told = shown_in(message, path, value, {})
        yield Problem(path, told, "missing-field", f"add one of: {', '.join(names)}")
    elif len(present) > 1:
        told = f"{' and '.join(present)} are mutually exclusive"
        yield conflict(path, told, "keep one of them")


def ip_address(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """The rules of IsValidIPForLegacyField: leading zeros are allowed in IPv4 addresses."""
    import ipaddress

    try:
        if isinstance(value, str):
            ipaddress.ip_address(re.sub(r"(?<![0-9a-fA-F:.])0+(?=\d)|(?<=\.)0+(?=\d)", "", value))
    except ValueError:
        yield invalid(path, value, "IP address", "use an IPv4 or IPv6 address")


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


def image(path: ValuePath, value: Any, _: Spot | None = None) -> Iterator[Problem]:
    """Yield a problem if a text is not an image reference.

    The API server accepts any text, but the container runtime does not pull an invalid reference
    (InvalidImageName). Source: github.com/distribution/reference v0.6.0, regexp.go, normalize.go.
    """
    hint = _image_hint(value) if isinstance(value, str) else ""
    if hint:
        yield Problem(path, f'"{value}" is not a valid image reference', "bad-value", hint)


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
