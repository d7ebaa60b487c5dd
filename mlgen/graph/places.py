"""A picture → where its boxes, arrows and labels are, in pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlgen.graph.layout import Layout, Link, Point, ends, layout
from mlgen.graph.model import Arrow, Box, Picture
from mlgen.graph.text import BOLD, shortened, width

TITLE, TEXT, SMALL, TINY, HEADING = 15.0, 12.5, 12.0, 11.0, 17.0
"""Sizes of fonts."""

LINE = 18.0
"""The height of a line of text."""

PADDING = 14.0
"""Around the text of a box."""

NARROWEST, WIDEST = 132.0, 300.0
"""Of the text in a box."""

STACK = 5.0
"""The distance of the sheets that show that there are several replicas."""

BADGE = 9.0
"""By which a badge sticks out of the top of its box."""

FRAME, HEAD = 24.0, 52.0
"""The distance of the frame from what is in it, and at the top, with its title."""

MARGIN, TOP = 20.0, 46.0
"""Around the picture, and the height of its title."""

BESIDE, UNDER = 64.0, 46.0
"""The distance of the supervisor and of storage from the frame."""

TIP = 10.0
"""The length of the upright end of an arrow."""


@dataclass(frozen=True)
class Rectangle:
    """A rectangle by its left upper corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower side."""
        return self.y + self.height

    @property
    def middle(self) -> Point:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, x: float, y: float) -> "Rectangle":
        """Return the rectangle at another place."""
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True)
class Straight:
    """An arrow that is not placed with the others: of the supervisor, or to shared storage."""

    start: Point
    end: Point
    kind: str


@dataclass(frozen=True)
class Drawing:
    """Where everything is.

    Attributes:
        size: width and height of the picture.
        boxes: by name; with the badge and the sheets behind a box.
        lines: the points of each arrow of the picture.
        labels: of each arrow; None if it has none.
    """

    size: Point
    frame: Rectangle
    boxes: dict[str, Rectangle]
    lines: list[list[Point]]
    labels: list[Rectangle | None]
    straight: list[Straight]


def sheets(box: Box) -> int:
    """Return the number of sheets behind a box."""
    return min(box.replicas - 1, 2)


def subtitle(picture: Picture) -> str:
    """Return the second line of the frame's title."""
    return ", ".join(picture.frame.lines)


def box_size(box: Box) -> Point:
    """Return the width and height of a box, with its badge and the sheets behind it."""
    texts = [width(shortened(line, TEXT, WIDEST), TEXT) for line in box.lines]
    texts.append(width(box.heading, TITLE * BOLD))
    texts.append(width(box.badge, TINY * BOLD) + 2 * BADGE)
    stack = sheets(box) * STACK
    height = 2 * PADDING + TITLE + 5 + LINE * len(box.lines) + stack + (BADGE if box.badge else 0)
    return min(max(NARROWEST, *texts), WIDEST) + 2 * PADDING + 4 + stack, height


def drawn(picture: Picture) -> Drawing:
    """Place a picture.

    Raises:
        ModuleNotFoundError: igraph is not installed.
    """
    sizes = {box.name: box_size(box) for box in (*picture.roles, *picture.others)}
    links = [_link(arrow) for arrow in picture.arrows]
    placed = layout(sizes, links, [box.name for box in picture.others], UNDER)
    labels = [
        None if point is None else _around(point, (link.width, link.height))
        for point, link in zip(placed.labels, links, strict=True)
    ]
    boxes = {name: _around(placed.boxes[name], size) for name, size in sizes.items()}
    frame = _frame(picture, placed, boxes, labels)
    x = MARGIN - min(frame.x, *(box.x for box in boxes.values()))
    y = TOP + MARGIN - frame.y
    boxes = {name: box.moved(x, y) for name, box in boxes.items()}
    lines = [[(a + x, b + y) for a, b in line] for line in placed.lines]
    frame = frame.moved(x, y)
    if picture.supervisor:
        size = box_size(picture.supervisor)
        middle = frame.right + BESIDE + size[0] / 2, frame.middle[1]
        boxes[picture.supervisor.name] = _around(middle, size)
    return Drawing(
        _size(picture, frame, boxes),
        frame,
        boxes,
        _attached(picture, lines, boxes),
        [label and label.moved(x, y) for label in labels],
        _straight(picture, frame, boxes),
    )


def _link(arrow: Arrow) -> Link:
    if not arrow.label:
        return Link(arrow.source, arrow.target)
    return Link(arrow.source, arrow.target, width(arrow.label, SMALL) + 12, LINE)


def _around(point: Point, size: Point) -> Rectangle:
    return Rectangle(point[0] - size[0] / 2, point[1] - size[1] / 2, *size)


def _frame(
    picture: Picture,
    placed: Layout,
    boxes: Mapping[str, Rectangle],
    labels: Sequence[Rectangle | None],
) -> Rectangle:
    """Return the frame around the roles and the arrows between them, as high as the supervisor."""
    names = [box.name for box in picture.roles]
    inside = [boxes[name] for name in names]
    for arrow, line, label in zip(picture.arrows, placed.lines, labels, strict=True):
        if arrow.target in names:
            inside += [Rectangle(x, y, 0, 0) for x, y in line]
            inside += [label] if label else []
    texts = width(picture.frame.title, TEXT * BOLD), width(subtitle(picture), TEXT)
    left, right = min(part.x for part in inside), max(part.right for part in inside)
    missing = max(0.0, *(text - (right - left) for text in texts)) / 2 + FRAME
    bottom = max(part.bottom for part in inside) + FRAME
    beside = box_size(picture.supervisor)[1] if picture.supervisor else 0.0
    # A frame that is too low grows at its top, where nothing is above it.
    height = max(bottom + HEAD, beside)
    return Rectangle(left - missing, bottom - height, right - left + 2 * missing, height)


def _attached(
    picture: Picture, lines: Sequence[list[Point]], boxes: Mapping[str, Rectangle]
) -> list[list[Point]]:
    """Return the lines from side to side of their boxes, side by side where several end."""
    tops = {box.name: boxes[box.name].y + (BADGE if box.badge else 0) for box in picture.boxes}
    sides: dict[tuple[str, bool], list[tuple[float, int, bool]]] = {}
    for number, (arrow, line) in enumerate(zip(picture.arrows, lines, strict=True)):
        down = line[0][1] < line[-1][1]
        sides.setdefault((arrow.source, down), []).append((line[1][0], number, True))
        sides.setdefault((arrow.target, not down), []).append((line[-2][0], number, False))
    attached = [list(line) for line in lines]
    for (name, lower), arrows in sides.items():
        box, side = boxes[name], boxes[name].bottom if lower else tops[name]
        xs = ends([x for x, _, _ in sorted(arrows)], box.x, box.right)
        for x, (_, number, is_source) in zip(xs, sorted(arrows), strict=True):
            line = attached[number]
            if is_source:
                attached[number] = [(x, side), (x, line[0][1]), *line[1:]]
            else:  # the layer may be higher than the box
                tip = line[-1][1] + (TIP if lower else -TIP)
                attached[number] = [*line[:-1], (x, tip), (x, side)]
    return attached


def _straight(picture: Picture, frame: Rectangle, boxes: Mapping[str, Rectangle]) -> list[Straight]:
    """Return the arrows from the supervisor to the frame, and from it to what all roles use."""
    arrows = []
    if picture.supervisor:
        y = frame.middle[1]
        arrows.append(Straight((boxes[picture.supervisor.name].x, y), (frame.right, y), "acts"))
    for name in picture.shared:
        x, _ = boxes[name].middle
        start = min(max(x, frame.x + FRAME), frame.right - FRAME)
        arrows.append(Straight((start, frame.bottom), (x, boxes[name].y), "uses"))
    return arrows


def _size(picture: Picture, frame: Rectangle, boxes: Mapping[str, Rectangle]) -> Point:
    rectangles = [frame, *boxes.values()]
    heading = 2 * MARGIN + width(picture.title, HEADING * BOLD)
    right = max(part.right for part in rectangles) + MARGIN
    return max(heading, right), max(part.bottom for part in rectangles) + MARGIN
