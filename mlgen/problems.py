"""Errors and warnings: the problem, its place, and the fix.

Every package reports problems as these values. Only the command line prints them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

from mlgen.input_limits import CHOICES, COMPARED, MESSAGE, PROBLEMS, WORD

ValuePath = tuple[str | int, ...]
"""The path of a value in a document: ("spec", "roles", "worker", "args", 1)."""

Code = Literal[
    "bad-name",
    "bad-parameter",
    "bad-setting",
    "bad-value",
    "combination",
    "deciding",
    "deprecated",
    "differs",
    "duplicate-key",
    "empty",
    "exit-code",
    "foreign-file",
    "foreign-object",
    "kubectl",
    "large-object",
    "launch",
    "malformed",
    "missing-api",
    "missing-field",
    "missing-image",
    "missing-role",
    "name-collision",
    "name-too-long",
    "namespace",
    "never-ends",
    "no-effect",
    "no-job",
    "no-name",
    "no-such-peer",
    "not-rendered",
    "not-run",
    "not-text",
    "not-toml",
    "not-yaml",
    "port",
    "profile",
    "reference",
    "refused",
    "resource-list",
    "rights",
    "secret-in-env",
    "selector",
    "too-large",
    "unknown-field",
    "unknown-kind",
    "unknown-program",
    "unknown-role",
    "unknown-value",
    "unreadable",
    "volume",
    "wait-cycle",
    "wrong-type",
]
"""The kinds of problems. mlgen/reference/codes explains each. A code never changes its meaning."""


def dotted(path: ValuePath) -> str:
    """Return a path as messages show it: `spec.roles.worker.args[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Place(NamedTuple):
    """A position in the input. `str()` returns `file:line:column`.

    Attributes:
        file: file name, `<stdin>`, `<text>`, `<mapping>` or an option such as `--set`.
        line: line number from 1. 0: the problem concerns the file as a whole or an option.
        column: column from 1, in characters.
    """

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """One error or warning. `str()` returns it as the command line prints it.

    Attributes:
        path: path of the invalid value: `("spec", "roles", "worker", "args", 1)`. `()` for a
            document.
        message: description of the problem, in one line.
        code: problem code, such as `unknown-role`. Its meaning does not change between versions.
        hint: suggested fix, in one line. "" for none.
        warning: True for a warning, which does not prevent rendering.
        place: file, line and column. None if they are unknown.
    """

    path: ValuePath
    message: str
    code: Code
    hint: str = ""
    warning: bool = False
    place: Place | None = None

    def __post_init__(self) -> None:
        """Cut texts that repeat a long part of the input."""
        for name, text in (("message", self.message), ("hint", self.hint)):
            if len(text) > MESSAGE:
                object.__setattr__(self, name, f"{text[:MESSAGE]}…")

    def __str__(self) -> str:
        parts = [str(self.place)] if self.place else []
        if self.warning:
            parts.append("warning")
        if self.path:
            parts.append(dotted(self.path))
        hint = f"; {self.hint}" if self.hint else ""
        return f"{': '.join([*parts, self.message])}{hint} [{self.code}]"


def error(path: ValuePath, message: str, hint: str = "", code: Code = "combination") -> Problem:
    """Return an error of a job file: what cannot work in any image. The path is below `spec`."""
    return Problem(("spec", *path), message, code, hint)


def warning(path: ValuePath, message: str, hint: str = "", code: Code = "combination") -> Problem:
    """Return a warning of a job file: some image may work. The path is below `spec`."""
    return Problem(("spec", *path), message, code, hint, warning=True)


class MlgenError(Exception):
    """Invalid input. `str()` returns all problems, one a line.

    Attributes:
        problems: all problems as `Problem`, including warnings, in the order of reporting.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def bounded(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the first `PROBLEMS` problems of a document, then a problem that reports the excess.

    The last one is an error, because the omitted problems may include errors. If problems that are
    already bounded are among others, there is still only one.
    """
    message = f"the document has more than {PROBLEMS:,} problems; the others are not listed"
    count, exceeded = 0, False
    for problem in problems:
        exceeded = exceeded or count == PROBLEMS or problem.message == message
        if count == PROBLEMS:
            break
        if problem.message != message:
            count += 1
            yield problem
    if exceeded:
        yield Problem((), message, "too-large", "fix these first")


def severe(problems: Iterable[Problem], *, strict: bool) -> list[Problem]:
    """Return problems, in which warnings are errors if `strict`."""
    return [replace(each, warning=each.warning and not strict) for each in problems]


class Collector:
    """Gathers problems over several steps, so that all of them are reported at once."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._problems = list(problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems so far, in the order of addition."""
        return tuple(self._problems)

    @property
    def has_errors(self) -> bool:
        """True if at least one problem is an error."""
        return any(not problem.warning for problem in self._problems)

    def add(self, problem: Problem) -> None:
        """Add one problem."""
        self._problems.append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add several problems."""
        self._problems.extend(problems)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Collect the problems of an `MlgenError` raised in the block, and continue after it."""
        try:
            yield
        except MlgenError as error:
            self._problems.extend(error.problems)

    def raise_errors(self) -> None:
        """Raise all problems if at least one is an error.

        Raises:
            MlgenError: contains every problem, including warnings.
        """
        if self.has_errors:
            raise MlgenError(self._problems)


SURE = 0.85
"""Similarity from which a field counts as misspelled, not misplaced: `cutoff` of `similar`."""


def similar(word: str, known: Iterable[Any], cutoff: float = 0.6) -> str:
    """Return the known word that is closest to a word, or "" if none is close.

    Args:
        word: the word in the input.
        known: the possible words. Only the first `CHOICES` of at most `WORD` characters are
            compared, within `limited_hints`.
        cutoff: minimum similarity, from 0 to 1, as difflib measures it.
    """
    from difflib import get_close_matches

    possible = [name for each in islice(known, CHOICES) if len(name := str(each)) <= WORD]
    left = _left.get()
    if left:
        left[0] -= len(word) * sum(map(len, possible))
    if len(word) > WORD or (left and left[0] < 0):
        return ""
    return next(iter(get_close_matches(word, possible, n=1, cutoff=cutoff)), "")


_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
"""The pairs of characters that `similar` can still compare. None: without a limit."""


@contextmanager
def limited_hints() -> Iterator[None]:
    """Limit the time that the hints of one document take, whose number only `PROBLEMS` limits."""
    token = _left.set([COMPARED])
    try:
        yield
    finally:
        _left.reset(token)


def did_you_mean(word: str, known: Iterable[Any], cutoff: float = 0.6) -> str:
    """Return `did you mean "…"?` for the closest known word, or "" if `similar` returns none."""
    close = similar(word, known, cutoff)
    return f'did you mean "{close}"?' if close else ""


def choice(name: str, allowed: Sequence[str]) -> str:
    """Return `did you mean "…"?` if an allowed name is similar, or else the allowed names."""
    return did_you_mean(name, allowed) or one_of(allowed)


def one_of(allowed: Sequence[str]) -> str:
    """Return `use one of: …`, or `use …` if there is only one. "" is not listed."""
    allowed = [name for name in allowed if name]
    return f"use {allowed[0]}" if len(allowed) == 1 else f"use one of: {', '.join(allowed)}"


def listed(names: Sequence[str], word: str) -> str:
    """Return names as a sentence lists them: "a", "a or b", "a, b or c". "" for none."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def described(value: Any, text: str | None = None) -> str:
    """Return a value as a message shows it: `the string "2"`, `the mapping {"a": 1}`, `nothing`.

    Args:
        value: plain data.
        text: the value as written in its file. None for a string, or if unknown.
    """
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "the boolean "),
        (str, "the string "),
        ((int, float), "the number "),
        (dict, "the mapping "),
        (list, "the list "),
    )
    kind = next((kind for types, kind in kinds if isinstance(value, types)), "")
    return kind + shown(value, text)


def shown(value: Any, text: str | None = None) -> str:
    """Return a value as a message repeats it: as written if `text` is given, else as JSON."""
    import json

    full = json.dumps(value, ensure_ascii=False) if text is None else text or "nothing"
    return full if len(full) <= MAX_SHOWN else full[:MAX_SHOWN] + "…"


MAX_SHOWN = 60
"""Maximum number of characters of an invalid value in a message."""
