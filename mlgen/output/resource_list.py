"""A ResourceList and replacements for its items → the text of the new list.

Items that are not replaced keep the spelling of their values, because YAML readers differ:
`defaultMode: 0644` is 420 to Kubernetes, and 644 in YAML 1.2. They keep their whole text if the
list has the style of kustomize and kpt, or is JSON. Any other list is written again.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Any

from mlgen.documents.resource_list import ITEM, ITEMS, RESULTS, Lines, ResourceList, walk
from mlgen.kubernetes.objects import Object
from mlgen.output.files import MEMORY
from mlgen.output.yaml import START, yaml_text

Replacements = Mapping[int, Sequence[Object]]

NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that are valid in a JSON string, but invalid or a line break in YAML."""

WIDTH = 1 << 30
"""A line width that prevents line folding."""

CHUNK = 1 << 20
"""The number of characters that are read at a time."""


def resource_list_texts(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> Iterator[str]:
    """Yield the text of the list with some of its items replaced, in parts.

    The field `results` of an earlier function is dropped.

    Args:
        source: the list as read.
        replacements: the objects that replace an item, by its index. The index after the last item
            appends objects.
        results: the content of the field `results`; the field is omitted if it is empty.
    """
    had_results = any(field.owner == RESULTS for field in source.fields)
    if not (replacements or results or had_results):
        yield source.text
    elif lines := source.lines:
        yield from _edited(source.text, lines, replacements, results)
    elif source.flow:
        yield from _flow(source, replacements, results)
    else:
        yield from _rewritten(source, replacements, results)


def _edited(
    text: str, lines: Lines, replacements: Replacements, results: Sequence[Object]
) -> Iterator[str]:
    """Yield the parts of a list in which whole lines are replaced."""
    remains = len(replacements.keys() & range(len(lines.items) - 1)) < len(lines.items) - 1
    last = max(replacements, default=0)

    def items(number: int) -> Iterator[str]:
        nonlocal remains
        for item in replacements[number]:  # read when they are written
            yield _block([item], lines.item_column)
            remains = True
        if number == last and not remains:
            yield " " * (lines.column + 2) + "[]\n"

    edits: list[tuple[int, int, Iterable[str]]] = [(*span, ()) for span in lines.results]
    starts = (*lines.items, lines.items[-1])
    edits += [(starts[number], starts[number + 1], items(number)) for number in replacements]
    if results:
        edits.append((lines.end, lines.end, [_block({RESULTS: list(results)}, lines.column)]))
    done = 0
    for start, end, texts in sorted(edits, key=lambda edit: edit[:2]):
        yield text[done:start]
        yield from texts
        done = end
    yield text[done:]


def _block(value: Any, column: int) -> str:
    """Return a value in block style, indented to a column."""
    text = yaml_text([value]).removeprefix(START)
    return re.sub(r"^(?=.)", " " * column, text, flags=re.MULTILINE)


def _flow(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> Iterator[str]:
    """Yield a list in flow style. New values are JSON, and other values keep their text."""
    start = "{"
    for field in source.fields:
        if field.owner == RESULTS:
            continue
        yield start + source.text[field.before : field.start]
        if field.owner == ITEMS:
            yield from _flow_items(source, replacements)
        else:
            yield source.text[field.start : field.end]
        start = ", "
    if results:
        yield f'{start}"{RESULTS}": {_json_text(list(results))}'
    yield "}\n"


def _flow_items(source: ResourceList, replacements: Replacements) -> Iterator[str]:
    """Yield the items of a list in flow style."""
    start = "["
    for number, item in enumerate([*source.items, None]):
        if number in replacements:
            texts = [*map(_json_text, replacements[number])]
        else:
            texts = [source.text[item.start : item.end]] if item else []
        for text in texts:
            yield start + text
            start = ", "
    yield "]" if start != "[" else "[]"


def _json_text(value: Any) -> str:
    """Return a value as JSON that is also YAML."""
    text = json.dumps(value, ensure_ascii=False)
    return NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _rewritten(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> Iterator[str]:
    """Yield a list that is written again, value by value, without its comments."""
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    events = [yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False)]
    ends = [yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent()]
    written = chain(events, map(_as_block, _events(source, replacements, results)), ends)
    with SpooledTemporaryFile(MEMORY, "w+", encoding="utf-8", newline="") as file:
        yaml.emit(written, file, Dumper=dumper, width=WIDTH, allow_unicode=True)
        file.seek(0)
        yield from iter(partial(file.read, CHUNK), "")


def _events(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> Iterator[Any]:
    """Yield the events of the new list."""
    for node in walk(source.text):
        path = node.path
        if path[:1] == (RESULTS,):
            continue
        if path[:1] == (ITEMS,) and path[1:] and path[1] in replacements:
            if len(path) == node.depth == ITEM and not node.end:
                yield from _events_of(replacements[int(path[1])])
            continue
        if node.end and path == (ITEMS,):
            yield from _events_of(replacements.get(len(source.items), ()))
        if node.end and node.depth == 0 and results:
            yield from _events_of([RESULTS, list(results)])
        yield node.last


def _events_of(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the YAML events of values in sequence."""
    return (node.last for value in values for node in walk(yaml_text([value])))


def _as_block(event: Any) -> Any:
    """Return an event in a style that can write every value unchanged.

    In flow style, a value such as `1:30` would need quotes, which make it a string.
    """
    if hasattr(event, "flow_style"):
        event.flow_style = False
    if not hasattr(event, "style"):
        return event
    if event.style in (None, ""):
        # A value that needs quotes in any style is a string.
        event.implicit = (event.implicit[0], event.implicit[0] or event.implicit[1])
        event.value = event.value or ("" if event.tag else "null")
    elif event.style != "|" or event.value[:1] in ("", " ", "\n"):
        event.style = '"'
    return event
