"""Hints for names that are not among those allowed."""

from collections.abc import Sequence

from mlgen.problems import did_you_mean


def choice(name: str, allowed: Sequence[str]) -> str:
    """Return `did you mean "…"?` if an allowed name is similar, or else the allowed names."""
    return did_you_mean(name, allowed) or one_of(allowed)


def one_of(allowed: Sequence[str]) -> str:
    """Return `use one of: …`, or `use …` if there is only one."""
    return f"use {allowed[0]}" if len(allowed) == 1 else f"use one of: {', '.join(allowed)}"
