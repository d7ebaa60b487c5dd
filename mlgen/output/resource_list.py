"""A ResourceList and replacements for its items → the text of the new list.

Items that are not replaced keep the spelling of their values, because YAML readers differ:
`defaultMode: 0644` is 420 to Kubernetes, and 644 in YAML 1.2. They keep their whole text if the
list has the style of kustomize and kpt, or is JSON. Any other list is written again.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from mlgen.documents.resource_list import ITEMS, RESULTS, Lines, ResourceList, walk
from mlgen.kubernetes.objects import Object
from mlgen.output.yaml import yaml_text

Replacements = Mapping[int, Sequence[Object]]

NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that are valid in a JSON string, but invalid or a line break in YAML."""

WIDTH = 1 << 30
"""A line width that prevents line folding."""


def resource_list_text(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> str:
    """Return the text of the list with some of its items replaced.

    The field `results` of an earlier function is dropped.

    Args:
        source: the list as read.
        replacements: the objects that replace an item, by its index. The index after the last item
            appends objects.
        results: the content of the field `results`; the field is omitted if it is empty.
    """
    had_results = any(field.owner == RESULTS for field in source.fields)
    if not (replacements or results or had_results):
        return source.text
    if source.lines:
        return "".join(_edited(source.text, source.lines, replacements, results))
    if source.flow:
        return _flow(source, replacements, results)
    return _rewritten(source, replacements, results)


def _edited(
    text: str, lines: Lines, replacements: Replacements, results: Sequence[Object]
) -> Iterator[str]:
    """Yield the parts of a list in which whole lines are replaced."""
    edits = [(start, end, "") for start, end in lines.results]
    for number, objects in replacements.items():
        start, end = (*lines.items, lines.items[-1])[number : number + 2]
        edits.append((start, end, _block(list(objects), lines.item_column)))
    if results:
        edits.append((lines.end, lines.end, _block({RESULTS: list(results)}, lines.column)))
    done = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        yield text[done:start]
        yield new
        done = end
    yield text[done:]


def _block(value: Any, column: int) -> str:
    """Return a value in block style, indented to a column."""
    text = yaml_text([value]).removeprefix("---\n")
    return re.sub(r"^(?=.)", " " * column, text, flags=re.MULTILINE)


def _flow(source: ResourceList, replacements: Replacements, results: Sequence[Object]) -> str:
    """Return a list in flow style. New values are JSON, and other values keep their text."""
    items = [[source.text[item.start : item.end]] for item in source.items] + [[]]
    for number, objects in replacements.items():
        items[number] = list(map(_json_text, objects))
    fields = {
        source.text[field.before : field.start]: f"[{', '.join(chain(*items))}]"
        if field.owner == ITEMS
        else source.text[field.start : field.end]
        for field in source.fields
        if field.owner != RESULTS
    }
    if results:
        fields[f'"{RESULTS}": '] = _json_text(list(results))
    return f"{{{', '.join(key + value for key, value in fields.items())}}}\n"


def _json_text(value: Any) -> str:
    """Return a value as JSON that is also YAML."""
    text = json.dumps(value, ensure_ascii=False)
    return NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _rewritten(source: ResourceList, replacements: Replacements, results: Sequence[Object]) -> str:
    """Return a list that is written again, value by value, without its comments."""
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    events = [yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False)]
    ends = [yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent()]
    written = (*events, *map(_as_block, _events(source, replacements, results)), *ends)
    text: str = yaml.emit(written, Dumper=dumper, width=WIDTH, allow_unicode=True)
    return text


def _events(
    source: ResourceList, replacements: Replacements, results: Sequence[Object]
) -> Iterator[Any]:
    """Yield the events of the new list."""
    for step in walk(source.text, 2):
        path, is_end = step.path, step.role == "end"
        if path[:1] == (RESULTS,):
            continue
        if path[:1] == (ITEMS,) and path[1:] and path[1] in replacements:
            if step.depth == len(path) and not is_end:
                yield from _events_of(replacements[int(path[1])])
            continue
        if path == (ITEMS,) and is_end:
            yield from _events_of(replacements.get(len(source.items), ()))
        if step.depth == 0 and is_end and results:
            yield from _events_of([RESULTS, list(results)])
        yield step.event


def _events_of(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the YAML events of values in sequence."""
    return (step.event for value in values for step in walk(yaml_text([value]), 0))


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
