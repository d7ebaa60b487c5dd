"""The style of `mlgen.output.yaml` with PyYAML as the writer."""

import re
from typing import NamedTuple

import yaml

from mlgen.output.yaml import LEAVES, LINE, MODES, style

HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
"""Characters that hide or reorder text. libyaml does not escape them."""


def libyaml_text(objects):
    """Return objects as YAML documents, written by libyaml, with escapes for hidden characters."""
    text = "".join(
        "---\n" + yaml.dump(item, Dumper=Dumper, sort_keys=False, width=1 << 30, allow_unicode=True)
        for item in objects
    )
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04X}", text)


class Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data):  # noqa: ARG002 - no anchors in manifests
        return True

    def serialize(self, node):
        if node.id != "scalar":
            node.flow_style = not node.value
        super().serialize(node)


def string(dumper, text):
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style(text))


def sequence(dumper, items):
    node = dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False)
    size = measure(node, node.value)
    flat = all(child.id == "scalar" for child in node.value)
    numbers = all(type(item) is int for item in items)
    node.flow_style = flat and (size.width <= LINE or numbers)
    return node


def mapping(dumper, data):
    node = dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)
    size = measure(node, [child for pair in node.value for child in pair])
    flat = all(value.id == "scalar" or value.flow_style for _, value in node.value)
    node.flow_style = flat and size.width <= LINE and size.leaves <= LEAVES
    for key, value in node.value:
        if key.value in MODES and value.tag.endswith(":int") and int(value.value) >= 0:
            value.value = f"0{int(value.value):o}"
    return node


Dumper.add_representer(str, string)
Dumper.add_representer(list, sequence)
Dumper.add_representer(dict, mapping)


class Size(NamedTuple):
    """How much a node takes on one line: characters, and scalars that are not keys."""

    width: int
    leaves: int


def measure(node, children):
    """Return the size of a list or mapping, and record it for its parent."""
    sizes = [getattr(child, "size", None) or Size(width(child), 1) for child in children]
    keys = 0 if node.id == "sequence" else len(node.value)
    size = Size(sum(each.width + 2 for each in sizes), sum(each.leaves for each in sizes) - keys)
    node.size = size
    return size


def width(scalar):
    """Return the number of characters of a scalar. A text of several lines never fits on a line."""
    return LINE if scalar.style == "|" else len(scalar.value) + 2 * bool(scalar.style)
