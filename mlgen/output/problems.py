"""Problems → text with their source lines, JSON, or annotations of GitHub."""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mlgen.documents.files import Text, is_blank, split
from mlgen.documents.reader import may_be_secret
from mlgen.output.terminal import counted, safe, safe_json
from mlgen.problems import Place, Problem, dotted

RESET, BOLD, RED, YELLOW, CYAN = "\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[36m"

MAX_KINDS = 6
"""The maximum number of kinds of other objects that a count lists."""


class Style(NamedTuple):
    """The format of problems in a terminal.

    Attributes:
        source: True to print each problem with its source line, on several lines.
        color: True to print the escape sequences of a terminal.
    """

    source: bool = False
    color: bool = False

    def paint(self, color: str, text: str) -> str:
        """Return a text in a color, if colors are enabled."""
        return f"{color}{text}{RESET}" if self.color else text


class Count(NamedTuple):
    """A command's numbers of files, jobs, other objects and problems.

    Attributes:
        files: the number of files, including stdin.
        jobs: the number of jobs; None if unknown.
        others: the kind of each other object.
        problems: all reported problems.
    """

    files: int
    jobs: int | None
    others: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def is_worth_a_line(self) -> bool:
        """True unless the only result is that one file is valid."""
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
    return counted(count, name) if count else f"no {name}s"


def text(problems: Iterable[Problem], sources: Sequence[Text], style: Style) -> str:
    """Return problems as lines of text.

    Args:
        problems: the problems in the order of reporting.
        sources: the texts that contain the problems, or single lines of them.
        style: the format.
    """
    if not style.source:
        return "".join(safe(str(problem)) + "\n" for problem in problems)
    problems = tuple(problems)
    hidden = {_line_of(problem) for problem in problems if problem.code == "secret-in-env"}
    by_name = {source.name: source for source in reversed(sources)}
    by_line = {(source.name, source.line + 1): source for source in sources}

    def around(place: Place) -> Text | None:
        return by_line.get((place.file, place.line)) or by_name.get(place.file)

    return "".join(
        _with_source(p, p.place and around(p.place) if _line_of(p) not in hidden else None, style)
        for p in problems
    )


def _line_of(problem: Problem) -> tuple[str, int]:
    place = problem.place or Place("")
    return place.file, place.line


def _with_source(problem: Problem, source: Text | None, style: Style) -> str:
    """Return a problem with its hint and its source line, in which the value is marked."""
    color, severity = (YELLOW, "warning") if problem.warning else (RED, "error")
    where = style.paint(BOLD, f"{safe(str(problem.place))}:") + " " if problem.place else ""
    path = f"{safe(dotted(problem.path))}: " if problem.path else ""
    label = style.paint(color, f"{severity}:")
    lines = [f"{where}{label} {path}{safe(problem.message)} [{problem.code}]"]
    row, mark = excerpt(problem.place, source) if problem.place and source else ("", "")
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

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
    The escapes match actions/toolkit (packages/core/src/command.ts).
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


MAX_WIDTH = 100
"""The number of characters of a longer line that are shown, around the value."""

BEFORE = 30
"""The number of characters of a longer line that are shown before the value."""

LINE_BREAK = re.compile(r"\r\n|\n|\r")

MARKED = re.compile(
    r'"(?:\\.|[^"\\])*"?'  # quoted
    r"|'(?:''|[^'])*'?"
    r"|\{[^{}]*\}|\[[^][]*\]"  # a list or mapping
    r"|[\[{](?:[^#\n]|(?<!\s)#)*"  # one that contains others, up to the end of the line
    r"|.(?:[^,\[\]{}:#\n]|:(?!\s|$)|(?<!\s)#)*"  # a key, or a value without quotes
)
"""The text that carets mark: a key or a value. A text in quotes may end on another line."""


def excerpt(place: Place, source: Text) -> tuple[str, str]:
    """Return the line of a place in a text, and spaces and carets that mark the value.

    Both are "" if the text does not contain the line, or contains it in a Secret.
    """
    row = source.text if source.quotable else line(source.text, place.line - source.line - 1)
    return _marked(row, place.column - 1) if row.strip() else ("", "")


def excerpts(text: Text, problems: Iterable[Problem]) -> Iterator[Text]:
    """Yield the lines of a text with problems, each as a text, to keep instead of the whole."""
    places = [problem.place for problem in problems if problem.place]
    for number in sorted(
        {place.line - text.line - 1 for place in places if place.file == text.name}
    ):
        if row := line(text.text, number):
            yield Text(text.name, row, line=text.line + number, quotable=True)


def line(text: str, number: int) -> str:
    """Return the line with an index; "" if there is none, or its document may contain a Secret."""
    rows, starts, chunks = _lines(text)
    if not 0 <= number < len(rows):
        return ""
    chunk = chunks[bisect_right(starts, number) - 1]
    return "" if _is_hidden(chunk) else rows[number]


@lru_cache(maxsize=1)
def _lines(text: str) -> tuple[list[str], list[int], list[str]]:
    """Return the lines of a text, and the first line and the text of each document.

    Cached, because consecutive problems are mostly in one text.
    """
    starts, chunks = zip(*split(text), strict=True) if text else ((0,), ("",))
    return LINE_BREAK.split(text), [*starts], [*chunks]


@lru_cache(maxsize=64)
def _is_hidden(chunk: str) -> bool:
    return not is_blank(chunk) and may_be_secret(chunk)


def has_secret(text: str) -> bool:
    """Return True if a document of a text may contain a Secret."""
    return any(_is_hidden(chunk) for _, chunk in split(text))


def _marked(row: str, start: int) -> tuple[str, str]:
    """Return a line, shortened if it is long, and carets that mark the value at an index."""
    start = min(start, len(row))
    marked = MARKED.match(row, start, start + MAX_WIDTH)
    length = len(marked[0].rstrip()) if marked else 1
    if len(row) > MAX_WIDTH:
        first = max(0, min(start - BEFORE, len(row) - MAX_WIDTH))
        last = first + MAX_WIDTH
        head, tail = "…" if first else "", "…" if last < len(row) else ""
        length = min(length, last - start)
        row, start = f"{head}{row[first:last]}{tail}", start - first + len(head)
    before, value = safe(row[:start]), safe(row[start : start + length])
    return safe(row).rstrip(), " " * _columns(before) + "^" * max(1, _columns(value))


def _columns(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
