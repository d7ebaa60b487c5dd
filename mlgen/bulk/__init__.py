"""Many texts → their manifests and problems, one document at a time.

A rendered job is dropped as soon as its text is written. An `Outcome` contains the data that later
jobs and the totals need: texts and small values, without topologies and objects. So memory hardly
depends on the number of jobs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from mlgen import dialects, pipeline
from mlgen.bounds import OBJECTS
from mlgen.checks.prerequisites import Prerequisite
from mlgen.dialects import pieces
from mlgen.documents.files import Text
from mlgen.output import folder, manifests
from mlgen.output.manifests import Piece
from mlgen.output.problems import line
from mlgen.output.spool import FullError, Spool, Stored
from mlgen.output.summary import verdict
from mlgen.pipeline import Outcome, Part, Walk, too_many_bytes
from mlgen.problems import Problem, severe
from mlgen.result import Foreign, Options, Rendered

if TYPE_CHECKING:
    from mlgen.documents.document import Document

__all__ = ["Form", "Gathered", "Task", "gather", "pieces"]

Form = Literal["yaml", "json", "folder", "verdict"]
"""The form of the output: documents, a List, files, or one line about each job."""

Check = Callable[[Rendered | Foreign], Iterable[Problem]]
"""Returns further problems of a part. They are reported only if there is no other error."""


class Content(NamedTuple):
    """The content of a part.

    Attributes:
        problems: problems that are reported only if there is no other error.
        pieces: the pieces of the output, as tuples, created when they are read.
    """

    problems: list[Problem]
    pieces: Iterable[tuple[str, str | None, str, bool]]


class Task(NamedTuple):
    """How to render texts.

    Attributes:
        options: the options for rendering.
        form: the form of the output.
        check: returns further problems of a part.
        lines: True to keep the lines of problems for excerpts.
    """

    options: Options
    form: Form
    check: Check | None = None
    lines: bool = False

    def content(self, part: Rendered | Foreign) -> Content:
        """Return the content of a part."""
        problems = [*self.check(part)] if self.check else []
        if self.form == "folder":
            return Content([*problems, *folder.misplaced(part)], folder.pieces(part))
        if self.form != "verdict":
            return Content(problems, manifests.pieces(part, self.form))
        lines = [] if isinstance(part, Foreign) else [Piece(f"{part.file}: {verdict(part)}")]
        return Content(problems, lines)


def gather(texts: Iterable[Text], task: Task) -> "Gathered":
    """Render texts, and return the valid jobs and all problems, like `pipeline.attempt`.

    Args:
        texts: the texts, which are read when they are needed.
        task: how to render them.
    """
    gathered = Gathered(task)
    for text in dialects.in_context(texts):
        gathered.add_all(text, outcomes(text, task))
        if gathered.is_full:
            break
    gathered.finish()
    return gathered


def outcomes(text: Text, task: Task) -> Iterator[tuple[Outcome, list[Text]]]:
    """Yield the outcome of each document of a text, and the lines of its problems.

    The content of a part is a `Content`.
    """
    needs = task.form in ("yaml", "folder")
    for document in dialects.documents(text):
        if isinstance(document, list):
            outcome = Outcome(severe(document, strict=task.options.strict))
        else:
            outcome = pipeline.outcome(text.name, document, task.options, task.content, needs=needs)
        yield outcome, list(_lines_of(text, _all_problems(outcome))) if task.lines else []


def _all_problems(outcome: Outcome) -> Iterator[Problem]:
    """Yield all problems of a document, including problems that are reported conditionally."""
    yield from outcome.problems
    for part in outcome.parts:
        found = part.facts
        yield from (problem for *_, problem in found.kinds + found.shared + found.uses)
        yield from found.broken
        yield from part.content.problems


def _lines_of(text: Text, problems: Iterable[Problem]) -> Iterator[Text]:
    """Yield the lines with problems of a text, each as a separate text."""
    places = [problem.place for problem in problems if problem.place]
    numbers = {place.line - text.line - 1 for place in places if place.file == text.name}
    for number in sorted(numbers):
        if row := line(text.text, number):
            yield Text(text.name, row, line=text.line + number, quotable=True)


class Gathered(Walk):
    """The rendered output of many texts.

    Attributes:
        misplaced: problems that are reported only if there is no other error, such as objects that
            cannot be written to a file.
        lines: the lines with problems, each as a text; empty without `Task.lines`.
        programs: the names of the files with the program of the supervisor.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(OBJECTS, strict=task.options.strict)
        self._with_lines = task.lines
        self.misplaced: list[Problem] = []
        self.lines: list[Text] = []
        self.programs: list[str] = []
        self._pieces = Spool()
        self._files: dict[str, int] = {}
        self._needs: dict[tuple[Prerequisite, ...], int] = {}
        self._read: tuple[Text | None, list[Document | list[Problem]]] = (None, [])

    def add_all(self, text: Text, text_outcomes: Iterable[tuple[Outcome, list[Text]]]) -> None:
        """Add the outcome of each document of a text, with the lines of its problems."""
        for number, (outcome, lines) in enumerate(text_outcomes):
            self.lines += lines
            locate = partial(self._located, text, number)
            for part in self.add(outcome, locate):
                self.misplaced += part.content.problems
                self.write(part, part.content.pieces, locate)

    def write(
        self,
        part: Part,
        pieces: Iterable[tuple[str, str | None, str, bool]],
        locate: Callable[[list[Problem]], list[Problem]],
    ) -> None:
        """Write the pieces of a part, unless there are too many bytes.

        Args:
            part: the part.
            pieces: the pieces, as tuples.
            locate: returns problems with their locations in the document.
        """
        needs = self._needs.setdefault(tuple(part.needs), len(self._needs))
        try:
            for before, after, name, is_program in pieces:
                if name in self._files:
                    self.misplaced += locate([folder.clash(name)])
                    continue
                if name:
                    self._files[name] = len(self._pieces)
                if is_program:
                    self.programs.append(name)
                self._pieces.add((needs, before, after, name))
        except FullError:
            self.fill(locate([too_many_bytes()]))

    def _located(self, text: Text, number: int, problems: Iterable[Problem]) -> list[Problem]:
        """Return problems with their locations. The document is read again to find them."""
        if self._read[0] is not text:
            self._read = text, list(dialects.documents(text))
        document = self._read[1][number]
        if isinstance(document, list):
            raise TypeError(document)
        located = [document.located(problem) for problem in problems]
        if self._with_lines:
            self.lines += _lines_of(text, located)
        return located

    def texts(self) -> Iterator[str]:
        """Yield the text of each piece."""
        tables = self._tables()
        return (Piece(*piece).filled(tables[needs]) for needs, *piece in self._pieces)

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its name. Texts are read when they are looked up."""
        tables = self._tables()

        def read(name: str) -> str:
            needs, *piece = self._pieces[self._files[name]]
            return Piece(*piece).filled(tables[needs])

        return Stored(self._files, read)

    def _tables(self) -> list[tuple[Prerequisite, ...]]:
        """Return the missing prerequisites of jobs, by their number in a piece."""
        return [self.missing(needs) for needs in self._needs]
