"""Rendered jobs and other objects → the printed manifests."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mlgen.output.summary import needs, summary
from mlgen.output.terminal import safe_json
from mlgen.output.yaml import commented, verbatim, yaml_text
from mlgen.result import Foreign, Rendered

if TYPE_CHECKING:
    from mlgen.checks.prerequisites import Prerequisite

Format = Literal["yaml", "json"]

START = "---\n"


@dataclass(frozen=True)
class Piece:
    """A stretch of the output.

    What a job needs depends on the jobs after it, so the text of a job has a gap for it.

    Attributes:
        before: the text up to the gap.
        after: the text from the gap on; None if there is no gap.
        name: of the file in a folder.
    """

    before: str
    after: str | None = None
    name: str = ""

    def filled(self, prerequisites: "Iterable[Prerequisite]") -> str:
        """Return the text, with what the job needs in the gap."""
        if self.after is None:
            return self.before
        return self.before + commented("\n".join(needs(prerequisites))) + self.after


def text(parts: Iterable[Rendered | Foreign], form: Format) -> str:
    """Return the manifests; in YAML, each job starts with its summary as a comment."""
    texts = (
        piece.filled(part.prerequisites if isinstance(part, Rendered) else ())
        for part in parts
        for piece in pieces(part, form)
    )
    return "".join(joined(texts, form))


def pieces(part: Rendered | Foreign, form: Format) -> Iterator[Piece]:
    """Yield the manifests of one part: a piece in YAML, or one for each object in JSON."""
    if form == "json":
        yield from map(_json, part.objects)
    elif isinstance(part, Foreign):
        yield Piece(verbatim(part.document.text, part.document.data))
    else:
        yield headed(part, part.objects)


def headed(job: Rendered, objects: Iterable[Any]) -> Piece:
    """Return objects of a job as YAML that starts with the summary of the job."""
    heading = summary(job)
    manifests = yaml_text([*objects], heading)
    gap = len(START) + len(commented(heading))
    return Piece(manifests[:gap], manifests[gap:])


def _json(item: Any) -> Piece:
    """Return an object as an item of a List."""
    lines = safe_json(json.dumps(item, indent=2, ensure_ascii=False)).replace("\n", "\n    ")
    return Piece(f"    {lines}")


def joined(texts: Iterable[str], form: Format) -> Iterator[str]:
    """Yield the texts of all pieces, and what is around them.

    In JSON, that is a List, as `kubectl get -o json` prints it.
    """
    if form == "yaml":
        yield from texts
        return
    yield '{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": ['
    separator = end = ""
    for item in texts:
        yield f"{separator}\n{item}"
        separator, end = ",", "\n  "
    yield f"{end}]\n}}\n"
