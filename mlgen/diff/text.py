"""A change of a field → lines of the report, short enough for a pull request."""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from mlgen.kubernetes.changes import Change, FieldPath, dotted
from mlgen.output.nodes import style
from mlgen.output.yaml import yaml_text

MAX_INLINE = 60
"""Longest value, in characters, that is shown on the line of its field."""

MAX_DIFF_LINES = 40
"""Most lines of a value's diff that are shown; the others are counted."""

MAX_VALUE_LINES = 10
"""Most lines of an added or removed value that are shown; of a longer one, only the count."""

NOT_SET = "(not set)"


def lines(change: Change, *, secret: bool) -> list[str]:
    """Return a change as one line if its values are short, else as a small unified diff.

    Args:
        change: of one field.
        secret: the object is a Secret, whose values must not be shown: neither those of its data,
            nor what is written under a misspelt field.
    """
    name = dotted(change.path)
    if secret and not _is_public(change.path):
        return [f"{name}: {_masked(change.old)} -> {_masked(change.new)}"]
    if change.order:
        return [f"{name}: new order: {', '.join(map(str, change.new))}"]
    old, new = _inline(change.old), _inline(change.new)
    if NOT_SET in (old, new):  # the manifest shows a long value better than the report
        old, new = old or _counted(change.old), new or _counted(change.new)
    if old is not None and new is not None:
        old_note, new_note = (
            " (default)" if change.implied == side else "" for side in ("old", "new")
        )
        return [f"{name}: {old}{old_note} -> {new}{new_note}"]
    return [f"{name}:", *(f"  {line}" for line in _diff(change.old, change.new))]


def _is_public(path: FieldPath) -> bool:
    """Return whether a field of a Secret has nothing secret, whatever is written there."""
    return path[0] in ("type", "immutable") or path[:2] == ("metadata", "labels")


def _masked(value: Any) -> str:
    """Return whether a secret value is set, without the value."""
    return NOT_SET if value is None else "***"


def _inline(value: Any) -> str | None:
    """Return a short value as in a manifest; None if it does not fit on one line."""
    if value is None:
        return NOT_SET
    if isinstance(value, str):
        is_plain = style(value) is None
        text = value if is_plain else json.dumps(value, ensure_ascii=False)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_INLINE and "\n" not in str(value) else None


def _counted(value: Any) -> str | None:
    """Return the number of lines of a long value; None for a value short enough to show."""
    count = len(_lines(value))
    return f"({count} lines)" if count > MAX_VALUE_LINES else None


def _diff(old: Any, new: Any) -> Iterator[str]:
    """Return a unified diff of two values, without its header of file names."""
    diff = list(unified_diff(_lines(old), _lines(new), lineterm="", n=1))[2:]
    yield from (line.rstrip() for line in diff[:MAX_DIFF_LINES])
    if len(diff) > MAX_DIFF_LINES:
        yield f"({len(diff) - MAX_DIFF_LINES} more lines)"


def _lines(value: Any) -> list[str]:
    """Return a value as lines; a single long one, such as TF_CONFIG, is split into its items."""
    if value is None:
        return []
    if not isinstance(value, str):
        return yaml_text([value]).splitlines()[1:]
    return value.splitlines() if "\n" in value else re.split(r"(?<=[,; ])", value)
