"""YAML text → a document with the place of each value, or what is wrong with it."""

import re
from collections.abc import Callable
from typing import Any

from mlgen.documents import _scalars
from mlgen.documents.document import MAX_BYTES, MAX_VALUES, Document
from mlgen.problems import Code, Place, Problem, ValuePath

TEMPLATE_HINT = "render the Helm chart first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

KINDS = {"mapping": "mapping", "sequence": "list", "scalar": "scalar"}
"""What messages call the nodes of ruamel.yaml."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair: an escape such as `"\\ud83d"` produces it, UTF-8 cannot encode it."""

SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", lambda _: None),
    "bool": ("a boolean", _scalars.boolean),
    "int": ("an integer", _scalars.integer),
    "float": ("a number", _scalars.number),
}
"""For each YAML type other than strings: its description in messages, and how it is read."""


class Reader:
    """Converts the nodes of ruamel.yaml for one document into data, places and problems.

    Attributes:
        file: its name in messages.
        first_line: number of lines before the document.
        places, keys, texts, problems: those of the document so far.
        count: number of values so far, including those that aliases repeat.
        hint: what to do if the text is not YAML.
        ancestors: ids of the nodes that contain the current one.
    """

    def __init__(self, file: str, first_line: int) -> None:
        self.file, self.first_line = file, first_line
        self.places: dict[ValuePath, Place] = {(): Place(file, first_line + 1)}
        self.keys: dict[ValuePath, Place] = {}
        self.texts: dict[ValuePath, str] = {}
        self.problems: list[Problem] = []
        self.count = 0
        self.hint = ""
        self.ancestors: set[int] = set()

    def read(self, text: str) -> Document | list[Problem]:
        """Return the document, without its text, or why it cannot be read."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.hint = TEMPLATE_HINT if "{{" in text else ""
        if len(text.encode()) > MAX_BYTES:
            message = f"the document is larger than {MAX_BYTES >> 20} MiB"
            return [self._problem((), message, "too-large", "put data into a volume instead")]
        try:
            node = YAML(typ="safe", pure=True).compose(text)
            data = self._value(node, ()) if node else None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = " ".join(str(error.problem or error.context).split())
            return [self._problem((), f"is not valid YAML: {message}", "not-yaml", self.hint, mark)]
        except YAMLError as error:
            before = text[: getattr(error, "position", 0)]
            line = self.first_line + before.count("\n") + 1
            place = Place(self.file, line, len(before) - before.rfind("\n"))
            message = f"is not valid YAML: {str(error).splitlines()[0]}"
            return [Problem((), message, "not-yaml", place=place)]
        except RecursionError:
            return [self._problem((), "is nested too deeply", "too-large")]
        if self.count > MAX_VALUES:
            message = f"aliases expand to more than {MAX_VALUES} values"
            return [self._problem((), message, "too-large")]
        return Document(data, self.places, self.keys, self.texts, self.problems)

    def _problem(
        self, path: ValuePath, message: str, code: Code, hint: str = "", mark: Any = None
    ) -> Problem:
        """Return a problem at a mark of ruamel.yaml, or at the start of the document."""
        return Problem(path, message, code, hint, place=self._place(mark))

    def _place(self, mark: Any) -> Place:
        """Return the place in the file of a mark, which counts from the start of the document."""
        if mark is None:
            return Place(self.file, self.first_line + 1)
        return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)

    def _note(self, path: ValuePath, message: str, hint: str, node: Any) -> None:
        """Report a problem with one node; the rest of the document is still read."""
        problem = self._problem(path, message, "not-yaml", hint, node.start_mark)
        self.problems.append(problem)

    def _value(self, node: Any, path: ValuePath) -> Any:
        """Return the data of a node, and record the places of all that is in it."""
        self.count += 1
        if self.count > MAX_VALUES:
            return None
        self.places[path] = self._place(node.start_mark)
        if node.id == "scalar":
            return self._scalar(node, path)
        if node.tag not in (TAG + "map", TAG + "seq"):
            self._note_tag(path, node)
        if id(node) in self.ancestors:
            self._note(path, "an alias refers to a value that contains it", "copy the value", node)
            return {} if node.id == "mapping" else []
        self.ancestors.add(id(node))
        value: Any
        if node.id == "mapping":
            value = self._mapping(node, path)
        else:
            value = [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        self.ancestors.remove(id(node))
        return value

    def _mapping(self, node: Any, path: ValuePath) -> dict[str, Any]:
        """Return a mapping, whose own keys override those that `<<` merges into it.

        Of duplicate keys the last takes effect, as in kubectl (sigs.k8s.io/yaml, YAMLToJSON).
        """
        place = self.places[path]
        sources = [value for key, value in node.value if key.tag == TAG + "merge"]
        merged = {k: v for source in sources for k, v in self._merged(source, path).items()}
        self.places[path] = place
        fields: dict[str, Any] = {}
        first_uses: dict[str, Place] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                continue
            if key.id != "scalar":
                self._note(path, f"expected a string as key, got a {KINDS[key.id]}", self.hint, key)
                continue
            name = self._text(key, path)
            key_place = self._place(key.start_mark)
            first = first_uses.setdefault(name, key_place)
            if first is not key_place:
                self._note_duplicate((*path, name), key, first)
            self.keys[(*path, name)] = key_place
            fields[name] = self._value(value, (*path, name))
            if value.id == "scalar" and value.start_mark.index == value.end_mark.index:
                # ruamel.yaml gives an omitted value the place of the next key.
                self.places[(*path, name)] = self.keys[(*path, name)]
        return merged | fields

    def _merged(self, node: Any, path: ValuePath) -> dict[str, Any]:
        """Return the fields that `<<: *a` or `<<: [*a, *b]` merges; the first of a list wins."""
        fields: dict[str, Any] = {}
        for source in reversed(node.value) if node.id == "sequence" else [node]:
            if source.id != "mapping":
                message = f"expected a mapping to merge with <<, got a {KINDS[source.id]}"
                self._note(path, message, "", source)
                continue
            fields |= self._value(source, path) or {}
        return fields

    def _note_duplicate(self, path: ValuePath, key: Any, first: Place) -> None:
        """Report a further use of a key, with the line of the first one."""
        message = f'duplicate key "{path[-1]}"; first used on line {first.line}'
        problem = self._problem(
            path, message, "duplicate-key", "remove one of them", key.start_mark
        )
        self.problems.append(problem)

    def _note_tag(self, path: ValuePath, node: Any) -> None:
        """Report a tag, such as `!Ref`, that is not one of YAML's own types."""
        self._note(path, f"the tag {node.tag} is not supported", "remove the tag", node)

    def _text(self, node: Any, path: ValuePath) -> str:
        """Return the text of a scalar, with `?` for each surrogate, which is a problem."""
        text = str(node.value)
        if SURROGATE.search(text):
            message = "an escape sequence is only half of a character (a lone surrogate)"
            self._note(path, message, "write the character itself", node)
            return SURROGATE.sub("?", text)
        return text

    def _scalar(self, node: Any, path: ValuePath) -> Any:
        """Return a string, number, boolean or None, as the node's tag says."""
        text = self._text(node, path)
        self.texts.pop(path, None)  # of a duplicate key
        kind = node.tag.removeprefix(TAG)
        if kind in ("str", "timestamp", "value"):
            return text
        if kind not in SCALARS:
            self._note_tag(path, node)
            return text
        description, read = SCALARS[kind]
        try:
            value = read(text)
        except ValueError:
            message = f"{text[:60]} is not {description} that a manifest can hold"
            self._note(path, message, "quote it if it is a string", node)
            return text
        self.texts[path] = text
        return value
