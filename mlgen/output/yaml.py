"""Objects → YAML documents, with the same bytes on every run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlgen.documents.chunks import is_marked, without_marker
from mlgen.output.nodes import Writer
from mlgen.output.terminal import safe

MANY = 20
"""Among so many objects, some may repeat others."""


def yaml_text(objects: Sequence[Any], comment: str = "") -> str:
    """Return objects as YAML documents, with a comment (without `#`) above the first one.

    Args:
        objects: mappings with strings as keys, lists, strings, numbers, booleans and None.
        comment: lines of text.

    Raises:
        TypeError: a value is of another type.
    """
    heading = commented(comment)
    write = _repeats() if len(objects) > MANY else Writer().document
    documents: list[str] = []
    for number, item in enumerate(objects):
        documents += "---\n", heading if number == 0 else "", write(item), "\n"
    return "".join(documents)


def _repeats() -> Callable[[Any], str]:
    from mlgen.output.repeats import Repeats

    writer = Writer()
    return Repeats(writer.document, writer.inline).text


def commented(text: str) -> str:
    """Return the lines of a text as those of a comment."""
    lines = text.split("\n") if text else []
    return "".join(f"# {safe(line)}".rstrip() + "\n" for line in lines)


def verbatim(text: str, data: Mapping[str, Any]) -> str:
    """Return a document as written, with `---` before and a newline after it.

    Args:
        text: its text; if "", as for an item of a List, it is written from its data.
        data: its content.
    """
    if not text:
        return yaml_text([data])
    # A line such as `--- {…}` starts a document in YAML, but not for kubectl.
    document = text if is_marked(text) else f"---\n{without_marker(text)}"
    return document if document.endswith("\n") else f"{document}\n"
