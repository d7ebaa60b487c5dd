"""A rendered job → a picture: roles, what they wait for, addresses, the supervisor, storage."""

from typing import Literal

from mlgen.graph import dot, mermaid, model
from mlgen.result import Rendered

Format = Literal["mermaid", "dot", "svg"]

SUFFIXES: dict[str, Format] = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}
"""The endings of file names, with the format that is written to such a file."""


def drawing(rendered: Rendered, form: Format) -> str:
    """Return the picture of a job as text in a format.

    Raises:
        GraphvizError: the format needs Graphviz, which is not installed, or fails.
    """
    picture = model.picture(rendered)
    if form == "mermaid":
        return mermaid.mermaid(picture)
    return dot.dot(picture) if form == "dot" else dot.svg(picture)
