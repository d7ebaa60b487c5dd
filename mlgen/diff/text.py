"""A field that changes → lines that a person reads in a pull request."""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from mlgen.kubernetes.changes import Change, dotted
from mlgen.output.yaml import style, yaml_text

SHORT = 60
"""Characters of a value that still stands on the line of its field."""

MOST = 40
"""Lines of a value's own diff; what is more is counted."""

FEW = 10
"""Lines of a value that comes or goes and is still shown."""

NOT_SET = "(not set)"


def lines(change: Change, *, secret: bool) -> list[str]:
    """Return a change as lines: one if its values are short, else a small unified diff.

    Args:
        change: what changes.
        secret: its values must not be seen.
    """
    name = dotted(change.path)
    if secret and change.path[0] == "data":
        return [f"{name}: {_hidden(change.old)} -> {_hidden(change.new)}"]
    if change.order:
        return [f"{name}: now in the order {', '.join(map(str, change.new))}"]
    old, new = _inline(change.old), _inline(change.new)
    if NOT_SET in (old, new):  # all of a script is no news, or it is read where it stands
        old, new = old or _counted(change.old), new or _counted(change.new)
    if old is not None and new is not None:
        implied = {side: " (the default)" if change.implied == side else "" for side in SIDES}
        return [f"{name}: {old}{implied['old']} -> {new}{implied['new']}"]
    return [f"{name}:", *(f"  {line}" for line in _diff(change.old, change.new))]


SIDES = ("old", "new")


def _hidden(value: Any) -> str:
    return NOT_SET if value is None else "***"


def _inline(value: Any) -> str | None:
    """Return a value that fits on a line as the manifest has it; None for any other."""
    if value is None:
        return NOT_SET
    if isinstance(value, str):
        bare = style(value) is None
        text = value if bare else json.dumps(value, ensure_ascii=False)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHORT and "\n" not in str(value) else None


def _counted(value: Any) -> str | None:
    count = len(_lines(value))
    return f"({count} lines)" if count > FEW else None


def _diff(old: Any, new: Any) -> Iterator[str]:
    found = list(unified_diff(_lines(old), _lines(new), lineterm="", n=1))[2:]
    yield from (line.rstrip() for line in found[:MOST])
    if len(found) > MOST:
        yield f"({len(found) - MOST} more lines)"


def _lines(value: Any) -> list[str]:
    """A value as lines; one long line, such as TF_CONFIG or a host list, item by item."""
    if value is None:
        return []
    if not isinstance(value, str):
        return yaml_text([value]).splitlines()[1:]
    return value.splitlines() if "\n" in value else re.split(r"(?<=[,; ])", value)
