"""A picture → SVG: readable in light and dark, without a font or a file of its own."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.sax import saxutils

from mlgen.graph.layout import Point
from mlgen.graph.model import Box, Picture
from mlgen.graph.places import (
    BADGE,
    FRAME,
    LINE,
    MARGIN,
    PADDING,
    STACK,
    TEXT,
    TINY,
    TITLE,
    WIDEST,
    Drawing,
    Rectangle,
    drawn,
    sheets,
    subtitle,
)
from mlgen.graph.text import BOLD, shortened, width
from mlgen.output.terminal import safe
from mlgen.resources import folder

HEADING_Y = 38.0


def escape(text: str) -> str:
    """Return a text as it is written in XML, which has no control characters."""
    return saxutils.escape(safe(text))


def svg(picture: Picture, *, standalone: bool = True) -> str:
    """Return a picture as SVG.

    Args:
        picture: the picture.
        standalone: False in a page that has controls for each box.

    Raises:
        ModuleNotFoundError: igraph is not installed.
    """
    return "\n".join(_elements(picture, drawn(picture), standalone=standalone)) + "\n"


def _elements(picture: Picture, drawing: Drawing, *, standalone: bool) -> Iterator[str]:
    wide, high = (_n(round(length)) for length in drawing.size)
    role = "img" if standalone else "group"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mlgen-graph" role="{role}"'
        f' aria-labelledby="mlgen-title mlgen-desc" viewBox="0 0 {wide} {high}"'
        f' width="{wide}" height="{high}">'
    )
    yield f'<title id="mlgen-title">{escape(picture.title)}</title>'
    yield f'<desc id="mlgen-desc">{escape(picture.description)}</desc>'
    style = (folder("templates") / "graph" / "picture.css").read_text(encoding="utf-8")
    yield f"<style>\n{style}</style>"
    for name, kind in (("arrow", ""), ("arrow-own", ' class="own"')):
        yield (
            f'<defs><marker id="mlgen-{name}"{kind} viewBox="0 0 8 8" refX="7" refY="4"'
            ' markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            '<path d="M0 0.5L8 4L0 7.5Z"/></marker></defs>'
        )
    if standalone:
        yield f'<rect class="ground" width="{wide}" height="{high}" rx="10"/>'
    job, _, framework = picture.title.partition(": ")
    yield (
        f'<text class="heading" x="{_n(MARGIN)}" y="{_n(HEADING_Y)}">{escape(job)}'
        f' <tspan class="indexes">{escape(framework)}</tspan></text>'
    )
    yield from _frame(picture, drawing.frame, standalone=standalone)
    for straight in drawing.straight:
        yield _line_element([straight.start, straight.end], straight.kind)
    for arrow, line in zip(picture.arrows, drawing.lines, strict=True):
        yield _line_element(line, arrow.kind)
    for arrow, label in zip(picture.arrows, drawing.labels, strict=True):
        if label:
            yield from _label(arrow.label, label)
    for box in picture.boxes:
        yield from _box(box, drawing.boxes[box.name], standalone=standalone)
    yield "</svg>"


def _line_element(line: Sequence[Point], kind: str) -> str:
    own = "-own" if kind == "acts" else ""
    if len(line) == 2 and line[0][1] == line[1][1]:  # noqa: PLR2004 - its two ends
        command = f"M{_n(line[0][0])} {_n(line[0][1])}H{_n(line[1][0])}"
    else:
        command = path(line)
    return f'<path class="arrow {kind}" d="{command}" marker-end="url(#mlgen-arrow{own})"/>'


def _group(box: Box, classes: str, *, standalone: bool) -> str:
    """Return the opening tag of a box; in a page, it is a button."""
    if standalone or not box.objects:
        return f'<g class="{classes}">'
    label = saxutils.quoteattr(safe(f"{box.heading}: show manifests"))
    return (
        f'<g class="{classes}" id="box-{box.name}" data-box="{box.name}" tabindex="0"'
        f' role="button" aria-controls="manifests-{box.name}" aria-label={label}>'
    )


def _frame(picture: Picture, frame: Rectangle, *, standalone: bool) -> Iterator[str]:
    yield _group(picture.frame, "frame", standalone=standalone)
    yield _rectangle(frame, "area", 12)
    x = _n(frame.x + FRAME - 6)
    yield (
        f'<text x="{x}" y="{_n(frame.y + 22)}" font-weight="600">'
        f"{escape(picture.frame.title)}</text>"
    )
    yield f'<text class="muted" x="{x}" y="{_n(frame.y + 39)}">{escape(subtitle(picture))}</text>'
    yield "</g>"


def _rectangle(area: Rectangle, kind: str, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{_n(area.x)}" y="{_n(area.y)}" width="{_n(area.width)}"'
        f' height="{_n(area.height)}" rx="{_n(radius)}"/>'
    )


def _label(text: str, area: Rectangle) -> Iterator[str]:
    x, y = area.middle
    yield f'<g class="label">{_rectangle(area, "back", 4)}'
    yield f'<text x="{_n(x)}" y="{_n(y + 4)}" text-anchor="middle">{escape(text)}</text></g>'


def _box(box: Box, area: Rectangle, *, standalone: bool) -> Iterator[str]:
    yield _group(box, f"box {box.shape}{' decides' if box.badge else ''}", standalone=standalone)
    top, stack = BADGE if box.badge else 0.0, sheets(box) * STACK
    body = Rectangle(area.x, area.y + top, area.width - stack, area.height - stack - top)
    for sheet in range(sheets(box), 0, -1):
        yield _rectangle(body.moved(sheet * STACK, sheet * STACK), "behind", 8)
    yield _rectangle(body, "body", 18 if box.shape == "storage" else 8)
    x, y = body.x + PADDING + 2, body.y + PADDING + TITLE - 2
    room = WIDEST - width(f" {box.indexes}", TITLE)
    indexes = f' <tspan class="indexes">{escape(box.indexes)}</tspan>' if box.indexes else ""
    title = escape(shortened(box.title, TITLE * BOLD, room))
    yield f'<text class="title" x="{_n(x)}" y="{_n(y)}">{title}{indexes}</text>'
    for number, line in enumerate(box.lines, 1):
        text = escape(shortened(line, TEXT, WIDEST))
        yield f'<text class="line" x="{_n(x)}" y="{_n(y + 3 + LINE * number)}">{text}</text>'
    if box.badge:
        yield from _badge(box.badge, x - 4, area.y)
    yield "</g>"


def _badge(text: str, x: float, y: float) -> Iterator[str]:
    wide = width(text, TINY * BOLD) + 2 * BADGE
    yield f'<g class="badge">{_rectangle(Rectangle(x, y, wide, 2 * BADGE), "pill", BADGE)}'
    place = f'x="{_n(x + wide / 2)}" y="{_n(y + BADGE + 4)}"'
    yield f'<text {place} text-anchor="middle">{escape(text)}</text></g>'


def path(line: Sequence[Point]) -> str:
    """Return the commands of a smooth line that passes each point upright."""
    parts = [f"M{_n(line[0][0])} {_n(line[0][1])}"]
    for (x, y), (to_x, to_y) in pairwise(line):
        if x == to_x:
            parts.append(f"V{_n(to_y)}")
        else:
            half = _n((y + to_y) / 2)
            parts.append(f"C{_n(x)} {half} {_n(to_x)} {half} {_n(to_x)} {_n(to_y)}")
    return "".join(parts)


def _n(number: float) -> str:
    """Return a number with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")
