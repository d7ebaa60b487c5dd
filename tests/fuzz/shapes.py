"""Random documents: parts of the fixtures and of the schema, combined in other ways.

All randomness comes from one `random.Random`.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import yaml
from fuzz.jobs import Writer
from support import FILES, ROOT, load_all, rendered_once
from yaml_texts import ODD, PLAIN, damaged

from mlgen.jobfile.schema import base

WRONG = sorted((ROOT / "fixtures/invalid").glob("*.yaml"))


def nested(depth: int) -> Any:
    """Return mappings and lists inside each other."""
    value: Any = None
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


HOSTILE = (
    *(nested(90), nested(110), 10**99, 10**400),
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1.5, 1e308, float("inf"), float("nan")),
    *("", " ", "\n", "a\n", "a\nb", "\x00", "\x1b[2J", "\x85", "\u202e", "\u2028", "\ufeff"),
    *("-", "--upload-pack=x", "-oProxyCommand=x", "../../x", "/", "$(A)", "$(", "${A}", "`a`"),
    *("{{=1}}", "{{workflow.name}}", "{% x %}", "*a", "&a", "---", "1e5", "0x1", "null", "~"),
    *("a" * 64, "a" * 254, "é", "a.b", "a/b", "a/b/c", "A_B", "a" * 5000, "'", '"', "\\", "#a"),
    *("9" * 5000, "²", "٣", f"--nnodes={'9' * 5000}", f"worker-{'9' * 5000}:80", "9" * 400 + "s"),
    *([], [None], [[]], [{}], {}, {"": None}, {"a": None}, {"name": {}}, {"$patch": "delete"}),
    *({"items": 1}, [{"name": "a"}, {"name": "a"}], {"apiVersion": []}, {"kind": {}}),
)
"""Values that programs rarely expect."""

LONGEST = 20_000
"""The most characters of a text from which parts are taken."""

KEYS = ("", "a\nb", "\x1b", "a b", "$patch", "__class__", "items", "data", "x" * 300, "1", "null")
"""Keys that programs rarely expect."""


@cache
def sources() -> list[Any]:
    """Return the documents of all fixtures, and some manifests."""
    texts = [path.read_text() for path in [*FILES, *FILES, *WRONG]]
    texts += [rendered_once(path) for path in FILES[::9]]
    documents = []
    for text in filter(lambda text: len(text) < LONGEST, texts):
        try:
            found = [data for data in load_all(text) if isinstance(data, dict)]
            json.dumps(found)
        except (yaml.YAMLError, TypeError, ValueError):  # some are not YAML, or contain themselves
            continue
        documents += found
    return documents


def holders(data: Any) -> Iterator[Any]:
    """Yield every non-empty mapping and list, the outermost first."""
    if isinstance(data, (dict, list)) and data:
        yield data
        for value in data.values() if isinstance(data, dict) else data:
            yield from holders(value)


class Shaper:
    """Writes random documents."""

    def __init__(self, chance: Any) -> None:
        self.chance = chance

    def document(self) -> Any:
        """Return a document of the fixtures with some changes."""
        data = deepcopy(self.chance.choice(sources()))
        for _ in range(self.chance.choice((0, 0, 1, 1, 1, 1, 2, 3))):
            data = self.changed(data)
        if self.chance.random() < 0.05:
            items = [data, *(self.document() for _ in range(self.chance.randrange(3)))]
            return {"apiVersion": "v1", "kind": "List", "items": items}
        return data

    def changed(self, data: Any) -> Any:
        """Return a document with one change."""
        inside = list(holders(data))
        if not inside:
            return self.value()
        holder = self.chance.choice(inside)
        change = self.chance.choice(
            (self._replace, self._replace, self._remove, self._repeat, self._wrap, self._add)
        )
        change(holder, self._slot(holder))
        return data

    def value(self) -> Any:
        """Return any value: an unusual one, or a part of another document."""
        kind = self.chance.random()
        if kind < 0.5:
            return deepcopy(self.chance.choice(HOSTILE))
        if kind < 0.6:
            return self.chance.choice(PLAIN)
        holder = self.chance.choice(list(holders(self.chance.choice(sources()))))
        return deepcopy(holder if kind < 0.7 else holder[self._slot(holder)])

    def text(self) -> str:
        """Return a stream of documents, each in a random YAML style."""
        texts = [self._written(self.document())]
        while self.chance.random() < 0.1:
            texts.append(self._written(self.document()))
        text = "---\n".join(texts)
        while self.chance.random() < 0.1:
            text = damaged(self.chance, text)
        return text

    def _written(self, data: Any) -> str:
        as_json = json.dumps(data) + "\n"
        if self.chance.random() < 0.2 or "\\ud" in as_json:  # libyaml cannot write half of a pair
            return as_json
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        flow = self.chance.choice((None, False, False, True))
        return yaml.dump(data, Dumper=dumper, sort_keys=False, default_flow_style=flow)

    def _slot(self, holder: Any) -> Any:
        """Return a key or an index of a collection."""
        return self.chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))

    def _replace(self, holder: Any, slot: Any) -> None:
        holder[slot] = self.value()

    def _remove(self, holder: Any, slot: Any) -> None:
        del holder[slot]

    def _repeat(self, holder: Any, slot: Any) -> None:
        """Repeat a value, which PyYAML writes as an alias unless it is copied."""
        value = holder[slot] if self.chance.random() < 0.3 else deepcopy(holder[slot])
        if isinstance(holder, dict):
            holder[self._key()] = value
        else:
            holder.insert(slot, value)

    def _wrap(self, holder: Any, slot: Any) -> None:
        """Put a value into another one, or replace its parent with it."""
        inner = holder[slot]
        if isinstance(inner, (dict, list)) and inner and self.chance.random() < 0.5:
            holder[slot] = inner[self._slot(inner)]
        else:
            holder[slot] = [inner] if self.chance.random() < 0.5 else {self._key(): inner}

    def _add(self, holder: Any, slot: Any) -> None:
        """Add a field of the schema, or extend a text or a number."""
        value = holder[slot]
        if isinstance(value, str):
            at = self.chance.randrange(len(value) + 1)
            holder[slot] = value[:at] + self.chance.choice(ODD) + value[at:]
        elif isinstance(value, int):
            holder[slot] = value * self.chance.choice((-1, 10, 1000, 10**9))
        elif isinstance(value, dict):
            name, node = self.chance.choice(properties())
            value[name] = Writer(self.chance).value(node)

    def _key(self) -> str:
        if self.chance.random() < 0.5:
            return str(self.chance.choice(KEYS))
        name, _ = self.chance.choice(properties())
        return name


@cache
def properties() -> list[tuple[str, Any]]:
    """Return every field of the job file, with its JSON Schema."""

    def found(node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, dict):
            fields = node.get("properties")
            yield from fields.items() if isinstance(fields, dict) else ()
            for inner in node.values():
                yield from found(inner)
        elif isinstance(node, list):
            for inner in node:
                yield from found(inner)

    return [(name, node) for name, node in found(base()) if isinstance(node, dict)]
