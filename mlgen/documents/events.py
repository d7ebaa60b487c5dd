"""A YAML text → its events, each with the path of its value, one after the other.

For texts of which only some values matter, and whose others must keep their spelling: nothing is
kept, so memory does not depend on what is in the text.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import yaml

from mlgen.documents.reader import LOADER
from mlgen.problems import ValuePath


class Step(NamedTuple):
    """An event of PyYAML, and where it is.

    Attributes:
        role: of the event: a key, the start of a value, or the end of a list or mapping.
        event: of PyYAML.
        path: of the value, or of the value that belongs to the key, as far as it was asked for.
        depth: the number of lists and mappings around it.
    """

    role: Literal["key", "value", "end"]
    event: Any
    path: ValuePath
    depth: int


class _Collection:
    """A list or mapping whose end has not come yet: its path, and that of the current value."""

    def __init__(self, path: ValuePath, *, is_mapping: bool) -> None:
        self.path, self.current, self.is_mapping = path, path, is_mapping
        self.count = 0

    def enter(self, key: str, length: int) -> Literal["key", "value"]:
        """Go to the next key or value.

        Args:
            key: the text of the value if it is a key.
            length: the number of steps to which paths are cut.
        """
        is_key = self.is_mapping and self.count % 2 == 0
        if len(self.path) < length and (is_key or not self.is_mapping):
            self.current = (*self.path, key if is_key else self.count)
        self.count += 1
        return "key" if is_key else "value"


def walk(text: str, length: int) -> Iterator[Step]:
    """Yield the keys and values of all documents of a text, and the ends of lists and mappings.

    PyYAML's own composer rejects an anchor that two items use, and fails on deep nesting.

    Args:
        text: must not start with a byte order mark, which libyaml does not count.
        length: the number of steps to which paths are cut.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    around: list[_Collection] = []
    for event in yaml.parse(text, LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            yield Step("end", event, around.pop().path, len(around))
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        key = event.value if isinstance(event, yaml.ScalarEvent) else ""
        role = around[-1].enter(key, length) if around else "value"
        path = around[-1].current if around else ()
        yield Step(role, event, path, len(around))
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            around.append(_Collection(path, is_mapping=is_mapping))
