"""What the user gave → documents whose every value knows its line.

Files, folders and standard input become texts; a text becomes the documents in it. YAML is read
as 1.2 (`on` and `y` are words), with anchors and merge keys; a key that stands twice is a problem.
"""

import io
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any, AnyStr

from mlgen.problems import Path, Place, Problem

SUFFIXES = (".json", ".yaml", ".yml")
"""What counts in a folder, as for `kubectl apply -f FOLDER`."""

MAX_DOCUMENT_BYTES = 1 << 20
"""A larger object would not fit in etcd, whose default limit for a request is 1.5 MiB."""

MAX_VALUES = 200_000
"""More values than a document of that size can hold, unless aliases multiply them."""

TEMPLATE_CURE = "a template is filled in first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which `"\\ud83d"` can write but no file can hold."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data, and where each of its values stands.

    Attributes:
        data: dicts, lists, strings, numbers, booleans and None.
        places: the position of the value at each path.
        keys: the position of the key at each path.
        texts: how each value that is not a string was written: `1e-5`, `08`, `~`.
        problems: what is wrong with the YAML although it could be read: a key that stands twice.
        origins: for a document that was made of a custom resource, where in that each value is.
        text: as it was written, from its `---` on.
    """

    data: Any
    places: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    origins: dict[Path, Path] = field(default_factory=dict)
    text: str = ""

    def place(self, path: Path) -> Place:
        """Return where the value at a path stands, or else the nearest value around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]

    def key_place(self, path: Path) -> Place:
        """Return where the key at a path stands, or else the nearest value around it."""
        return self.keys.get(path) or self.place(path)

    def item(self, *path: str | int) -> "Document":
        """Return a part of this document as one of its own, without a text."""
        length = len(path)

        def within(values: dict[Path, Any]) -> dict[Path, Any]:
            return {p[length:]: value for p, value in values.items() if p[:length] == path}

        data = self.data
        for step in path:
            data = data[step]
        problems = [
            replace(problem, path=problem.path[length:])
            for problem in self.problems
            if problem.path[:length] == path
        ]
        return Document(data, within(self.places), within(self.keys), within(self.texts), problems)

    def located(self, problem: Problem, *, key: bool = False) -> Problem:
        """Return a problem with its place, and by the path that the user knows.

        Args:
            problem: one that knows its place is returned as it is.
            key: what is wrong is a key, not its value.
        """
        if problem.place:
            return problem
        path = problem.path
        place = self.key_place(path) if key else self.place(path)
        while self.origins and path and path not in self.origins:
            path = path[:-1]
        return replace(problem, place=place, path=self.origins.get(path, path))


@dataclass(frozen=True, slots=True)
class Text:
    """One file, or standard input, as text; or the reason why it could not be read.

    Attributes:
        name: as the user knows it.
        line: how many lines stand before it, where it is a part of that.
    """

    name: str
    text: str = ""
    problem: Problem | None = None
    line: int = 0


def texts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, the files of folders (not of folders in them), and `-`, in the given order."""
    for name in names:
        if name == "-":
            yield decoded("<stdin>", sys.stdin.buffer.read())
            continue
        try:
            files = _files(File(name))
        except OSError as error:
            yield _unreadable(name, error)
            continue
        if not files:
            cure = f"name a folder with {', '.join(SUFFIXES)} files"
            message = "the folder holds no manifest"
            yield Text(name, problem=Problem((), message, "unreadable", cure, place=Place(name)))
        for file in files:
            try:
                yield decoded(str(file), file.read_bytes())
            except OSError as error:
                yield _unreadable(str(file), error)


def _files(path: File) -> list[File]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _unreadable(name: str, error: OSError) -> Text:
    message = f"cannot be read: {error.strerror or error}"
    return Text(name, problem=Problem((), message, "unreadable", place=Place(name)))


def decoded(name: str, data: bytes, line: int = 0) -> Text:
    """Return bytes as a text; what is not UTF-8 is its problem.

    Args:
        name: as the user knows it.
        data: all of it, or a part.
        line: how many lines stand before that part.
    """
    try:
        return Text(name, data.decode("utf-8-sig"), line=line)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        row = line + before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(
            (),
            f"is not text in UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})",
            "not-text",
            "save it as UTF-8, or leave it out",
            place=Place(name, row, column),
        )
        return Text(name, problem=problem)


def documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Read the documents of a text, or, in the place of one that cannot be read, its problems."""
    if text.problem:
        yield [text.problem]
        return
    empty = True
    for line, written in chunks(io.StringIO(text.text, newline="")):
        if is_blank(written):
            continue
        empty = False
        read = _Reader(text.name, text.line + line).read(_without_marker(written))
        yield replace(read, text=written) if isinstance(read, Document) else read
    if empty:
        cure = "write a TrainingJob, or leave the file out"
        yield [Problem((), "the file is empty", "empty", cure, place=Place(text.name))]


def chunks(lines: Iterable[AnyStr]) -> Iterator[tuple[int, AnyStr]]:
    """Split lines, with their ends, before each `---`.

    Returns:
        For each document the number of the line (from 0) that it begins on, and what it holds,
        that is, the whole of it when they are joined.
    """
    start = 0
    found: list[AnyStr] = []
    for number, line in enumerate(lines):
        if found and _is_marked(line):
            yield start, found[0][:0].join(found)
            start, found = number, [line]
        else:
            found.append(line)
    if found:
        yield start, found[0][:0].join(found)


def is_blank(chunk: AnyStr) -> bool:
    """Whether a document, with its `---`, says nothing but comments and directives."""
    none = ("", "#", "%") if isinstance(chunk, str) else (b"", b"#", b"%")
    rows = _without_marker(chunk).splitlines()
    return all(row.lstrip()[:1] in none for row in rows)


def _is_marked(chunk: AnyStr) -> bool:
    mark = "---" if isinstance(chunk, str) else b"---"
    return chunk.startswith(mark) and not chunk[3:4].strip()


def _without_marker(chunk: AnyStr) -> AnyStr:
    """What follows the marker on its line belongs to the document; spaces keep its column."""
    if not _is_marked(chunk):
        return chunk
    return f"   {chunk[3:]}" if isinstance(chunk, str) else b"   " + chunk[3:]


class _Reader:
    """Turns the nodes of ruamel.yaml into data, and notes where each value stood."""

    def __init__(self, file: str, first_line: int) -> None:
        self.file, self.first_line = file, first_line
        self.document = Document(None, {(): Place(file, first_line + 1)})
        self.count = 0
        self.cure = ""
        self.around: set[int] = set()

    def read(self, text: str) -> Document | list[Problem]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.cure = TEMPLATE_CURE if "{{" in text else ""
        if len(text.encode()) > MAX_DOCUMENT_BYTES:
            message = f"the document has more than {MAX_DOCUMENT_BYTES >> 20} MiB"
            return [self._problem((), message, "too-large", "put data into a volume instead")]
        try:
            node = YAML(typ="safe", pure=True).compose(text)
            data = self._value(node, ()) if node else None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = " ".join(str(error.problem or error.context).split())
            return [self._problem((), f"is not YAML: {message}", "not-yaml", self.cure, mark)]
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
        self, path: Path, message: str, code: str, cure: str = "", mark: Any = None
    ) -> Problem:
        return Problem(path, message, code, cure, place=self._place(mark))

    def _place(self, mark: Any) -> Place:
        if mark is None:
            return Place(self.file, self.first_line + 1)
        return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)

    def _value(self, node: Any, path: Path) -> Any:
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

    def _note(self, path: Path, message: str, cure: str, node: Any) -> None:
        """Note a problem with one value; the rest of the document can be read all the same."""
        problem = self._problem(path, message, "not-yaml", cure, node.start_mark)
        self.document.problems.append(problem)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        place = self.document.places[path]
        merges = [value for key, value in node.value if key.tag == TAG + "merge"]
        merged = {k: v for value in merges for k, v in self._merged(value, path).items()}
        self.document.places[path] = place
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                continue
            if key.id != "scalar":
                self._note(path, "a key must be a word, not a list or a mapping", self.cure, key)
                continue
            name = self._text(key, path)
            if name in own:
                message, cure = f'the key "{name}" stands here twice', "keep one of the two"
                self.document.problems.append(
                    self._problem((*path, name), message, "duplicate-key", cure, key.start_mark)
                )
                continue
            self.document.keys[(*path, name)] = self._place(key.start_mark)
            own[name] = self._value(value, (*path, name))
            if value.id == "scalar" and value.start_mark.index == value.end_mark.index:
                # A value that is left out stands nowhere, or, for the parser, at the next key.
                self.document.places[(*path, name)] = self.document.keys[(*path, name)]
        return merged | own

    def _merged(self, node: Any, path: Path) -> dict[str, Any]:
        """`<<: *other`, or `<<: [*first, *second]`, where the first one wins."""
        found: dict[str, Any] = {}
        for source in reversed(node.value) if node.id == "sequence" else [node]:
            if source.id != "mapping":
                self._note(path, "<< merges mappings only", "", source)
                continue
            found |= self._value(source, path) or {}
        return found

    def _text(self, node: Any, path: Path) -> str:
        text = str(node.value)
        if SURROGATE.search(text):
            self._note(path, "an escape stands for half of a character", "write all of it", node)
            return SURROGATE.sub("?", text)
        return text

    def _scalar(self, node: Any, path: Path) -> Any:
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
