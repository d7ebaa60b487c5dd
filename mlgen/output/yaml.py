"""Objects → YAML, with the same bytes on every run.

mlgen uses two YAML libraries. ruamel.yaml reads job files, because it supports YAML 1.2 and reports
positions. PyYAML writes manifests, because it is fast and lets us choose how a string is quoted.
Kubernetes reads with sigs.k8s.io/yaml, which takes more words for numbers and booleans than PyYAML
expects (`1e-5`, `08`, `y`). So a string is unquoted only if every reader takes it for a string.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

BEYOND = re.compile(r"[\U00010000-\U0010ffff]")
PLAIN = re.compile(
    r"(?:"
    r"(?:-?-?[A-Za-z_]|/|\$\()[A-Za-z0-9_./$()=-]*(?::[A-Za-z0-9_./$()=-]+)*"
    r"|[0-9]+(?:\.[0-9]+)?(?:m|k|[KMGTP]i?)"  # amounts: 50m, 64Mi
    r")\Z"
)
RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])

LINE, LEAVES = 88, 4
"""A list or mapping of at most `LINE` characters is written on one line, `{drop: [ALL]}`, unless it
is a list of mappings, or a mapping of more than `LEAVES` values."""

MODES = frozenset(["defaultMode", "mode"])
"""Fields with the permissions of files, which are written in octal, as Kubernetes reads them."""


def yaml_text(objects: Sequence[Any], comment: str = "") -> str:
    """Return objects as YAML documents, with a comment (without `#`) above the first one."""
    import yaml

    heading = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    documents = []
    for number, item in enumerate(objects):
        body = yaml.dump(item, Dumper=_dumper(), sort_keys=False, width=1 << 30, allow_unicode=True)
        documents.append(f"---\n{heading if number == 0 else ''}{body}")
    return "".join(documents)


def verbatim(text: str, data: Mapping[str, Any]) -> str:
    """Return a document as written, with `---` before and a newline after it.

    Args:
        text: its text; if "", as for an item of a List, it is written from its data.
        data: its content.
    """
    if not text:
        return yaml_text([data])
    document = text if text.startswith("---") else f"---\n{text}"
    return document if document.endswith("\n") else f"{document}\n"


def style(text: str) -> str | None:
    r"""Return the YAML style of a string: None for unquoted, `'`, `"`, or `|` for a block."""
    # libyaml always escapes characters beyond U+FFFF, PyYAML's own emitter only in double quotes.
    if not text.replace("\n", "").isprintable() or BEYOND.search(text):
        return '"'
    if "\n" in text:
        # With blank lines at either end, `|` needs indicators, and the two emitters differ.
        return '"' if text[0] in " \n" or text.endswith("\n\n") else "|"
    if PLAIN.match(text) and text.lower() not in RESERVED:
        return None
    return '"' if "'" in text and not set(text) & {'"', "\\"} else "'"


@cache
def _dumper() -> Any:
    """Return a PyYAML dumper that uses `style`; libyaml's, if installed, writes the same bytes."""
    import yaml

    parent: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(parent):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - no anchors in manifests
            return True

        def serialize(self, node: Any) -> None:
            if node.id != "scalar":
                node.flow_style = not node.value
            super().serialize(node)

    def string(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style(text))

    def sequence(dumper: Any, items: list[Any]) -> Any:
        node = dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False)
        size = _measure(node, node.value)
        flat = all(child.id == "scalar" for child in node.value)
        # Keeps 127 exit codes on one line.
        numbers = all(type(item) is int for item in items)
        node.flow_style = flat and (size.width <= LINE or numbers)
        return node

    def mapping(dumper: Any, data: dict[Any, Any]) -> Any:
        node = dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)
        size = _measure(node, [child for pair in node.value for child in pair])
        # A mapping of three lists is not a line, however short they are.
        flat = all(value.id == "scalar" or value.flow_style for _, value in node.value)
        node.flow_style = flat and size.width <= LINE and size.leaves <= LEAVES
        for key, value in node.value:
            if key.value in MODES and value.tag.endswith(":int"):
                value.value = f"0{int(value.value):o}"
        return node

    Dumper.add_representer(str, string)
    Dumper.add_representer(list, sequence)
    Dumper.add_representer(dict, mapping)
    return Dumper


class _Size(NamedTuple):
    """How much a YAML node takes if it is written on one line.

    Attributes:
        width: in characters.
        leaves: the number of scalars, without the keys of mappings.
    """

    width: int
    leaves: int


def _measure(node: Any, children: Sequence[Any]) -> _Size:
    """Return the size of a list or mapping, which is remembered for the one that contains it.

    Args:
        node: of PyYAML.
        children: its items, or its keys and values.
    """
    sizes = [getattr(child, "size", None) or _Size(_width(child), 1) for child in children]
    keys = 0 if node.id == "sequence" else len(node.value)
    size = _Size(sum(each.width + 2 for each in sizes), sum(each.leaves for each in sizes) - keys)
    node.size = size
    return size


def _width(scalar: Any) -> int:
    """Return the number of characters of a scalar; a text of several lines fits on none."""
    return LINE if scalar.style == "|" else len(scalar.value) + 2 * bool(scalar.style)
