"""An update of an object → the reasons for which the API server will reject it.

The rules are data: mlgen/kubernetes/immutability.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlgen.kubernetes.changes import Change, FieldPath, at, dotted
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.immutability import RULES, SPEC, Rule, is_within
from mlgen.kubernetes.updates import Update


@dataclass(frozen=True)
class Rejection:
    """A rule that an update violates.

    Attributes:
        field: the path of the field that must not change.
        why: the rest of the sentence that begins with the field: "is immutable".
        unless: the condition under which the update is accepted nevertheless; "" for none.
        hint: how to avoid the rejection; "" if the object must be deleted first.
    """

    field: str
    why: str
    unless: str = ""
    hint: str = ""


def rejections(update: Update) -> list[Rejection]:
    """Return the rules that an update violates, those without a condition first."""
    violated = [
        rejection
        for rule in RULES.get(group_kind(update.new), ())
        if rule.applies(update)
        for rejection in _violations(rule, update.changes)
    ]
    violated.sort(key=lambda rejection: bool(rejection.unless))
    return list(dict.fromkeys(violated))


def _violations(rule: Rule, changes: Iterable[Change]) -> Iterator[Rejection]:
    """Return a rejection for each change that a rule forbids."""
    for change in changes:
        for path in _changed_fields(change, rule):
            if not any(is_within(path, exception) for exception in rule.exceptions):
                # A rule on all of `spec` names the field in it, as others there may change.
                field = path[:2] if rule.path == SPEC else rule.path
                yield Rejection(dotted(field), rule.reason, rule.unless, rule.hint)


def _changed_fields(change: Change, rule: Rule) -> list[FieldPath]:
    """Return the fields under a rule that a change affects.

    A mapping that is added or removed as a whole affects each of its fields.
    """
    if is_within(change.path, rule.path):
        values = [value for value in (change.old, change.new) if isinstance(value, dict)]
        if rule.exceptions and values and None in (change.old, change.new):
            return list(_leaves(change.path, values[0]))
        return [change.path]
    if is_within(rule.path, change.path):  # the mapping that holds the rule's field
        inner_path = [name.strip("[]") for name in rule.path[len(change.path) :]]
        return [rule.path] if at(change.old, inner_path) != at(change.new, inner_path) else []
    return []


def _leaves(path: FieldPath, value: Any) -> Iterator[FieldPath]:
    """Return the paths of all values in a mapping that are not mappings with content."""
    if not isinstance(value, dict) or not value:
        yield path
        return
    for name, item in value.items():
        yield from _leaves((*path, name), item)
