"""The outcomes of documents, in their order → all manifests, and all problems."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlgen import checks, dialects
from mlgen.bounds import OBJECTS
from mlgen.bulk.outcomes import Outcome, Part, lines_of
from mlgen.bulk.spool import Spool
from mlgen.checks.passthrough import Trainings, not_run
from mlgen.checks.prerequisites import Prerequisite, missing
from mlgen.documents.files import Text
from mlgen.kubernetes.objects import Identities
from mlgen.output.manifests import Piece
from mlgen.pipeline import too_many
from mlgen.problems import Problem

if TYPE_CHECKING:
    from mlgen.documents.document import Document


class Gathered:
    """What many texts render to.

    Attributes:
        problems: in the order of reporting.
        misplaced: the problems of objects that cannot be written to a file.
        lines: the lines of problems, each as a text, if `with_lines`.
        jobs: the number of rendered jobs.
        invalid: the number of documents that could not be rendered.
        others: the kind of each other object.
    """

    def __init__(self, *, with_lines: bool = False) -> None:
        self._with_lines = with_lines
        self.problems: list[Problem] = []
        self.misplaced: list[Problem] = []
        self.lines: list[Text] = []
        self.jobs = self.invalid = 0
        self.others: list[str] = []
        self._taken, self._brought = Identities(), Identities()
        self._trainings: list[Trainings] = []
        self._pieces = Spool()
        self._files: dict[str, int] = {}
        self._needs: dict[tuple[Prerequisite, ...], int] = {}
        self._objects = 0
        self._read: tuple[Text | None, list[Document | list[Problem]]] = (None, [])

    @property
    def is_full(self) -> bool:
        """Whether there are more objects than one command renders."""
        return self._objects > OBJECTS

    @property
    def has_errors(self) -> bool:
        """Whether a problem prevents rendering."""
        return any(not problem.warning for problem in self.problems)

    def add(self, text: Text, outcomes: Sequence[Outcome]) -> None:
        """Add the outcome of each document of a text."""
        for number, outcome in enumerate(outcomes):
            if self.is_full:
                return
            self._objects += sum(len(part.keys) for part in outcome.parts)
            if self.is_full:
                self.problems += self._located([too_many(OBJECTS)], text, number)
            self.problems += outcome.problems
            self.lines += outcome.lines
            collisions = list(self._collisions(outcome.parts))
            self.problems += self._located(collisions, text, number)
            if collisions or outcome.invalid:
                self.invalid += 1
                continue
            for part in outcome.parts:
                self._add(part, text, number)

    def _collisions(self, parts: Iterable[Part]) -> Iterator[Problem]:
        """Yield a problem for each part that has objects of an earlier one."""
        for part in parts:
            yield from checks.collisions(part.keys, self._taken)
            self._taken.update(part.keys)

    def _add(self, part: Part, text: Text, number: int) -> None:
        """Add a part of a document of a text, given the number of the document."""
        self._brought.update(part.brought)
        if part.kind:
            self.others.append(part.kind)
        else:
            self.jobs += 1
        if part.trainings != Trainings():
            self._trainings.append(part.trainings)
        needs = self._needs.setdefault(tuple(part.needs), len(self._needs))
        self.misplaced += part.problems
        for piece in part.pieces:
            if piece.name in self._files:
                self.misplaced += self._located([_clash(piece.name)], text, number)
                continue
            position = self._pieces.add((needs, piece.before, piece.after, piece.name))
            if piece.name:
                self._files[piece.name] = position

    def _located(self, problems: Sequence[Problem], text: Text, number: int) -> list[Problem]:
        """Return problems of a document of a text, which is read again for their places."""
        if not problems:
            return []
        if self._read[0] is not text:
            self._read = text, list(dialects.documents(text))
        document = self._read[1][number]
        if isinstance(document, list):
            raise TypeError(document)
        located = [document.located(problem) for problem in problems]
        if self._with_lines:
            self.lines += lines_of(text, located)
        return located

    def finish(self) -> None:
        """Add the problems that depend on all documents."""
        self.problems += not_run(self._trainings)

    def texts(self) -> Iterator[str]:
        """Yield the text of each piece."""
        tables = [missing(needs, self._taken, self._brought) for needs in self._needs]
        for number, *piece in self._pieces:
            yield Piece(*piece).filled(tables[number])

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its name; texts are read when they are looked up."""
        tables = [missing(needs, self._taken, self._brought) for needs in self._needs]
        return _Files(self._files, self._pieces, tables)


class _Files(Mapping[str, str]):
    """The text of each file, by its name.

    Args:
        positions: of the files in the spool.
        spool: has the pieces.
        tables: what jobs need, by the number in a piece.
    """

    def __init__(
        self,
        positions: Mapping[str, int],
        spool: Spool,
        tables: Sequence[tuple[Prerequisite, ...]],
    ) -> None:
        self._positions, self._spool, self._tables = positions, spool, tables

    def __getitem__(self, name: str) -> str:
        number, *piece = self._spool.read(self._positions[name])
        return Piece(*piece).filled(self._tables[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


def _clash(name: str) -> Problem:
    from mlgen.output.folder import clash

    return clash(name)
