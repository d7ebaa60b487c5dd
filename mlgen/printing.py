"""The outcomes of a walk → the text of their manifests.

A rendered job is dropped as soon as its text is in the spool of the walk, which holds it until the
command knows that there is no error. So memory hardly depends on the number of jobs.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from mlgen.checks import prerequisites
from mlgen.checks.prerequisites import Prerequisite
from mlgen.output import folder, manifests
from mlgen.output.files import Stored
from mlgen.output.manifests import Piece, verdict
from mlgen.pipeline import Outcome, Walk
from mlgen.problems import Problem
from mlgen.result import Foreign, Rendered

Form = Literal["yaml", "json", "folder", "verdict"]
"""The form of the output: documents, a List, files, or one line about each job."""


class Printed:
    """The text of the jobs and other objects of a walk.

    Args:
        walk: the walk. Its spool holds the text.
        form: the form of the output.

    Attributes:
        walk: the walk.
        misplaced: problems that are reported only if there is no other error, such as objects that
            cannot be written to a file.
        programs: the names of the files with the program of the supervisor.
    """

    def __init__(self, walk: Walk, form: Form) -> None:
        self.walk, self._form = walk, form
        self.misplaced: list[Problem] = []
        self.programs: list[str] = []
        self._files: dict[str, int] = {}
        self._needs: dict[tuple[Prerequisite, ...], int] = {}

    def add(self, outcome: Outcome) -> None:
        """Write the parts of a document."""
        for part in outcome.parts:
            if self._form == "folder":
                self.misplace(outcome, folder.misplaced(part))
                self.write(outcome, part, folder.pieces(part))
            elif self._form != "verdict":
                self.write(outcome, part, manifests.pieces(part, self._form))
            elif isinstance(part, Rendered):
                self.write(outcome, part, [Piece(f"{part.file}: {verdict(part)}")])

    def misplace(self, outcome: Outcome, problems: Iterable[Problem]) -> None:
        """Add problems of a document that are reported only if there is no other error."""
        found = [*map(outcome.located, problems)]
        self.misplaced += found
        outcome.problems += found

    def write(self, outcome: Outcome, part: Rendered | Foreign, pieces: Iterable[Piece]) -> None:
        """Write the pieces of a part of a document."""
        needs: tuple[Prerequisite, ...] = ()
        if isinstance(part, Rendered) and self._form in ("yaml", "folder"):
            needs = tuple(prerequisites.named(part.objects))
        number = self._needs.setdefault(needs, len(self._needs))
        for piece in pieces:
            if piece.name in self._files:
                self.misplace(outcome, [folder.clash(piece.name)])
                continue
            if piece.name:
                self._files[piece.name] = len(self.walk.spool)
            if piece.is_program:
                self.programs.append(piece.name)
            self.walk.write(outcome, (number, *piece))
            if self.walk.is_full:
                return

    def texts(self) -> Iterator[str]:
        """Yield the text of each piece."""
        tables = self._tables()
        return (Piece(*piece).filled(tables[needs]) for needs, *piece in self.walk.spool)

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its name. Texts are read when they are looked up."""
        tables = self._tables()

        def read(name: str) -> str:
            needs, *piece = self.walk.spool[self._files[name]]
            return Piece(*piece).filled(tables[needs])

        return Stored(self._files, read)

    def _tables(self) -> list[tuple[Prerequisite, ...]]:
        """Return the missing prerequisites of jobs, by their number in a piece."""
        return [*map(self.walk.missing, self._needs)]
