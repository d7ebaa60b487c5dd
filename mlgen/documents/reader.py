"""Texts → documents.

YAML is read as 1.2 (`on` and `y` are strings), with anchors and merge keys. A duplicate key is a
problem.
"""

import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mlgen.documents.chunks import chunks, is_blank, without_marker
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.problems import Code, Place, Problem, ValuePath

MAX_DOCUMENT_BYTES = 1 << 20
"""A larger object would not fit in etcd, whose default limit for a request is 1.5 MiB."""

MAX_VALUES = 200_000
"""More values than a document of that size can hold, unless aliases multiply them."""

TEMPLATE_HINT = "a template is filled in first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which `"\\ud83d"` can write but no file can hold."""


def read_documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Read the documents of a text, or, in the place of one that cannot be read, its problems."""
    if text.problem:
        yield [text.problem]
        return
    empty = True
    for line, written in chunks(io.StringIO(text.text, newline="")):
        if is_blank(written):
            continue
        empty = False
        read = _Reader(text.name, text.line + line).read(without_marker(written))
        yield replace(read, text=written) if isinstance(read, Document) else read
    if empty:
        hint = "write a TrainingJob, or leave the file out"
        yield [Problem((), "the file is empty", "empty", hint, place=Place(text.name))]


class _Reader:
    """Turns the nodes of ruamel.yaml into data, and notes where each value stood."""

    def __init__(self, file: str, first_line: int) -> None:
        self.file, self.first_line = file, first_line
        self.document = Document(None, {(): Place(file, first_line + 1)})
        self.count = 0
        self.hint = ""
        self.around: set[int] = set()

    def read(self, text: str) -> Document | list[Problem]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.hint = TEMPLATE_HINT if "{{" in text else ""
        if len(text.encode()) > MAX_DOCUMENT_BYTES:
            message = f"the document has more than {MAX_DOCUMENT_BYTES >> 20} MiB"
            return [self._problem((), message, "too-large", "put data into a volume instead")]
        try:
            node = YAML(typ="safe", pure=True).compose(text)
            data = self._value(node, ()) if node else None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = " ".join(str(error.problem or error.context).split())
            return [self._problem((), f"is not YAML: {message}", "not-yaml", self.hint, mark)]
        except YAMLError as error:
            before = text[: getattr(error, "position", 0)]
            line = self.first_line + before.count("\n") + 1
            place = Place(self.file, line, len(before) - before.rfind("\n"))
            message = f"is not YAML: {str(error).splitlines()[0]}"
            return [Problem((), message, "not-yaml", place=place)]
        except RecursionError:
            return [self._problem((), "is nested too deeply", "too-large")]
        if self.count > MAX_VALUES:
            message = f"its aliases expand to more than {MAX_VALUES} values"
            return [self._problem((), message, "too-large")]
        return replace(self.document, data=data)

    def _problem(
        self, path: ValuePath, message: str, code: Code, hint: str = "", mark: Any = None
    ) -> Problem:
        return Problem(path, message, code, hint, place=self._place(mark))

    def _place(self, mark: Any) -> Place:
        if mark is None:
            return Place(self.file, self.first_line + 1)
        return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)

    def _value(self, node: Any, path: ValuePath) -> Any:
        self.count += 1
        if self.count > MAX_VALUES:
            return None
        self.document.places[path] = self._place(node.start_mark)
        if node.id == "scalar":
            return self._scalar(node, path)
        if node.tag not in (TAG + "map", TAG + "seq"):
            self._note(path, f"the tag {node.tag} is not known here", "leave it out", node)
        if id(node) in self.around:
            self._note(path, "an alias leads to what it is a part of", "write it out", node)
            return {} if node.id == "mapping" else []
        self.around.add(id(node))
        value: Any
        if node.id == "mapping":
            value = self._mapping(node, path)
        else:
            value = [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        self.around.remove(id(node))
        return value

    def _note(self, path: ValuePath, message: str, hint: str, node: Any) -> None:
        """Note a problem with one value; the rest of the document can be read all the same."""
        problem = self._problem(path, message, "not-yaml", hint, node.start_mark)
        self.document.problems.append(problem)

    def _mapping(self, node: Any, path: ValuePath) -> dict[str, Any]:
        place = self.document.places[path]
        merges = [value for key, value in node.value if key.tag == TAG + "merge"]
        merged = {k: v for value in merges for k, v in self._merged(value, path).items()}
        self.document.places[path] = place
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                continue
            if key.id != "scalar":
                self._note(path, "a key must be a word, not a list or a mapping", self.hint, key)
                continue
            name = self._text(key, path)
            if name in own:
                message, hint = f'the key "{name}" stands here twice', "keep one of the two"
                self.document.problems.append(
                    self._problem((*path, name), message, "duplicate-key", hint, key.start_mark)
                )
                continue
            self.document.keys[(*path, name)] = self._place(key.start_mark)
            own[name] = self._value(value, (*path, name))
            if value.id == "scalar" and value.start_mark.index == value.end_mark.index:
                # A value that is left out stands nowhere, or, for the parser, at the next key.
                self.document.places[(*path, name)] = self.document.keys[(*path, name)]
        return merged | own

    def _merged(self, node: Any, path: ValuePath) -> dict[str, Any]:
        """`<<: *other`, or `<<: [*first, *second]`, where the first one wins."""
        found: dict[str, Any] = {}
        for source in reversed(node.value) if node.id == "sequence" else [node]:
            if source.id != "mapping":
                self._note(path, "<< merges mappings only", "", source)
                continue
            found |= self._value(source, path) or {}
        return found

    def _text(self, node: Any, path: ValuePath) -> str:
        text = str(node.value)
        if SURROGATE.search(text):
            self._note(path, "an escape stands for half of a character", "write all of it", node)
            return SURROGATE.sub("?", text)
        return text

    def _scalar(self, node: Any, path: ValuePath) -> Any:
        text = self._text(node, path)
        kind = node.tag.removeprefix(TAG)
        if kind in ("str", "timestamp", "value"):
            return text
        if kind not in SCALARS:
            self._note(path, f"the tag {node.tag} is not known here", "leave it out", node)
            return text
        what, read = SCALARS[kind]
        try:
            value = read(text.replace("_", "").lower())
        except ValueError:
            message = f"{text[:60]} is not {what} that a manifest can hold"
            self._note(path, message, "quote it if it is a text", node)
            return text
        self.document.texts[path] = text
        return value


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    return int(text, {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10))


def _float(text: str) -> int | float:
    """Read a number; JSON, which the API server is sent, has no infinity."""
    number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number):
        raise ValueError
    return int(number) if number.is_integer() and abs(number) < MAX_EXACT else number


MAX_EXACT = 1 << 53
"""From here on a floating-point number does not tell neighbouring whole numbers apart."""

SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", lambda _: None),
    "bool": ("a boolean", _boolean),
    "int": ("a whole number", _integer),
    "float": ("a number", _float),
}
"""What is not a text, by its tag: what it is called, and how it is read."""


def scalar(text: str) -> Any:
    """Read one value as YAML 1.2 does, for `--set path=value`.

    Raises:
        ValueError: the text is not YAML; the message says why.
    """
    read = _Reader("", 0).read(text) if text.strip() else Document(text)
    problems = read.problems if isinstance(read, Document) else read
    if problems:
        raise ValueError(problems[0].message)
    return read.data if isinstance(read, Document) else None
