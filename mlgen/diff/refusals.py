"""An update of an object → what the API server will not take of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlgen.kubernetes.changes import Change, FieldPath, at, dotted
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.immutability import RULES, SPEC, Rule, Update, is_within


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that changes of an object break.

    Attributes:
        field: which one, as people write it.
        why: what is to be said of it.
        unless: what must be true for it to be accepted all the same; "" for nothing.
        hint: what to do, where it is not to delete the object.
    """

    field: str
    why: str
    unless: str = ""
    hint: str = ""


def refusals(update: Update) -> list[Refusal]:
    """Return what the API server will not take of the changes; what is sure comes first."""
    found = [
        refusal
        for rule in RULES.get(group_kind(update.new), ())
        if rule.applies(update)
        for refusal in _broken(rule, update.changes)
    ]
    found.sort(key=lambda refusal: bool(refusal.unless))
    return list(dict.fromkeys(found))


def _broken(rule: Rule, changes: Iterable[Change]) -> Iterator[Refusal]:
    for change in changes:
        for path in _touched(change, rule):
            if not any(is_within(path, other) for other in rule.but):
                # Not all of `spec`, where most of it may change.
                shown = path[:2] if rule.path == SPEC else rule.path
                yield Refusal(dotted(shown), rule.why, rule.unless, rule.hint)


def _touched(change: Change, rule: Rule) -> list[FieldPath]:
    """The paths that a change is of; one that brings or takes a whole mapping is of its fields."""
    if is_within(change.path, rule.path):
        values = [value for value in (change.old, change.new) if isinstance(value, dict)]
        if rule.but and values and None in (change.old, change.new):
            return list(_leaves(change.path, values[0]))
        return [change.path]
    if is_within(rule.path, change.path):  # the rule's field comes or goes with what holds it
        rest = [name.strip("[]") for name in rule.path[len(change.path) :]]
        return [rule.path] if at(change.old, rest) != at(change.new, rest) else []
    return []


def _leaves(path: FieldPath, value: Any) -> Iterator[FieldPath]:
    if not isinstance(value, dict) or not value:
        yield path
        return
    for name, item in value.items():
        yield from _leaves((*path, name), item)
