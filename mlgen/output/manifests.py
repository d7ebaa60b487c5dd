"""Rendered jobs and other objects → the printed manifests."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mlgen.objects.notes import notes
from mlgen.output.summary import needs, summary
from mlgen.output.terminal import safe_json
from mlgen.output.yaml import START, commented, verbatim, yaml_texts
from mlgen.result import Foreign, Rendered

if TYPE_CHECKING:
    from mlgen.checks.prerequisites import Prerequisite

Format = Literal["yaml", "json"]


class Piece(NamedTuple):
    """A part of the output.

    A job's prerequisites depend on the jobs after it, so the text of a job has a gap for them.

    Attributes:
        before: the text before the gap.
        after: the text after the gap; None if there is no gap.
        name: the name of the file in a folder.
        is_program: True for the object with the program of the supervisor.
    """

    before: str
    after: str | None = None
    name: str = ""
    is_program: bool = False

    def filled(self, prerequisites: "Iterable[Prerequisite]") -> str:
        """Return the text, with the job's prerequisites in the gap."""
        if self.after is None:
            return self.before
        return self.before + commented("\n".join(needs(prerequisites))) + self.after


def text(parts: Iterable[Rendered | Foreign], form: Format) -> str:
    """Return the manifests as text. In YAML, each job starts with its summary as a comment."""
    texts = (
        piece.filled(part.prerequisites if isinstance(part, Rendered) else ())
        for part in parts
        for piece in pieces(part, form)
    )
    return "".join(joined(texts, form))


def pieces(part: Rendered | Foreign, form: Format) -> Iterator[Piece]:
    """Yield the text of each object of one part. In YAML, a job starts with its summary."""
    if form == "json":
        yield from map(_json, part.objects)
    elif isinstance(part, Foreign):
        yield Piece(verbatim(part.document.text, part.document.data))
    else:
        yield from headed(part, part.objects)


def headed(job: Rendered, objects: Sequence[Any]) -> Iterator[Piece]:
    """Yield each of a job's objects as YAML. The first one starts with the job's summary."""
    heading = summary(job)
    gap = len(START) + len(commented(heading))
    for number, item in enumerate(yaml_texts(objects, heading, notes(job.topology))):
        yield Piece(item) if number else Piece(item[:gap], item[gap:])


def _json(item: Any) -> Piece:
    """Return an object as an item of a List."""
    lines = safe_json(json.dumps(item, indent=2, ensure_ascii=False)).replace("\n", "\n    ")
    return Piece(f"    {lines}")


def joined(texts: Iterable[str], form: Format) -> Iterator[str]:
    """Yield the texts of all pieces; in JSON, as items of a List, as in `kubectl get -o json`."""
    if form == "yaml":
        yield from texts
        return
    yield '{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": ['
    separator = end = ""
    for item in texts:
        yield f"{separator}\n{item}"
        separator, end = ",", "\n  "
    yield f"{end}]\n}}\n"
