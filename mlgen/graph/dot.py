"""A picture → a graph in the language of Graphviz, and as SVG, which the program `dot` draws.

https://graphviz.org/doc/info/lang.html
"""

import json
import subprocess
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

FONT = 'fontname="Helvetica,Arial,sans-serif" fontcolor="#1f2937"'

LONGEST = 200_000
"""Characters of a graph that `dot` draws, which is about a thousand boxes. Its time grows with the
square."""

SECONDS = 30.0
"""For which `dot` may draw."""

INSTALL = "install Graphviz: apt-get install graphviz, or brew install graphviz"

ELSE = "use --format mermaid or dot"


class GraphvizError(Exception):
    """Graphviz cannot draw a picture: why, and what to do."""


def dot(picture: Picture) -> str:
    """Return the graph of a picture."""
    return "\n".join(_lines(picture)) + "\n"


def svg(picture: Picture) -> str:
    """Return a picture as SVG, as the installed version of Graphviz draws it.

    Raises:
        GraphvizError: `dot` is not installed, fails, or takes too long.
    """
    graph = dot(picture)
    if len(graph) > LONGEST:
        raise GraphvizError(f"the picture is too large to draw; {ELSE}")
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"],  # noqa: S607 - dot from the user's PATH
            input=graph.encode(),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except OSError as error:
        raise GraphvizError(f"dot cannot be run: {error.strerror}; {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise GraphvizError(f"dot has not drawn it in {SECONDS:.0f} seconds; {ELSE}") from None
    if done.returncode:
        reason = safe(done.stderr.decode(errors="replace").strip())
        raise GraphvizError(f"dot failed: {reason or f'status {done.returncode}'}; {ELSE}")
    return done.stdout.decode()


def _lines(picture: Picture) -> Iterator[str]:
    frame, inside = picture.frame, picture.roles[0].name
    yield f"digraph {_quoted(picture.title)} {{"
    yield f"  graph [compound=true bgcolor=white {FONT} fontsize=11]"
    yield f'  node [shape=box {FONT} fontsize=11 margin="0.2,0.1"]'
    yield f'  edge [{FONT} fontsize=10 color="#4b5563"]'
    yield f"  subgraph cluster_{frame.name} {{"
    yield f"    label={_quoted(', '.join(frame.texts))}"
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
    border = " penwidth=2.5" if box.decides else ""
    label = _quoted(*box.texts)
    return f"{box.name} [label={label} {STYLES[box.shape]}{border}]"


def _arrow(arrow: Arrow) -> str:
    label = f"label={_quoted(arrow.label)} " if arrow.label else ""
    return f"{arrow.source} -> {arrow.target} [{label}style={ARROWS[arrow.kind]}]"


def _quoted(*lines: str) -> str:
    r"""Return lines as a string of Graphviz.

    It has the escapes of JSON, for `"`, `\` and the end of a line, and reads entities as in HTML. A
    string in quotes never is a label like HTML, whatever is in it.
    """
    text = "\n".join(map(safe, lines)).replace("&", "&amp;")
    return json.dumps(text, ensure_ascii=False)
