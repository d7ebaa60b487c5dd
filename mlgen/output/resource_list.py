"""A ResourceList and replacements for its items → the text of the new list.

Items that are not replaced keep their text, because YAML readers differ: `defaultMode: 0644` is 420
to Kubernetes, and 644 in YAML 1.2.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mlgen.documents.resource_list import ResourceList
from mlgen.output.yaml import yaml_text

Object = dict[str, Any]


def resource_list_text(
    source: ResourceList,
    replacements: Mapping[int, Sequence[Object]],
    results: Sequence[Object],
) -> str:
    """Return the text of the list with some of its items replaced.

    Args:
        source: the list as read.
        replacements: the objects that replace an item, by its index; the index after the last item
            appends objects.
        results: the content of the field `results`; the field is omitted if there are none.
    """
    edits: list[tuple[int, int, str]] = []
    for number, objects in replacements.items():
        entries = _entries(objects, source.item_column)
        if number < len(source.items):
            item = source.items[number]
            edits.append((item.start, item.end, entries))
        else:
            comma = ", " if source.items and source.item_column is None else ""
            edits.append((source.append_at, source.append_at, comma + entries))
    if results:
        edits.append((source.results_at, source.results_at, _results(results, source.column)))
    text, done = "", 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        text += source.text[done:start] + new
        done = end
    return text + source.text[done:]


def _entries(objects: Sequence[Object], column: int | None) -> str:
    """Return objects as the text of items: in flow style if the list has no column."""
    if column is None:
        return ", ".join(json.dumps(item, ensure_ascii=False) for item in objects)
    return _block(list(objects), column)


def _results(results: Sequence[Object], column: int | None) -> str:
    """Return the field `results`: in flow style if the fields have no column."""
    if column is None:
        return f', "results": {json.dumps(results, ensure_ascii=False)}'
    return _block({"results": list(results)}, column)


def _block(value: Any, column: int) -> str:
    """Return a value in block style, indented to a column."""
    text = yaml_text([value]).removeprefix("---\n")
    return re.sub(r"^(?=.)", " " * column, text, flags=re.MULTILINE)
