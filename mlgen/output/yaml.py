"""Objects → text, the same bytes every time.

Two YAML libraries, on purpose: ruamel.yaml reads job files, as it knows YAML 1.2 and positions;
PyYAML writes manifests, as it is fast and lets us say how each string is quoted. Kubernetes reads
with sigs.k8s.io/yaml, which takes more words for numbers and booleans than PyYAML expects (`1e-5`,
`08`, `y`), so a string is left bare only if no reader could take it for anything else.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?::[A-Za-z0-9_./-]+)*\Z")
WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


def yaml_text(objects: Sequence[Any], comment: str = "") -> str:
    """Return objects as YAML documents, under a comment of one or more lines."""
    import yaml

    heading = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    parts = []
    for number, item in enumerate(objects):
        body = yaml.dump(item, Dumper=_dumper(), sort_keys=False, width=1 << 30, allow_unicode=True)
        parts.append(f"---\n{heading if number == 0 else ''}{body}")
    return "".join(parts)


def verbatim(text: str, data: Mapping[str, Any]) -> str:
    """Return a document as it was written, so that another one can stand before and after it.

    Args:
        text: of the document; "" for an item of a list, which is written anew.
        data: what it says.
    """
    if not text:
        return yaml_text([data])
    begun = text if text.startswith("---") else f"---\n{text}"
    return begun if begun.endswith("\n") else f"{begun}\n"


def style(text: str) -> str | None:
    r"""Return how a string is written: None for bare, `'`, `"`, or `|` for lines."""
    # libyaml escapes all beyond U+FFFF, PyYAML's own emitter only between these quotes.
    if not text.replace("\n", "").isprintable() or max(text, default="") > "\uffff":
        return '"'
    if "\n" in text:
        # With blank lines at an end, `|` needs a digit and a sign, and the two emitters differ.
        return '"' if text[0] in " \n" or text.endswith("\n\n") else "|"
    if PLAIN.match(text) and text.lower() not in WORDS:
        return None
    return '"' if "'" in text and not set(text) & {'"', "\\"} else "'"


@cache
def _dumper() -> Any:
    """PyYAML's dumper with our strings; libyaml's where there is one, which writes the same."""
    import yaml

    parent: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(parent):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - no &id001 in manifests
            return True

    def string(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style(text))

    def sequence(dumper: Any, items: list[Any]) -> Any:
        # 127 exit codes on one line, not on 127.
        numbers = bool(items) and all(type(item) is int for item in items)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)

    Dumper.add_representer(str, string)
    Dumper.add_representer(list, sequence)
    return Dumper
