"""A picture → a page with the manifests beside the boxes, which needs no other file."""

from collections.abc import Iterator, Sequence
from string import Template
from xml.sax import saxutils

from mlgen.graph.model import Box, Picture
from mlgen.graph.svg import escape, svg
from mlgen.kubernetes.objects import Object
from mlgen.output.yaml import yaml_text
from mlgen.resources import folder

ALIKE = 3
"""Of more objects of a kind in one box, only the first is shown: the others differ in an index."""


def html(picture: Picture) -> str:
    """Return the page.

    Raises:
        ModuleNotFoundError: igraph is not installed.
    """
    page = Template((folder("templates") / "graph" / "page.html").read_text(encoding="utf-8"))
    boxes = [box for box in (picture.frame, *picture.boxes) if box.objects]
    return page.substitute(
        title=escape(picture.title),
        picture=svg(picture, standalone=False).rstrip(),
        sections="\n".join(line for box in boxes for line in _section(box)),
    )


def _section(box: Box) -> Iterator[str]:
    yield f'<section id="manifests-{box.name}">'
    yield f"<h1>{escape(box.heading)}</h1>"
    for kind in dict.fromkeys(item["kind"] for item in box.objects):
        objects = [item for item in box.objects if item["kind"] == kind]
        shown = objects if len(objects) <= ALIKE else objects[:1]
        if len(shown) < len(objects):
            yield f"<p>{escape(_rest(kind, objects))}</p>"
        for item in shown:
            text = yaml_text([item]).removeprefix("---").strip()  # YAML has escapes of its own
            yield f"<pre>{saxutils.escape(text)}</pre>"
    yield "</section>"


def _rest(kind: str, objects: Sequence[Object]) -> str:
    """Return which objects are not shown."""
    names = [item["metadata"]["name"] for item in objects]
    which = f"{names[0]} to {names[-1]}, which differ in the index"
    return f"The first of {len(names)} {kind}s, {which}."
