"""A picture → a graph in the language of Graphviz.

https://graphviz.org/doc/info/lang.html
"""

import json
from collections.abc import Iterator

from mlgen.graph.model import Arrow, Box, Picture
from mlgen.output.terminal import safe

STYLES = {
    "Job": 'style="rounded,filled" fillcolor="#e8f0fe" color="#3367d6"',
    "StatefulSet": 'style="rounded,filled" fillcolor="#e3f4ef" color="#0f7b66"',
    "supervisor": 'style="rounded,filled,dashed" fillcolor="#f3ebfb" color="#7b43b5"',
    "service": 'style="rounded,filled" fillcolor="#f7f8fa" color="#8a94a6"',
    "storage": 'shape=cylinder style=filled fillcolor="#fdf3e1" color="#b7791f"',
}

ARROWS = {"waits": "solid", "starts": "bold", "uses": "dotted"}


def dot(picture: Picture) -> str:
    """Return the graph of a picture."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    frame, inside = picture.frame, picture.roles[0].name
    yield f"digraph {_quoted(picture.title)} {{"
    yield '  graph [compound=true fontname="Helvetica" fontsize=11]'
    yield '  node [shape=box fontname="Helvetica" fontsize=11 margin="0.2,0.1"]'
    yield '  edge [fontname="Helvetica" fontsize=10]'
    yield f"  subgraph cluster_{frame.name} {{"
    yield f"    label={_quoted(', '.join([frame.title, *frame.lines]))}"
    yield '    style="rounded,dashed" color="#8a94a6"'
    for box in picture.roles:
        yield f"    {_box(box)}"
    yield "  }"
    for box in picture.others:
        yield f"  {_box(box)}"
    for arrow in picture.arrows:
        yield f"  {_arrow(arrow)}"
    for name in picture.shared:
        yield f"  {inside} -> {name} [ltail=cluster_{frame.name} style=dotted]"
    if picture.supervisor:
        yield f"  {_box(picture.supervisor)}"
        target = f"{inside} [lhead=cluster_{frame.name} style=dashed]"
        yield f"  {picture.supervisor.name} -> {target}"
    yield "}"


def _box(box: Box) -> str:
    border = " penwidth=2.5" if box.badge else ""
    label = _quoted(*box.texts)
    return f"{box.name} [label={label} {STYLES[box.shape]}{border}]"


def _arrow(arrow: Arrow) -> str:
    label = f"label={_quoted(arrow.label)} " if arrow.label else ""
    return f"{arrow.source} -> {arrow.target} [{label}style={ARROWS[arrow.kind]}]"


def _quoted(*lines: str) -> str:
    """Return lines as a string of Graphviz, which has the escapes of JSON."""
    return json.dumps("\n".join(map(safe, lines)), ensure_ascii=False)
