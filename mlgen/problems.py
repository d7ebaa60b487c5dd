"""What is wrong with the input, where it stands, and how to mend it.

Every room reports in these values; only the command line prints them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

Path = tuple[str | int, ...]
"""The way to a value in a job file: ("spec", "roles", "worker", "args", 1)."""


def dotted(path: Path) -> str:
    """Return a path as people write it: `spec.roles.worker.args[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a text that the user gave: its name, line and column (both from 1).

    Line 0 is that of a value from the command line.
    """

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the value that is wrong; the text that holds it knows its line.
        message: what is wrong, in one line.
        code: a stable word for this kind of problem, listed in docs/problems.md.
        cure: what to do about it, in one line.
        warning: the manifests are rendered all the same.
        place: file, line and column, once they are known.
    """

    path: Path
    message: str
    code: str
    cure: str = ""
    warning: bool = False
    place: Place | None = None

    def __str__(self) -> str:
        parts = [str(self.place)] if self.place else []
        if self.warning:
            parts.append("warning")
        if self.path:
            parts.append(dotted(self.path))
        cure = f"; {self.cure}" if self.cure else ""
        return f"{': '.join([*parts, self.message])}{cure} [{self.code}]"


class MlgenError(Exception):
    """The input cannot be rendered; carries every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def did_you_mean(word: str, known: Iterable[Any], cutoff: float = 0.6) -> str:
    """Return `did you mean "…"?` where a known word is close to this one, else nothing.

    Args:
        word: what was written.
        known: what is possible.
        cutoff: how close, as difflib measures it, from 0 to 1.
    """
    close = get_close_matches(word, [str(name) for name in known], n=1, cutoff=cutoff)
    return f'did you mean "{close[0]}"?' if close else ""
