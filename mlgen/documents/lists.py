"""Splits a List in kubectl's format into its items.

The List is split as a text, without reading it as a whole. An item that is not valid YAML is then a
problem of its own, as in a file with several documents, and all limits apply to each item.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import replace

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_document

ITEMS = "\nitems:\n"
"""The field `items`, before its first item."""

END = re.compile(r"^(?![-\s#])", re.MULTILINE)
"""The start of the field after the items."""

DASH = re.compile(r"^-", re.MULTILINE)

ALIAS = re.compile(r"[\[{,:-]\s*\*[\w-]")
"""A possible alias, such as `- *a`, of a value in another item."""

TYPE = r"^  %s: [\"']?([^\s\"']+)[\"']?$"
VERSION, KIND = (re.compile(TYPE % name, re.MULTILINE) for name in ("apiVersion", "kind"))


def list_items(text: Text, kinds: Container[tuple[str, str]]) -> Iterator[Text] | None:
    """Return the items of a List in kubectl's format; None for any other text.

    Args:
        text: one document.
        kinds: apiVersions and kinds. The List must contain at least one such object.
    """
    field = text.text.find(ITEMS)
    start = field + len(ITEMS)
    if field < 0 or not text.text.startswith("- ", start):
        return None
    if "\r" in text.text or ALIAS.search(text.text):
        return None
    end = END.search(text.text, start)
    stop = end.start() if end else len(text.text)
    others = read_document(text.name, text.line, text.text[: field + 1] + text.text[stop:])
    if not isinstance(others, Document) or others.problems or not _is_list(others.data):
        return None
    if not any(_type(item) in kinds for item in _items(text, start, stop)):
        return None
    return _items(text, start, stop)


def _is_list(data: object) -> bool:
    """Return True for the fields of a List other than its items."""
    if not isinstance(data, dict) or data.keys() - {"apiVersion", "kind", "metadata"}:
        return False
    return (data.get("apiVersion"), data.get("kind")) == ("v1", "List")


def _items(text: Text, start: int, stop: int) -> Iterator[Text]:
    """Yield the items between two positions, with their original lines and columns."""
    line = text.line + text.text.count("\n", 0, start)
    while start < stop:
        following = DASH.search(text.text, start + 1, stop)
        end = following.start() if following else stop
        item = f" {text.text[start + 1 : end]}"
        yield replace(text, text=item, line=line, item=True)
        line += item.count("\n")
        start = end


def _type(item: Text) -> tuple[str, str]:
    """Return the apiVersion and the kind of an item, "" for those not in kubectl's format."""
    version, kind = VERSION.search(item.text), KIND.search(item.text)
    return (version[1] if version else "", kind[1] if kind else "")
