"""A rendered job → a picture: roles, what they wait for, addresses, the supervisor, storage."""

from typing import Literal

from mlgen.result import Rendered

Format = Literal["mermaid", "dot", "svg", "html"]

SUFFIXES: dict[str, Format] = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
}
"""The endings of file names, with the format that is written to such a file."""


def drawing(rendered: Rendered, form: Format) -> str:
    """Return the picture of a job as text in a format.

    Raises:
        ModuleNotFoundError: the format needs igraph, which is not installed.
    """
    from mlgen.graph.model import picture

    match form:
        case "mermaid":
            from mlgen.graph.mermaid import mermaid

            return mermaid(picture(rendered))
        case "dot":
            from mlgen.graph.dot import dot

            return dot(picture(rendered))
        case "svg":
            from mlgen.graph.svg import svg

            return svg(picture(rendered))
        case "html":
            from mlgen.graph.html import html

            return html(picture(rendered))
