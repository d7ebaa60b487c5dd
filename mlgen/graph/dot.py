"""A picture → a graph in Graphviz's language, or an SVG that Graphviz's program `dot` draws.

https://graphviz.org/doc/info/lang.html
"""

import json
import subprocess

from mlgen.graph.model import Picture
from mlgen.output.terminal import safe, template_text

LONGEST = 200_000
"""The maximum length of a graph in characters, about a thousand boxes. The time of `dot` grows with
the square of the length."""

SECONDS = 30.0
"""The time limit for `dot`, in seconds."""

INSTALL = "install Graphviz: apt-get install graphviz, or brew install graphviz"

ELSE = "use --format mermaid or dot"


class GraphvizError(Exception):
    """Graphviz cannot draw a picture; the message contains the reason and the fix."""


def dot(picture: Picture) -> str:
    """Return the graph of a picture."""
    return template_text("graph/dot.txt", picture=picture, quoted=_quoted)


def svg(picture: Picture) -> str:
    """Return a picture as SVG, drawn by the installed version of Graphviz.

    Raises:
        GraphvizError: `dot` is not installed, fails, or takes too long.
    """
    graph = dot(picture)
    if len(graph) > LONGEST:
        raise GraphvizError(f"the graph is too large to draw; {ELSE}")
    try:
        process = subprocess.run(
            ["dot", "-Tsvg"],  # noqa: S607 - dot from the user's PATH
            input=graph.encode(),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except OSError as error:
        raise GraphvizError(f"dot cannot be run: {error.strerror}; {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise GraphvizError(f"dot did not finish within {SECONDS:.0f} seconds; {ELSE}") from None
    if process.returncode:
        reason = safe(process.stderr.decode(errors="replace").strip())
        raise GraphvizError(f"dot failed: {reason or f'status {process.returncode}'}; {ELSE}")
    return process.stdout.decode()


def _quoted(*lines: str) -> str:
    r"""Return lines as a quoted string of Graphviz.

    Its escapes for `"`, `\` and line breaks are the same as in JSON. Graphviz expands HTML
    entities in it, but never reads a quoted string as an HTML-like label.
    """
    text = "\n".join(map(safe, lines)).replace("&", "&amp;")
    return json.dumps(text, ensure_ascii=False)
