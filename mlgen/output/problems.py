"""Problems → text, JSON, or annotations of GitHub; SARIF is in `sarif.py`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen.documents.files import Text
from mlgen.output.excerpt import excerpt
from mlgen.output.terminal import safe, safe_json
from mlgen.problems import Place, Problem, dotted

RESET, BOLD, RED, YELLOW, CYAN = "\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[36m"

MAX_KINDS = 6
"""The number of kinds of other objects that are named."""


@dataclass(frozen=True)
class Style:
    """How problems look.

    Attributes:
        source: with their source lines, over several lines.
        color: with the escape sequences of a terminal.
    """

    source: bool = False
    color: bool = False

    def paint(self, color: str, text: str) -> str:
        """Return a text in a color, if there are colors."""
        return f"{color}{text}{RESET}" if self.color else text


@dataclass(frozen=True)
class Count:
    """The numbers of what a command has read and reported.

    Attributes:
        files: the number of files, standard input included.
        jobs: the number of jobs; None if it is not known.
        others: the kind of each other object.
        problems: everything that was reported.
    """

    files: int
    jobs: int | None
    others: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def is_worth_a_line(self) -> bool:
        """True if there is more to say than that one file is valid."""
        jobs_of_several = self.files > 1 and self.jobs is not None
        return jobs_of_several or bool(self.others) or bool(self.problems)

    @property
    def warnings(self) -> int:
        """The number of problems that are warnings."""
        return sum(problem.warning for problem in self.problems)

    def __str__(self) -> str:
        parts = [_number(self.files, "file")] if self.files > 1 else []
        if self.jobs is not None:
            parts.append(_number(self.jobs, "job"))
        if self.others:
            kinds = list(dict.fromkeys(self.others))
            listed = ", ".join([*kinds[:MAX_KINDS], *(["…"] if len(kinds) > MAX_KINDS else [])])
            parts.append(f"{_number(len(self.others), 'other object')} ({safe(listed)})")
        problems, warnings = len(self.problems), self.warnings
        if problems == warnings:
            parts += [_number(warnings, "warning")] if warnings else []
        else:
            mixed = f" ({_number(warnings, 'warning')})" if warnings else ""
            parts.append(_number(problems, "problem") + mixed)
        return ", ".join(parts)


def _number(count: int, name: str) -> str:
    """Return a number with its noun: `no jobs`, `1 job`, `1,203 jobs`."""
    number = f"{count:,}" if count else "no"
    return f"{number} {name}{'' if count == 1 else 's'}"


def text(problems: Iterable[Problem], sources: Sequence[Text], style: Style) -> str:
    """Return problems as lines of text.

    Args:
        problems: in the order of reporting.
        sources: the texts that the problems are in, or their lines, each as a text of its own.
        style: one line for each problem, or several with its source line.
    """
    if not style.source:
        return "".join(safe(str(problem)) + "\n" for problem in problems)
    by_name = {source.name: source for source in reversed(sources)}
    by_line = {(source.name, source.line + 1): source for source in sources}

    def around(place: Place | None) -> list[Text]:
        source = place and (by_line.get((place.file, place.line)) or by_name.get(place.file))
        return [source] if source else []

    return "".join(_with_source(each, around(each.place), style) for each in problems)


def _with_source(problem: Problem, sources: Sequence[Text], style: Style) -> str:
    """Return a problem with its source line, in which the value is marked, and its hint."""
    color, severity = (YELLOW, "warning") if problem.warning else (RED, "error")
    where = style.paint(BOLD, f"{safe(str(problem.place))}:") + " " if problem.place else ""
    path = f"{safe(dotted(problem.path))}: " if problem.path else ""
    label = style.paint(color, f"{severity}:")
    lines = [f"{where}{label} {path}{safe(problem.message)} [{problem.code}]"]
    row, mark = excerpt(problem.place, sources) if problem.place else ("", "")
    if problem.place and row:
        number = f"{problem.place.line:5}"
        lines.append(f"{style.paint(CYAN, number + ' |')} {row}")
        indent, carets = mark[: mark.index("^")], mark.lstrip()
        gutter = style.paint(CYAN, " " * len(number) + " |")
        lines.append(f"{gutter} {indent}{style.paint(color, carets)}")
    if problem.hint:
        lines.append(f"{style.paint(CYAN, '      =')} {safe(problem.hint)}")
    return "\n".join(lines) + "\n"


def json_text(count: Count) -> str:
    """Return all problems and the numbers as one JSON object."""
    totals = {
        "files": count.files,
        "jobs": count.jobs,
        "errors": len(count.problems) - count.warnings,
        "warnings": count.warnings,
    }
    document = {"problems": [_fields(problem) for problem in count.problems], "totals": totals}
    return safe_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def _fields(problem: Problem) -> dict[str, Any]:
    place = problem.place or Place("", 0, 0)
    return {
        "file": place.file or None,
        "line": place.line or None,
        "column": place.column if place.line else None,
        "path": dotted(problem.path),
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "severity": "warning" if problem.warning else "error",
    }


def github(problems: Iterable[Problem]) -> str:
    """Return problems as workflow commands, which GitHub shows as annotations of the files.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands; values are
    escaped as by actions/toolkit (packages/core/src/command.ts).
    """
    return "".join(map(_command, problems))


def _command(problem: Problem) -> str:
    place = problem.place
    properties = {}
    if place and place.line:
        properties = {"file": place.file, "line": str(place.line), "col": str(place.column)}
    properties["title"] = f"mlgen: {problem.code}"
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    command = "warning" if problem.warning else "error"
    return f"::{command} {listed}::{_data(safe(str(problem)))}\n"


def _data(value: str) -> str:
    """Return the message of a workflow command, escaped."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    """Return a property of a workflow command, escaped."""
    return _data(safe(value)).replace(":", "%3A").replace(",", "%2C")
