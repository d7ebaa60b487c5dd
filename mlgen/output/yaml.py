"""Objects → YAML, with the same bytes on every run.

mlgen uses two YAML libraries. ruamel.yaml reads job files, because it supports YAML 1.2 and reports
positions. PyYAML writes manifests, because it is fast and lets us choose how a string is quoted.
Kubernetes reads with sigs.k8s.io/yaml, which takes more words for numbers and booleans than PyYAML
expects (`1e-5`, `08`, `y`). So a string is unquoted only if every reader takes it for a string.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

BEYOND = re.compile(r"[\U00010000-\U0010ffff]")
PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?::[A-Za-z0-9_./-]+)*\Z")
RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


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

    def string(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style(text))

    def sequence(dumper: Any, items: list[Any]) -> Any:
        # Keeps 127 exit codes on one line.
        numbers = bool(items) and all(type(item) is int for item in items)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)

    Dumper.add_representer(str, string)
    Dumper.add_representer(list, sequence)
    return Dumper
