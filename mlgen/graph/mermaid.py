"""A picture → a Mermaid flowchart, which GitHub, GitLab and many wikis draw.

https://mermaid.js.org/syntax/flowchart.html
"""

from collections.abc import Iterator

from mlgen.graph.model import Arrow, Box, Picture
from mlgen.output.terminal import safe

LINES = {"waits": "-->", "starts": "==>", "uses": "-.->"}
"""Arrows: what depends on what."""

BRACKETS = {"supervisor": ("(", ")"), "storage": ("[(", ")]")}
"""Around the text of a box, by its shape."""

SQUARE = ("[", "]")

ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "%": "#37;", "`": "#96;"}
)
"""What Mermaid reads as its own, also in quotes: entities, tags, `%%{directives}%%`, Markdown."""

CLASSES = {
    "Job": "fill:#e8f0fe,stroke:#3367d6,color:#102a56",
    "StatefulSet": "fill:#e3f4ef,stroke:#0f7b66,color:#0b3b32",
    "supervisor": "fill:#f3ebfb,stroke:#7b43b5,stroke-dasharray:6 4,color:#3b1d5c",
    "service": "fill:#f7f8fa,stroke:#8a94a6,color:#2b3442",
    "storage": "fill:#fdf3e1,stroke:#b7791f,color:#4d3208",
}


def mermaid(picture: Picture) -> str:
    """Return the flowchart of a picture."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    frame = picture.frame
    yield "flowchart TB"
    yield f"  accTitle: {safe(picture.title)}"
    yield f'  subgraph {frame.name}["{_text(frame, ", ")}"]'
    yield "    direction TB"
    for box in picture.roles:
        yield f"    {_box(box)}"
    yield "  end"
    for box in picture.others:
        yield f"  {_box(box)}"
    for arrow in picture.arrows:
        yield f"  {_arrow(arrow)}"
    for name in picture.shared:
        yield f"  {frame.name} -.-> {name}"
    if picture.supervisor:
        yield f"  {_box(picture.supervisor)}"
        yield f"  {picture.supervisor.name} -.-> {frame.name}"
    yield f"  style {frame.name} fill:none,stroke:#8a94a6"
    for shape in dict.fromkeys(box.shape for box in picture.boxes):
        names = ",".join(box.name for box in picture.boxes if box.shape == shape)
        yield f"  classDef {shape} {CLASSES[shape]}"
        yield f"  class {names} {shape}"
    deciding = ",".join(box.name for box in picture.boxes if box.decides)
    yield "  classDef decides stroke-width:3px"
    yield f"  class {deciding} decides"


def _box(box: Box) -> str:
    text = _text(box, "<br/>")
    before, after = BRACKETS.get(box.shape, SQUARE)
    return f'{box.name}{before}"{text}"{after}'


def _text(box: Box, between: str) -> str:
    return between.join(map(_escaped, box.texts))


def _arrow(arrow: Arrow) -> str:
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    return f"{arrow.source} {LINES[arrow.kind]}{label} {arrow.target}"


def _escaped(text: str) -> str:
    """Return a text with the characters that Mermaid reads as its own written as entities."""
    return safe(text).translate(ENTITIES)
