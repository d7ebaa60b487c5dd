"""Many texts → their manifests and problems, one document at a time, in one process or several.

A rendered job is dropped as soon as its text is written. An `Outcome` contains the data that later
jobs and the totals need: texts and small values, without topologies and objects. So memory hardly
depends on the number of jobs, and another process can do the work.
"""

import marshal
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Literal

from mlgen import dialects, pipeline
from mlgen.bounds import OBJECTS
from mlgen.checks.prerequisites import Prerequisite
from mlgen.dialects import pieces
from mlgen.documents.files import Text
from mlgen.output import folder, manifests
from mlgen.output.manifests import Piece
from mlgen.output.problems import visible
from mlgen.output.summary import verdict
from mlgen.pipeline import Outcome, Walk
from mlgen.problems import Problem
from mlgen.result import Foreign, Options, Rendered

if TYPE_CHECKING:
    from mlgen.documents.document import Document

__all__ = ["Form", "Gathered", "gather", "pieces"]

Form = Literal["yaml", "json", "folder", "verdict"]
"""The form of the output: documents, a List, files, or one line about each job."""

MAX_BYTES = 8 << 20
"""The maximum size of pieces in memory. More pieces go to a temporary file."""


def gather(
    texts: Iterable[Text], options: Options, form: Form, jobs: int = 1, *, lines: bool = False
) -> "Gathered":
    """Render texts, and return the valid jobs and all problems, like `pipeline.attempt`.

    Args:
        texts: the texts, which are read when they are needed.
        options: the options for rendering.
        form: the form of the output.
        jobs: the number of processes; 0: one for each core.
        lines: True to keep the lines of problems for excerpts.

    Raises:
        ChildProcessError: a worker process has died.
    """
    gathered = Gathered(with_lines=lines, strict=options.strict)
    work = partial(outcomes, options=options, form=form, lines=lines)
    if jobs == 1:
        results = ((text, work(text)) for text in texts)
    else:
        from mlgen.bulk import workers  # multiprocessing takes as long to import as click

        results = workers.results(work, texts, jobs)
    with closing(results) as pairs:
        for text, text_outcomes in pairs:
            gathered.add_all(text, text_outcomes)
            if gathered.is_full:
                break
    gathered.finish()
    return gathered


def outcomes(
    text: Text, options: Options, form: Form, *, lines: bool
) -> list[tuple[Outcome, list[Text]]]:
    """Return the outcome of each document of a text, and the lines of its problems; see `gather`.

    The content of a part is a list of pieces, and of problems of objects that cannot be written.
    """
    needs = form in ("yaml", "folder")
    content = partial(_pieces, form=form)
    results = [
        Outcome(document)
        if isinstance(document, list)
        else pipeline.outcome(text.name, document, options, content, needs=needs)
        for document in dialects.documents(text)
    ]
    return [(each, list(_lines_of(text, _all_problems(each))) if lines else []) for each in results]


def _pieces(part: Rendered | Foreign, form: Form) -> list[Piece | Problem]:
    """Return the pieces of a part that are printed or written to files."""
    if form == "folder":
        return list(folder.pieces(part))
    if form != "verdict":
        return list(manifests.pieces(part, form))
    return [] if isinstance(part, Foreign) else [Piece(f"{part.file}: {verdict(part)}")]


def _all_problems(outcome: Outcome) -> Iterator[Problem]:
    """Yield all problems of a document, including problems that are reported conditionally."""
    yield from outcome.problems
    for part in outcome.parts:
        found = part.trainings
        yield from (problem for *_, problem in found.warnings + found.shared + found.uses)
        yield from (item for item in part.content if isinstance(item, Problem))


def _lines_of(text: Text, problems: Iterable[Problem]) -> Iterator[Text]:
    """Yield the lines with problems of a text, each as a separate text."""
    places = [problem.place for problem in problems if problem.place]
    numbers = {place.line - text.line - 1 for place in places if place.file == text.name}
    rows = visible(text.text) if numbers else []
    for number in sorted(numbers):
        if 0 <= number < len(rows) and rows[number]:
            yield Text(text.name, rows[number], line=text.line + number)


class Gathered(Walk):
    """The rendered output of many texts.

    Attributes:
        misplaced: the problems of objects that cannot be written to a file.
        lines: the lines with problems, each as a text; empty without `with_lines`.
    """

    def __init__(self, *, with_lines: bool = False, strict: bool = False) -> None:
        super().__init__(OBJECTS, strict=strict)
        self._with_lines = with_lines
        self.misplaced: list[Problem] = []
        self.lines: list[Text] = []
        self._pieces = Spool()
        self._files: dict[str, int] = {}
        self._needs: dict[tuple[Prerequisite, ...], int] = {}
        self._read: tuple[Text | None, list[Document | list[Problem]]] = (None, [])

    def add_all(self, text: Text, text_outcomes: Sequence[tuple[Outcome, list[Text]]]) -> None:
        """Add the outcome of each document of a text, with the lines of its problems."""
        for number, (outcome, lines) in enumerate(text_outcomes):
            self.lines += lines
            locate = partial(self._located, text, number)
            for part in self.add(outcome, locate):
                needs = self._needs.setdefault(tuple(part.needs), len(self._needs))
                for item in part.content:
                    if isinstance(item, Problem):
                        self.misplaced.append(item)
                    elif item.name in self._files:
                        self.misplaced += locate([folder.clash(item.name)])
                    else:
                        if item.name:
                            self._files[item.name] = len(self._pieces)
                        self._pieces.add((needs, item.before, item.after, item.name))

    def _located(self, text: Text, number: int, problems: Sequence[Problem]) -> list[Problem]:
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

        return folder.Texts(self._files, read)

    def _tables(self) -> list[tuple[Prerequisite, ...]]:
        """Return the missing prerequisites of jobs, by their number in a piece."""
        return [self.missing(needs) for needs in self._needs]


class Spool(Sequence[Any]):
    """Tuples of strings, numbers and None. They are stored in a file if they are large."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(MAX_BYTES)  # noqa: SIM115 - as long as this object
        self._ends = array("Q", [0])

    def add(self, item: tuple[Any, ...]) -> None:
        """Add an item."""
        self._file.seek(self._ends[-1])
        self._ends.append(self._ends[-1] + self._file.write(marshal.dumps(item)))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: Any) -> Any:
        self._file.seek(self._ends[number])
        data = self._file.read(self._ends[number + 1] - self._ends[number])
        return marshal.loads(data)  # noqa: S302 - of our own
