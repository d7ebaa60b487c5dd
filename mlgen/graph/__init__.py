"""A rendered job → a picture: roles, their waits, addresses, the supervisor, storage."""

from collections.abc import Iterable
from typing import Literal

from mlgen.graph import dot, model
from mlgen.output.terminal import safe, template_text
from mlgen.result import Rendered

Format = Literal["mermaid", "dot", "svg"]

SUFFIXES: dict[str, Format] = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}
"""The suffixes of file names → the format of such a file."""

ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "%": "#37;", "`": "#96;"}
)
"""Characters that Mermaid interprets, even in quotes → entities.

They start entities, tags, `%%{directives}%%` and Markdown:
https://mermaid.js.org/syntax/flowchart.html
"""


def drawing(rendered: Rendered, form: Format) -> str:
    """Return the picture of a job as text in a format.

    Raises:
        GraphvizError: the format needs Graphviz, which is not installed or fails.
    """
    picture = model.picture(rendered)
    if form == "mermaid":
        title = safe(picture.title)
        return template_text("graph/mermaid.txt", picture=picture, title=title, text=_mermaid_text)
    return dot.dot(picture) if form == "dot" else dot.svg(picture)


def _mermaid_text(lines: Iterable[str], between: str = "") -> str:
    """Return lines of a box, with entities for the characters that Mermaid interprets."""
    return between.join(safe(line).translate(ENTITIES) for line in lines)
