"""Rows of rules, and one walk over an object that applies each row at its place.

The walk follows the definitions of the API (`schemas/kubernetes/api.json`), so that a row holds
wherever its definition is used: those of `Toleration` in every pod of every kind.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mlgen.kubernetes.definitions import definition, is_definition
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion
from mlgen.problems import Problem, ValuePath

EMPTY: tuple[Any, ...] = (None, "", [])
"""What counts as omitted."""


@dataclass(frozen=True)
class Spot:
    """A mapping within an object.

    Attributes:
        path: its path.
        value: the mapping.
        kind: its definition.
        version: of the cluster.
        outer: the spot around it; None for the object itself.
    """

    path: ValuePath
    value: Object
    kind: str
    version: KubeVersion
    outer: "Spot | None" = None

    def around(self, kind: str) -> Object:
        """Return the nearest mapping of a definition, this one included; {} if there is none."""
        spot: Spot | None = self
        while spot and spot.kind != kind:
            spot = spot.outer
        return spot.value if spot else {}


Rule = Callable[..., Iterator[Problem]]
"""The path and value that a row is about, and the mapping that has the field → problems."""

Condition = Mapping[str, Sequence[Any]]
"""Fields and the values of which they have one, None if it is omitted.

A name is that of a field beside the value, or of a definition around it: `PodSpec.hostNetwork`.
"." is the value itself.
"""


@dataclass(frozen=True, eq=False)
class Row:
    """One rule of the API server.

    Attributes:
        at: the definition and the field with the rule: `Toleration.key`. `[]` is each item of a
            list. Several are separated by spaces. A definition alone is the mapping as a whole.
        rule: yields the problems of a value.
        when: conditions, of which all must hold.
        unless: conditions, of which none may hold.
        since: the first version with the rule.
        until: the last version with the rule.
        empty: it also applies to "", which otherwise counts as omitted.
        required: the field must be there; `rule` yields the problem if it is not.
    """

    at: str
    rule: Rule
    when: Condition = field(default_factory=dict)
    unless: Condition = field(default_factory=dict)
    since: KubeVersion = SUPPORTED[0]
    until: KubeVersion = SUPPORTED[-1]
    empty: bool = False
    required: bool = False

    def problems_at(self, steps: Sequence[str], spot: Spot) -> Iterator[Problem]:
        """Yield the problems of all values at a path below a spot."""
        for path, value, parent in _values(spot.value, spot.path, steps, spot.value):
            omitted = value is None or (value == "" and not self.empty)
            if (not value if self.required else not omitted) and self._applies(value, parent, spot):
                yield from self.rule(path, value, Spot(path, parent, "", spot.version, spot))

    def _applies(self, value: Any, parent: Object, spot: Spot) -> bool:
        def holds(name: str, allowed: Sequence[Any]) -> bool:
            if name == ".":
                return value in allowed
            kind, _, rest = name.partition(".")
            holder = spot.around(kind) if is_definition(name) else parent
            steps = (rest if is_definition(name) else name).split(".")
            found = [found for _, found, _ in _values(holder, (), steps, holder)] or [None]
            return any(value in allowed for value in found)

        return all(holds(*each) for each in self.when.items()) and not any(
            holds(*each) for each in self.unless.items()
        )


def _values(
    value: Any, path: ValuePath, steps: Sequence[str], parent: Object
) -> Iterator[tuple[ValuePath, Any, Object]]:
    """Yield the path and value of each field at some steps, and the mapping that has the field."""
    if not steps:
        yield path, value, parent
        return
    if not isinstance(value, dict):
        return
    name = steps[0].removesuffix("[]")
    inner, path = value.get(name), (*path, name)
    if name == steps[0]:
        yield from _values(inner, path, steps[1:], value)
    elif isinstance(inner, list):
        empty: Any = {} if steps[1:] else ""
        for index, item in enumerate(inner):
            place = (*path, index)
            found = empty if item is None else item
            holder = found if isinstance(found, dict) else value
            yield from _values(found, place, steps[1:], holder)


def mapping(value: Any, *keys: str) -> Object:
    """Return the mapping at the end of a path of keys; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Object, key: str) -> Iterator[tuple[int, Object]]:
    """Return the mappings in a list, each with its index; null is an empty one."""
    found = value.get(key)
    if isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(item, dict) or item is None:
                yield index, item or {}


def values(value: Object, key: str, zero: Any = "") -> list[Any]:
    """Return a list, an empty one if there is none, with the zero value of its type for null."""
    found = value.get(key)
    return [zero if item is None else item for item in found] if isinstance(found, list) else []


def text(value: Object, key: str) -> str:
    """Return a string; "" if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number(value: Object, key: str) -> int | None:
    """Return an integer; None if there is none."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def missing(at: ValuePath, name: str, hint: str = "") -> Problem:
    """Return the problem of a mapping that lacks a field."""
    return Problem(at, f'field "{name}" is missing', "missing-field", hint or f"add {name}")


def needs(name: str, hint: str = "") -> Rule:
    """Return the rule of a mapping that lacks a field which its conditions require."""

    def rule(path: ValuePath, _: Any, holder: Spot) -> Iterator[Problem]:
        yield missing(path, name, hint.format_map(defaultdict(str, holder.value)))

    return rule


def required(at: str, hint: str = "") -> Row:
    """Return the row of a field that must be there, and not empty.

    The API's schema has most of these fields, which need a row only for a hint.
    """

    def rule(path: ValuePath, _: Any, __: Spot) -> Iterator[Problem]:
        yield missing(path[:-1], str(path[-1]), hint)

    return Row(at, rule, required=True)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows, and the parts of objects without rules.

    Attributes:
        rows: all rows.
        unchecked: fields, as in a row, in which nothing is checked.
        is_skipped: whether a mapping is not checked, because of what is around it.
    """

    rows: Sequence[Row]
    unchecked: frozenset[str]
    is_skipped: Callable[[Spot], bool]

    def broken_by(self, spot: Spot) -> Iterator[Problem]:
        """Yield the problems of a mapping, and of everything in it."""
        if self.is_skipped(spot):
            return
        known, value = definition(spot.kind, spot.version), spot.value
        yield from self._here(spot, known.required)
        if "spec" in known.fields and "spec" not in value:
            value = {**value, "spec": {}}
        for name, inner in value.items():
            kind = known.fields.get(name, "any")
            if f"{spot.kind}.{name}" not in self.unchecked:
                for path, mapping in _mappings(kind, inner, (*spot.path, name)):
                    within = Spot(path, mapping, kind.strip("[]"), spot.version, spot)
                    yield from self.broken_by(within)

    def _here(self, spot: Spot, required_fields: Sequence[str]) -> Iterator[Problem]:
        """Yield the problems by the rows of a definition, and by the fields it requires."""
        value, lines = spot.value, _lines(self, spot.version).get(spot.kind, {})
        for name, rows in lines.items():
            if not name or name in value:  # most rows are about fields that are not there
                for row, steps in rows:
                    yield from row.problems_at(steps, spot)
        for name in required_fields:
            if value.get(name) in EMPTY:
                rows = (*lines.get("", ()), *lines.get(name, ()))
                own = [row for row, steps in rows if steps == (name,)]
                # A row says that it is omitted, or what is wrong with "".
                if not any(row.required or (row.empty and name in value) for row in own):
                    yield missing(spot.path, name)


def _mappings(kind: str, value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Object]]:
    """Yield each mapping with a definition in a field of a type."""
    if isinstance(value, dict) and is_definition(kind):
        yield path, value
    elif isinstance(value, list) and kind[0] == "[" and is_definition(kind[1:]):
        for index, item in enumerate(value):
            if item is None or isinstance(item, dict):
                yield (*path, index), item or {}


_Lines = Mapping[str, Mapping[str, Sequence[tuple[Row, tuple[str, ...]]]]]


@cache
def _lines(table: Table, version: KubeVersion) -> _Lines:
    """Return the rows of a version, each with the steps to its value.

    The keys are their definitions and first fields, "" for a row that applies without one.
    """
    lines: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in table.rows:
        if row.since <= version <= row.until:
            for at in row.at.split():
                kind, *steps = at.split(".")
                first = "" if row.required or not steps else steps[0].removesuffix("[]")
                lines[kind][first].append((row, tuple(steps)))
    return lines
