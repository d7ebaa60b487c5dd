"""A text → what is printed of each of its documents, and the facts that other documents need."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from mlgen import dialects, pipeline
from mlgen.checks import prerequisites
from mlgen.checks.passthrough import Trainings, trainings
from mlgen.checks.prerequisites import Prerequisite
from mlgen.documents.files import Text
from mlgen.kubernetes.objects import Key, keys
from mlgen.output.manifests import Piece, pieces
from mlgen.problems import MlgenError, Problem
from mlgen.result import Foreign, Options, Rendered

Form = Literal["yaml", "json", "folder", "verdict"]
"""The manifests as documents, as a List, or as files; or a line about each job."""

LINE_BREAK = re.compile(r"\r\n|\n|\r")


class Part(NamedTuple):
    """What remains of a job, or of another object."""

    kind: str
    """Of another object; "" for a job."""
    keys: Sequence[Key]
    brought: Sequence[Key]
    """What it brings besides its own objects, such as the items of a List."""
    needs: Sequence[Prerequisite]
    """What it names, wherever that is."""
    pieces: Sequence[Piece]
    problems: Sequence[Problem]
    """Those of objects that cannot be written to a file."""
    trainings: Trainings


class Outcome(NamedTuple):
    """What remains of a document."""

    problems: Sequence[Problem]
    parts: Sequence[Part] = ()
    invalid: bool = False
    """It could be read, but not rendered."""
    lines: Sequence[Text] = ()
    """The lines of the problems."""

    @property
    def located(self) -> list[Problem]:
        """All problems, also those that are reported on a condition."""
        conditional = [warning for part in self.parts for _, warning in part.trainings.warnings]
        return [
            *self.problems,
            *conditional,
            *(one for part in self.parts for one in part.problems),
        ]


def outcomes(text: Text, options: Options, form: Form, *, lines: bool) -> list[Outcome]:
    """Return the outcome of each document of a text; see `gather`."""
    found = list(_outcomes(text, options, form))
    if not lines:
        return found
    return [each._replace(lines=list(lines_of(text, each.located))) for each in found]


def _outcomes(text: Text, options: Options, form: Form) -> Iterator[Outcome]:
    for document in dialects.documents(text):
        if isinstance(document, list):
            yield Outcome(document)
            continue
        try:
            parts, problems = pipeline.render_document(text.name, document, options)
        except MlgenError as error:
            yield Outcome(error.problems, invalid=True)
        else:
            yield Outcome(problems, [_part(part, form) for part in parts])


def _part(part: Rendered | Foreign, form: Form) -> Part:
    """Return what remains of a rendered job or another object."""
    identities = keys(part.objects)
    written = list(_pieces(part, form))
    shown = [piece for piece in written if isinstance(piece, Piece)]
    problems = [piece for piece in written if isinstance(piece, Problem)]
    own = {*identities}
    brought = [key for key in prerequisites.brought(part.objects) if key not in own]
    if isinstance(part, Foreign):
        kind = part.document.data["kind"]
        return Part(kind, identities, brought, (), shown, problems, trainings(part.document))
    needs = [] if form in ("json", "verdict") else prerequisites.named(part.objects)
    return Part("", identities, brought, needs, shown, problems, Trainings())


def _pieces(part: Rendered | Foreign, form: Form) -> Iterable[Piece | Problem]:
    """Return what is printed of a part, or written to files."""
    if form == "folder":
        from mlgen.output import folder

        return folder.pieces(part)
    if form != "verdict":
        return pieces(part, form)
    if isinstance(part, Foreign):
        return []
    from mlgen.output.summary import verdict

    return [Piece(f"{part.file}: {verdict(part)}")]


def lines_of(text: Text, problems: Iterable[Problem]) -> Iterator[Text]:
    """Yield the lines of problems that are in a text, each as a text of its own."""
    places = [problem.place for problem in problems if problem.place]
    numbers = {place.line - text.line - 1 for place in places if place.file == text.name}
    rows = LINE_BREAK.split(text.text) if numbers else []
    for number in sorted(numbers):
        if 0 <= number < len(rows):
            yield Text(text.name, rows[number], line=text.line + number)
