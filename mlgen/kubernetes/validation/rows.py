"""Rows of rules, and a traversal of an object that applies them.

The traversal follows the definitions of the API (`schemas/kubernetes/api.json`), so a row applies
wherever its definition is used: rows of `Toleration` apply in the pods of every kind.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import mapping, sequence
from mlgen.kubernetes.versions import (
    SUPPORTED,
    Definition,
    KubeVersion,
    definition,
    is_definition,
    names,
)
from mlgen.problems import Problem, ValuePath

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


@dataclass(frozen=True)
class _Plan:
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
