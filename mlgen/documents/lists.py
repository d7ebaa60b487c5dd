"""The text of a List, as `kubectl get -o yaml` prints it → the texts of its items.

So the List can be larger than an object may be, its items can be rendered one after the other, and
a problem with one of them needs no other.
"""

import re
from collections.abc import Container, Iterator

from mlgen.documents.files import Text

ITEMS = "\nitems:\n"
HEAD = re.compile(r"(?:---\n|#.*\n|\n|apiVersion: v1\n|kind: List\n|metadata:\n(?: .*\n)*)*")
"""All of the List but its items."""

ENDS = re.compile(r"^(?![-\s#])", re.MULTILINE)
"""The start of the field after the items."""

DASH = re.compile(r"^-", re.MULTILINE)

ALIAS = re.compile(r"[\[{,:-]\s*\*[\w-]")
"""What may be an alias, such as `- *a`, for a value that is in another item."""

TYPE = r"^  %s: [\"']?([^\s\"']+)[\"']?$"
VERSION, KIND = (re.compile(TYPE % name, re.MULTILINE) for name in ("apiVersion", "kind"))


def items(text: Text, kinds: Container[tuple[str, str]]) -> Iterator[Text] | None:
    """Return the items of a List; None if the text is anything else, or written in another way.

    Args:
        text: one document.
        kinds: the apiVersions and kinds of which the List must have at least one object.
    """
    start = text.text.find(ITEMS) + len(ITEMS)
    if start < len(ITEMS) or "\r" in text.text or ALIAS.search(text.text):
        return None
    end = ENDS.search(text.text, start)
    stop = end.start() if end else len(text.text)
    rest = text.text[: start - len(ITEMS) + 1] + text.text[stop:]
    around = rest if rest.endswith("\n") else f"{rest}\n"
    fields = ("apiVersion: v1", "kind: List", "metadata:")
    is_list = [around.count(f"{line}\n") for line in fields] in ([1, 1, 0], [1, 1, 1])
    if not is_list or not HEAD.fullmatch(around) or not text.text.startswith("- ", start):
        return None
    if not any(_type(item) in kinds for item in _items(text, start, stop)):
        return None
    return _items(text, start, stop)


def _items(text: Text, start: int, stop: int) -> Iterator[Text]:
    """Yield the items that are between two positions; their lines and columns stay the same."""
    line = text.line + text.text.count("\n", 0, start)
    while start < stop:
        following = DASH.search(text.text, start + 1, stop)
        end = following.start() if following else stop
        item = f" {text.text[start + 1 : end]}"
        yield Text(text.name, item, line=line, item=True)
        line += item.count("\n")
        start = end


def _type(item: Text) -> tuple[str, str]:
    """Return the apiVersion and the kind of an item, as far as they are written as usual."""
    version, kind = VERSION.search(item.text), KIND.search(item.text)
    return (version[1] if version else "", kind[1] if kind else "")
