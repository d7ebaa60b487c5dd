"""Boxes and arrows → their places: layers from top to bottom, as Sugiyama, Tagawa and Toda do.

igraph orders the boxes of each layer so that few arrows cross. A label is a box of its own, in a
layer between those of the arrow's ends, so labels and boxes never overlap; and an arrow that passes
a layer has a place in it, so it does not run through a box. Widths are ours to respect: boxes are
moved as near to their neighbours as those in the same layer allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]

GAP_X, GAP_Y = 36.0, 26.0
"""Between the boxes of a layer, and between layers."""

PASSAGE = 10.0
"""The width of an arrow that passes a layer."""

MARGIN = 22.0
"""Between the end of an arrow and the corner of its box."""

APART = 26.0
"""Between arrows that end at the same side of a box."""

ROW = 4
"""Boxes without arrows stand in rows of this length."""

SWEEPS = 32


@dataclass(frozen=True)
class Link:
    """An arrow to place, with the size of its label; 0, 0 for none."""

    source: str
    target: str
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True)
class Layout:
    """Where everything is.

    Attributes:
        boxes: the centre of each box, by name.
        lines: for each link, the points through which it passes, from its source to its target. It
            begins and ends where it leaves the layer of a box, and passes other layers upright.
        labels: for each link, the centre of its label; None if it has none.
    """

    boxes: dict[str, Point]
    lines: list[list[Point]]
    labels: list[Point | None]


@dataclass(slots=True)
class _Net:
    """The layered graph: boxes, labels and passages, with links between adjacent layers only."""

    widths: list[float] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    boxes: int = 0
    """The number of boxes, which come before labels and passages."""

    def add(self, layer: int, width: float, height: float) -> int:
        self.widths.append(width)
        self.heights.append(height)
        self.layers.append(layer)
        return len(self.layers) - 1


def layout(
    sizes: Mapping[str, tuple[float, float]],
    links: Sequence[Link],
    last: Sequence[str] = (),
    gap: float = 0.0,
) -> Layout:
    """Return where boxes, arrows and labels are; the topmost layer starts at 0.

    Args:
        sizes: width and height of each box, by name.
        links: from a box to another one.
        last: the boxes of the lowest layers.
        gap: the additional distance of these from those above.

    Raises:
        ModuleNotFoundError: igraph is not installed.
    """
    forward = _without_cycles(list(sizes), links)
    layers = _layers(list(sizes), links, forward, last)
    net = _Net()
    boxes = {name: net.add(layers[name] * 2, *size) for name, size in sizes.items()}
    net.boxes = len(boxes)
    chains = [
        _chain(net, boxes[link.source], boxes[link.target], link, down=down)
        for link, down in zip(links, forward, strict=True)
    ]
    xs = _columns(net)
    bands = _bands(net, min((layers[name] * 2 for name in last), default=-1), gap)
    ys = [sum(bands[layer]) / 2 for layer in net.layers]
    lines = []
    for (chain, _), is_down in zip(chains, forward, strict=True):
        points = [(xs[node], y) for node in chain for y in bands[net.layers[node]]][1:-1]
        lines.append(points if is_down else points[::-1])
    return Layout(
        {name: (xs[node], ys[node]) for name, node in boxes.items()},
        lines,
        [None if label is None else (xs[label], ys[label]) for _, label in chains],
    )


def _without_cycles(names: Sequence[str], links: Sequence[Link]) -> list[bool]:
    """Return which links point down; the others close a cycle, and point up."""
    down = [True] * len(links)
    state: dict[str, int] = {}

    def visit(name: str) -> None:
        state[name] = 1
        for number, link in enumerate(links):
            if link.source == name:
                if state.get(link.target) == 1:
                    down[number] = False
                elif link.target not in state:
                    visit(link.target)
        state[name] = 2

    for name in names:
        if name not in state:
            visit(name)
    return down


def _layers(
    names: Sequence[str], links: Sequence[Link], down: Sequence[bool], last: Sequence[str]
) -> dict[str, int]:
    """Return the layer of each box: one below the lowest of those that point to it."""
    layers = dict.fromkeys(names, 0)
    pairs = [
        (link.source, link.target) if is_down else (link.target, link.source)
        for link, is_down in zip(links, down, strict=True)
    ]
    for _ in names:
        for upper, lower in pairs:
            layers[lower] = max(layers[lower], layers[upper] + 1)
    linked = {name for pair in pairs for name in pair if not set(pair) & {*last}}
    alone = [name for name in names if name not in linked and name not in last]
    # Boxes without arrows stand below the others, if there are others.
    first = 1 + max((layers[name] for name in linked), default=-1)
    for number, name in enumerate(alone):
        layers[name] = first + number // ROW
    lowest = 1 + max((layers[name] for name in names if name not in last), default=0)
    return layers | {
        name: lowest + number // ROW for number, name in enumerate(n for n in names if n in last)
    }


def _chain(
    net: _Net, source: int, target: int, link: Link, *, down: bool
) -> tuple[list[int], int | None]:
    """Add the label and the passages of a link, and return all nodes on it, and its label."""
    start, end = (source, target) if down else (target, source)
    chain, label = [start], None
    for layer in range(net.layers[start] + 1, net.layers[end]):
        is_label = label is None and link.width > 0 and layer % 2 == 1
        size = (link.width, link.height) if is_label else (PASSAGE, 0.0)
        node = net.add(layer, *size)
        label = node if is_label else label
        chain.append(node)
    chain.append(end)
    net.edges += list(pairwise(chain))
    return chain, label


def _columns(net: _Net) -> list[float]:
    """Return the x of each node: in igraph's order, near its neighbours, without overlaps."""
    rows = _order(net)
    above, below = _neighbours(net)
    xs = [0.0] * len(net.layers)
    for row in rows:
        for node, x in zip(row, _packed(net, row, [0.0] * len(row)), strict=True):
            xs[node] = x
    for sweep in range(SWEEPS):
        linked = [xs[node] for edge in net.edges for node in edge] or [0.0]
        middle = (min(linked) + max(linked)) / 2
        last = sweep >= SWEEPS // 2
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            sides = above if sweep % 2 == 0 else below
            wanted = []
            for node in row:
                near = [_nearest(net, xs, node, n) for n in sides[node]]
                if last:
                    near = [_nearest(net, xs, node, n) for n in (*above[node], *below[node])]
                wanted.append(sum(near) / len(near) if near else middle)
            if any(not above[node] and not below[node] for node in row):
                # igraph puts boxes without arrows to the right; they belong in the middle.
                pairs = sorted(zip(wanted, row, strict=True), key=lambda pair: pair[0])
                wanted, row[:] = [x for x, _ in pairs], [node for _, node in pairs]
            for node, x in zip(row, _packed(net, row, wanted), strict=True):
                xs[node] = x
    left = min(x - width / 2 for x, width in zip(xs, net.widths, strict=True))
    return [round(x - left, 1) for x in xs]


def _nearest(net: _Net, xs: Sequence[float], node: int, other: int) -> float:
    """Return where a node would have to be for a straight line to another one.

    An arrow can end anywhere at the side of a box, but passes a label in its middle.
    """
    if other >= net.boxes or node < net.boxes:
        return xs[other]
    reach = max(net.widths[other] / 2 - MARGIN, 0.0)
    return min(max(xs[node], xs[other] - reach), xs[other] + reach)


def _order(net: _Net) -> list[list[int]]:
    """Return the nodes of each layer from left to right."""
    import igraph

    graph = igraph.Graph(n=len(net.layers), edges=net.edges, directed=True)
    found = graph.layout_sugiyama(layers=net.layers, hgap=1, vgap=1, maxiter=100)
    rows: list[list[int]] = [[] for _ in range(max(net.layers) + 1)]
    for node in sorted(range(len(net.layers)), key=lambda n: (round(found[n][0], 3), n)):
        rows[net.layers[node]].append(node)
    return [row for row in rows if row]


def _neighbours(net: _Net) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in net.layers]
    below: list[list[int]] = [[] for _ in net.layers]
    for upper, lower in net.edges:
        above[lower].append(upper)
        below[upper].append(lower)
    return above, below


def _packed(net: _Net, row: Sequence[int], wanted: Sequence[float]) -> list[float]:
    """Return places in a row that are as near as possible to those wanted, without overlaps."""
    distances = [(net.widths[a] + net.widths[b]) / 2 + GAP_X for a, b in pairwise(row)]
    return packed(wanted, distances)


def packed(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return numbers that are as near as possible to those wanted, in the same order.

    It is the least squares of the differences, by pooling adjacent violators: numbers that would be
    too near to each other move together.

    Args:
        wanted: the numbers.
        distances: the least distance of each from the next.
    """
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    blocks: list[tuple[float, int]] = []
    for x, offset in zip(wanted, offsets, strict=True):
        total, count = x - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before, number = blocks.pop()
            total, count = total + before, count + number
        blocks.append((total, count))
    means = [total / count for total, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def ends(wanted: Sequence[float], left: float, right: float) -> list[float]:
    """Return where arrows end at a side of a box, from left to right.

    Args:
        wanted: where they would be straight, in ascending order.
        left: the left corner of the box.
        right: the right corner.
    """
    near = [min(max(x, left + MARGIN), right - MARGIN) for x in wanted]
    apart = min(APART, (right - left - 2 * MARGIN) / max(len(wanted) - 1, 1))
    found = packed(near, [apart] * (len(wanted) - 1))
    over = max(0.0, found[-1] - (right - MARGIN)) - max(0.0, left + MARGIN - found[0])
    return [round(x - over, 1) for x in found]


def _bands(net: _Net, last: int, gap: float) -> list[tuple[float, float]]:
    """Return the top and the bottom of each layer.

    Args:
        net: the layered graph.
        last: the first of the lowest layers.
        gap: the additional distance of these from those above.
    """
    heights = [0.0] * (max(net.layers) + 1)
    for layer, height in zip(net.layers, net.heights, strict=True):
        heights[layer] = max(heights[layer], height)
    bands, top = [], 0.0
    for layer, height in enumerate(heights):
        top += gap if layer == last else 0.0
        bands.append((top, top + height))
        # A layer of labels that has none keeps only one gap between the boxes around it.
        top += height + (GAP_Y if height or layer % 2 == 0 else 0.0)
    return bands
