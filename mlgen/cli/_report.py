"""Print the output and the problems of a command, and exit with its status.

The options of the set `reporting` control the format of problems. They are in click's context.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import click

from mlgen.documents.files import documents, parts, texts
from mlgen.output import problems as output
from mlgen.output.files import conflict, remove_drafts
from mlgen.output.files import write as write_file
from mlgen.output.terminal import safe, safe_lines
from mlgen.problems import MlgenError
from mlgen.result import Options

if TYPE_CHECKING:
    from mlgen.documents.files import Text
    from mlgen.printing import Form, Printed
    from mlgen.problems import Problem
    from mlgen.result import Result

    class _Result(Protocol):
        """The result of an action with warnings."""

        @property
        def warnings(self) -> Iterable[Problem]: ...


T = TypeVar("T")
W = TypeVar("W", bound="_Result")

LINES = ("text", "github")
"""Problem formats with a line per problem. JSON is one document, printed at the end."""

CHECKS = ("validate", "verify")
"""Commands that print problems on stdout. All others print them on stderr."""

OPTIONS = {"form": "problems", "color": "color", "quiet": "quiet", "verbose": "verbose"}
"""Attributes of `_Reporter`, with the name of the option that sets each."""


@dataclass(slots=True)
class _Reporter:
    """Prints the problems of a command, and keeps the data for its totals.

    Attributes:
        form: text, json or github.
        color: auto, always or never.
        quiet: print only errors.
        verbose: print progress notes.
        on_stdout: print problems on stdout instead of stderr.
        files: names of the files that were read.
        sources: texts of the files, or the parts with the source lines of problems.
        problems: reported problems.
        jobs: number of jobs in the input; None if unknown.
        others: kind of each other object.
        totals: print the numbers of files, jobs and problems at the end.
        footer: text to print last.
    """

    form: str = "text"
    color: str = "auto"
    quiet: bool = False
    verbose: bool = False
    on_stdout: bool = False
    files: list[str] = field(default_factory=list)
    sources: "list[Text]" = field(default_factory=list)
    problems: "list[Problem]" = field(default_factory=list)
    jobs: int | None = None
    others: tuple[str, ...] = ()
    totals: bool = True
    footer: str = ""

    @property
    def for_people(self) -> bool:
        """True if notes and totals may be mixed with the problems on stderr."""
        return self.on_stdout or self.form in LINES

    def report(self, problems: "Iterable[Problem]") -> None:
        """Print problems, or keep them for the document that is printed at the end."""
        shown = [item for item in problems if not (self.quiet and item.warning)]
        self.problems += shown
        if shown and self.form == "github":
            self._print(output.github(shown))
        elif shown and self.form == "text":
            self._print(output.text(shown, self.sources, self.style))

    def finish(self) -> None:
        """Print the document of all problems (JSON), the totals and the footer."""
        totals = len(self.files) > 1 or self.others or self.problems
        if self.form in LINES and not (totals or self.footer):
            return

        count = output.Count(len(self.files), self.jobs, self.others, tuple(self.problems))
        if self.form == "json":
            self._print(output.json_text(count))
        if self.quiet or not self.for_people:
            return
        if self.totals and self.files and count.is_worth_a_line:
            click.echo(str(count), err=True)
        errors = [problem for problem in self.problems if not problem.warning]
        if errors and _is_terminal(sys.stderr):
            click.echo(f"for an example: mlgen explain {errors[0].code}", err=True)
        if self.footer:
            click.echo(self.footer, err=True)

    def _print(self, text: str) -> None:
        click.echo(text.encode(), nl=False, err=not self.on_stdout)

    @property
    def style(self) -> output.Style:
        """Colors and source lines of problems as text."""
        stream = sys.stdout if self.on_stdout else sys.stderr
        source = _is_terminal(stream) or self.color == "always"
        return output.Style(source=source, color=self.is_colored(stream))

    def is_colored(self, stream: IO[str] | None) -> bool:
        """Return whether a stream shows colors."""
        # https://no-color.org: an empty value does not count.
        colorless = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        is_auto = self.color == "auto" and _is_terminal(stream) and not colorless
        return is_auto or self.color == "always"


def _is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal. None: the stream is closed."""
    return stream is not None and stream.isatty()


def is_colored(stream: IO[str] | None) -> bool:
    """Return whether a stream shows colors, with the --color of the command."""
    return _reporter().is_colored(stream)


def _reporter() -> _Reporter:
    """Return the reporter of the current command, with the options of `reporting`."""
    context = click.get_current_context(silent=True)
    if context is None:
        return _Reporter()
    if __name__ not in context.meta:
        options = {name: context.meta.get(f"mlgen.{option}") for name, option in OPTIONS.items()}
        if options["quiet"] and options["verbose"]:
            raise click.UsageError("--quiet and --verbose are mutually exclusive")
        given = {name: value for name, value in options.items() if value is not None}
        on_stdout = context.command.name in CHECKS
        context.meta[__name__] = _Reporter(on_stdout=on_stdout, **given)
        context.call_on_close(context.meta[__name__].finish)
    reporter: _Reporter = context.meta[__name__]
    return reporter


def is_quiet() -> bool:
    """Return whether only errors are printed."""
    return _reporter().quiet


def without_totals() -> None:
    """Omit the numbers of files, jobs and problems at the end."""
    _reporter().totals = False


def note(line: str) -> None:
    """Print a line on stderr with --verbose."""
    reporter = _reporter()
    if reporter.verbose and reporter.for_people:
        click.echo(safe(line), err=True)


def footer(text: Callable[[], str]) -> None:
    """Print a text on stderr at the end of the command, but only at a terminal outside CI."""
    if _is_terminal(sys.stderr) and not os.environ.get("CI"):
        _reporter().footer = text()


def findings(lines: Iterable[str]) -> None:
    """Print one result per line on stdout, if the format of problems is text."""
    reporter = _reporter()
    if reporter.form == "text" and not reporter.quiet:
        write_page("".join(f"{line}\n" for line in lines))


def report(problems: "Iterable[Problem]") -> None:
    """Print problems on stderr, or on stdout for the commands in `CHECKS`."""
    _reporter().report(problems)


def checked(action: Callable[[], T]) -> T:
    """Return the result of an action.

    If it raises MlgenError, print all problems and exit with status 1.
    """
    try:
        return action()
    except MlgenError as error:
        report(error.problems)
        sys.exit(1)


def with_warnings(action: Callable[[], W]) -> W:
    """Return the result of an action as `checked` does, and print its warnings."""
    result = checked(action)
    report(result.warnings)
    return result


def rendered(
    files: Sequence[str], values: dict[str, Any], *, totals: bool = True, warnings: bool = True
) -> "Result":
    """Render files, and print the problems. Exit with status 1 if one is an error.

    Args:
        files: files, folders, and `-` for standard input.
        values: the keyword arguments of `Options`.
        totals: print the numbers of files, jobs and problems at the end.
        warnings: print warnings in addition to errors.
    """
    from mlgen import pipeline

    if not totals:
        without_totals()
    texts = read(files)
    start = monotonic()
    result = pipeline.attempt(texts, Options(**values))
    others = (part.document.data["kind"] for part in result.others)
    _note_totals(len(result.jobs), result.invalid, others, start)
    report(result.problems if warnings else [each for each in result.problems if not each.warning])
    if result.errors:
        sys.exit(1)
    return result


def printed(files: Sequence[str], values: dict[str, Any], form: "Form") -> "Printed":
    """Render many files, without the jobs that have errors. Do not print problems.

    Args:
        files: files, folders, and `-` for standard input.
        values: the keyword arguments of `Options`.
        form: form of the output.
    """
    from mlgen.pipeline import Walk
    from mlgen.printing import Printed

    reporter = _reporter()
    start = monotonic()
    has_excerpts = reporter.form == "text" and reporter.style.source
    result = Printed(Walk(Options(**values)), form)
    walk = result.walk
    for outcome in walk.outcomes(_in_context(_parts(files))):
        result.add(outcome)
        if has_excerpts:
            reporter.sources += output.excerpts(outcome.text, outcome.problems)
    walk.finish()
    _note_totals(walk.jobs, walk.invalid, walk.others, start)
    return result


def _parts(files: Iterable[str]) -> "Iterator[Text]":
    """Yield the text of each document in files. Do not keep the texts, to save memory."""
    files = tuple(files)
    if "-" in files:
        hint_at_stdin()
    reporter = _reporter()
    last = -1
    for text in parts(files):
        if text.line <= last or text.name not in reporter.files[-1:]:
            note(f"read {text.name}")
            reporter.files.append(text.name)
        last = text.line
        yield text


def _in_context(texts: "Iterable[Text]") -> "Iterator[Text]":
    """Yield texts with the runtimes that their TrainJobs may refer to, also from --runtime."""
    from mlgen import dialects

    names = click.get_current_context().meta.get("mlgen.runtimes", ())
    return dialects.in_context(texts, dialects.runtimes(names))


def _note_totals(jobs: int, invalid: int, others: Iterable[str], start: float) -> None:
    """Keep the number of jobs and the kinds of other objects. Print the duration if verbose."""
    reporter = _reporter()
    reporter.jobs = jobs + invalid
    reporter.others = tuple(others)
    note(f"rendered {jobs} of {reporter.jobs} jobs in {monotonic() - start:.2f} s")


def read(files: Iterable[str]) -> "list[Text]":
    """Return the texts of files, and keep them for the source lines of problems."""
    files = tuple(files)
    if "-" in files:
        hint_at_stdin()
    found = list(_in_context(texts(files)))
    for text in found:
        note(f"read {text.name}")
    _reporter().sources += found
    _reporter().files += [text.name for text in found]
    return found


def read_documents(files: Iterable[str]) -> "Iterator[Text]":
    """Read files as `read` does, and yield each document. A text without documents is yielded."""
    return (part for text in read(files) for part in documents(text))


def hint_at_stdin() -> None:
    """Print a hint that the command waits for stdin, if stdin is a terminal."""
    if _is_terminal(sys.stdin) and not is_quiet():
        click.echo("reading standard input; end it with Ctrl-D", err=True)


def refuse_inputs(outputs: Iterable[str | Path], files: Sequence[str]) -> None:
    """Check that no output is an input. `-` is stdout.

    Raises:
        UsageError: an output is an input, or would become one.
    """
    paths = [Path(output) for output in outputs if output != "-"]
    if not paths:
        return

    reason = conflict(paths, files)
    if reason:
        raise click.UsageError(reason)


def write_page(text: str) -> None:
    """Print lines on stdout, with control characters escaped for terminals."""
    write("-", safe_lines(text))


def write(output: str, texts: str | Iterable[str]) -> None:
    """Write one or more texts to a file, or to stdout if the output is `-`.

    Raises:
        ClickException: the file cannot be written.
    """
    texts = [texts] if isinstance(texts, str) else texts
    if output == "-":
        for text in texts:
            click.echo(text.encode(), nl=False)  # bytes do not depend on the locale
        return

    remove_drafts(Path(output).parent)
    try:
        write_file(output, texts)
    except OSError as error:
        raise click.ClickException(f"{output}: cannot be written: {error.strerror}") from None
