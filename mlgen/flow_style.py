"""Values and commands as YAML in flow style, for messages: `[python, train.py]`."""

import json
import re
from typing import Any

from mlgen.shell import needs_shell, split

PLAIN = re.compile(r"-{0,2}[A-Za-z/_.](?:[-A-Za-z0-9/_.=+@]|:(?=[A-Za-z0-9/]))*|[0-9]+[KMGTP]i?")
"""Strings that need no quotes, unless YAML reads them as something else."""

WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])
"""Words that a version of YAML does not read as strings."""

MAX_FLOW = 100
"""The number of characters of a value that a hint shows."""


def flow(value: Any) -> str:
    """Return a value as YAML in flow style."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(name)}: {flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    is_plain = isinstance(value, str) and PLAIN.fullmatch(value) and not _is_special(value)
    return str(value) if is_plain or value == "…" else json.dumps(value, ensure_ascii=False)


def _is_special(text: str) -> bool:
    """Return True for what YAML reads as a boolean, null or number."""
    return bool(text.lower() in WORDS or re.fullmatch(r"-?\.([0-9].*|inf|nan)", text.lower()))


def words(text: str, *, command: bool) -> str:
    """Return a command line as the list that the field expects.

    Args:
        text: the command line.
        command: True if it starts with a program, so that a shell can run it.
    """
    text = text.strip()
    if command and needs_shell(text):
        shown = flow(["sh", "-c", text])
        return shown if len(shown) <= MAX_FLOW else '[sh, -c, "…"], with all of it as the last item'
    items = split(text) or text.split()
    shown = flow(items)
    return shown if len(shown) <= MAX_FLOW else f"{flow(items[:3])[:-1]}, …]"
