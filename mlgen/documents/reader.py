"""Parses texts to documents with the place of each value.

The events of libyaml become data and places in one pass. kubectl and Helm read YAML with a port of
libyaml (sigs.k8s.io/yaml), so they accept the same documents as mlgen. Without its C extension,
PyYAML uses its own parser, which is slower and has the same result. Scalars follow YAML 1.2 (`on`
and `y` are strings), with anchors and merge keys. A duplicate key is a problem.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os.path import normpath
from pathlib import Path
from shlex import quote
from typing import Any, NoReturn

import yaml

from mlgen.documents import scalars
from mlgen.documents.document import Document, Mark
from mlgen.documents.files import KUSTOMIZE_HINT, Text, is_blank, split, too_many
from mlgen.input_limits import (
    CHARACTERS,
    DEPTH,
    DOCUMENT_BYTES,
    DOCUMENTS,
    NUMBER_DIGITS,
    PROBLEMS,
    VALUES,
)
from mlgen.problems import Code, Place, Problem, ValuePath, bounded

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

TEMPLATE_HINT = "render the Helm chart first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

TYPES = frozenset(("apiVersion", "kind", "Kind", "stringData"))
"""The fields that show whether an object is a Secret."""

UNACCEPTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that YAML does not allow (https://yaml.org/spec/1.2.2/#51-character-set)."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair, from an escape such as `"\\ud83d"`. UTF-8 cannot encode it."""

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Both halves. In JSON, these two escapes are one character."""

ODD_BREAK = re.compile("[\x85\u2028\u2029]")
"""The line breaks of YAML 1.1 that editors do not treat as line breaks."""

BREAK = re.compile("\r\n|\r|\n")

OF_KUBECTL = re.compile(r"^---(?![ \t\r\n]|\Z)[^\S\n]*(?:#|$)", re.MULTILINE)
"""A line at which kubectl starts a document, but YAML does not (YAMLReader.Read in
k8s.io/apimachinery/pkg/util/yaml/decoder.go)."""

DIRECTIVE = re.compile(r"(?:(?:[ \t\r]*(?:#[^\n]*)?|%YAML 1\.2[^\n]*)\n)*%(?!YAML 1\.2)")
"""The start of a document with a directive that may change its meaning, such as `%YAML 1.1`."""

NO_CHARACTER = "found invalid Unicode character escape code"
"""libyaml's error for an escape sequence such as `"\\ud83d"` or `"\\U00110000"`."""

TOO_DEEP = "exceeded maximum nesting depth"
"""libyaml's error for 1000 levels (0.2.6), often before the events of the first levels."""


def read_documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Yield each document of a text, or if it cannot be read, its problems.

    Blank documents are skipped. A text with only blank documents is a problem. The kustomization of
    a folder has no documents, but may be a warning.
    """
    if text.problem:
        yield [text.problem]
        return
    if text.others is not None:
        yield from ([warning] for warning in without_effect(text))
        return
    documents = 0
    for line, chunk in split(text.text):
        if is_blank(chunk):
            continue
        documents += 1
        if documents > DOCUMENTS:
            yield [too_many(text.name)]
            return
        document = read_document(text.name, text.line + line, chunk)
        if text.context and isinstance(document, Document):
            document = replace(document, context=text.context)
        yield document
    if not documents:
        hint = "write a TrainingJob, or omit the file"
        yield [Problem((), "the file contains no documents", "empty", hint, place=Place(text.name))]


def without_effect(kustomization: Text) -> Iterator[Problem]:
    """Yield a warning if the kustomization of a folder does more than list its manifests."""
    path, document = Path(kustomization.name), None
    for _, chunk in split(kustomization.text):
        document = read_document(kustomization.name, kustomization.line, chunk)
        break
    place, fields = Place(str(path)), []
    if isinstance(document, Document) and isinstance(document.data, dict):
        data = document.data
        fields = [field for field in data if field not in LISTING and data[field]]
        listed = data.get("resources")
        names = listed if isinstance(listed, list) else []
        named = {normpath(name) for name in names if isinstance(name, str)}
        if named != {*(kustomization.others or ())}:
            fields.append("resources")
        if not fields:
            return
        place = document.place(tuple(fields[:1]))
    message = "kustomize is not run, so this file has no effect"
    message += f": {', '.join(map(str, fields))}" if fields else ""
    hint = KUSTOMIZE_HINT.replace("FOLDER", quote(str(path.parent)))
    yield Problem((), message, "no-effect", hint, warning=True, place=place)


LISTING = ("apiVersion", "kind", "metadata", "resources")
"""The fields of a kustomization that only lists files."""


def read_document(file: str, first_line: int, chunk: str) -> Document | list[Problem]:
    """Return the document of a text, or its problems if it cannot be read.

    Args:
        file: its name in messages.
        first_line: the number of lines before the document.
        chunk: the text of one document.
    """
    return _Reader(file, first_line, chunk, LOADER).document()


def ambiguous(file: str, text: str) -> Problem | None:
    """Return the problem of a text that YAML readers split or read differently, or None."""
    try:
        _Reader(file, 0, text, LOADER).check_text()
    except _UnreadableError as error:
        return error.problem
    return None


def may_be_secret(chunk: str) -> bool:
    """Return True unless it is known that a document contains no Secret, so that it can be quoted.

    If the document cannot be read, its kind must be known from the part before the error, and the
    error must not be among the data of another object in it.
    """
    if len(chunk) > DOCUMENT_BYTES:
        return True
    chunk = UNACCEPTABLE.sub("?", chunk)
    for parser in (LOADER, yaml.SafeLoader):
        reader = _Reader("", 0, chunk, parser)
        try:
            reader.next = _events(chunk, parser)
            reader.read()
        except _UnreadableError:
            return reader.is_private
        except yaml.YAMLError as error:
            if getattr(error, "problem", None) not in (NO_CHARACTER, TOO_DEEP):
                return reader.is_private
        else:
            return reader.has_secret
    return reader.is_private


def value_document(text: str) -> Document:
    """Return one value, read as YAML 1.2, with its spelling, for `--set path=value`.

    Raises:
        ValueError: the text is not valid YAML. The message contains the reason.
    """
    if not text.strip():
        return Document(text)
    document = read_document("", 0, text)
    problems = document.problems if isinstance(document, Document) else document
    if problems:
        raise ValueError(problems[0].message)
    return document if isinstance(document, Document) else Document(None)


def _character(pair: re.Match[str]) -> str:
    """Return the character of a pair of surrogates."""
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


class _UnreadableError(Exception):
    """A text cannot be read. Contains the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Anchored:
    """A value with an anchor, which aliases can repeat.

    Attributes:
        event: the first event of the value.
        path: of the value.
        data: the value itself.
        mark: of the value; None until the value has been read completely.
        size: the numbers of its values, characters and levels of nesting.
        problems: in the value.
    """

    event: Any
    path: ValuePath
    data: Any = None
    mark: Mark | None = None
    size: tuple[int, int, int] = (1, 0, 1)
    problems: tuple[Problem, ...] = ()


class _Reader:
    """Reads one document.

    Attributes:
        file: its name in messages.
        first_line: number of lines before the document.
        text: the document.
        parser: of PyYAML.
        next: returns the next event of PyYAML.
        is_json: True if kubectl reads the text as JSON.
        hint: the hint for invalid YAML.
        lines: the offsets of all lines; empty if libyaml counts the same lines.
        path: of the current value.
        problems: so far.
        too_long: the problem of the first number that is too long, reported if the YAML is valid.
        anchors: the values with an anchor, by the anchor's name.
        values: the number of values so far, including values repeated by aliases.
        characters: the number of characters in scalars so far, including repeated scalars.
        level: the number of mappings and lists around the current value.
        reached: the largest `level` within the current value with an anchor.
        has_secret: True if an object in the document is a Secret, or may be one.
        has_objects: True if the document has an object in or after another one.
        has_version: True if an apiVersion has been read.
        kind: of the document, once it has been read.
        masked: True if messages do not contain values.
    """

    def __init__(
        self, file: str, first_line: int, text: str, parser: Any, *, masked: bool = False
    ) -> None:
        self.file, self.first_line, self.text, self.parser = file, first_line, text, parser
        self.masked, self.kind = masked, ""
        self.has_secret = self.has_objects = self.has_version = False
        self.next: Callable[[], Any] = _no_event
        self.is_json = bool(re.match(r"\s*\{", text))
        self.hint = TEMPLATE_HINT if "{{" in text else ""
        self.lines: list[int] = []
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self.too_long: Problem | None = None
        self.anchors: dict[str, _Anchored] = {}
        self.values = self.characters = self.level = self.reached = 0

    def document(self) -> Document | list[Problem]:
        """Return the document, or its problems if it cannot be read.

        libyaml stops at an escape sequence for half of a character, and at deep nesting. PyYAML's
        own parser continues, so that all problems are reported, and the place of level 101.
        """
        try:
            self.check_size()
            self.check_text()
            if not self.text.isascii() and ODD_BREAK.search(self.text):
                self.lines = [0, *(match.end() for match in BREAK.finditer(self.text))]
            self.next = _events(self.text, self.parser)
            data, mark = self.read()
        except _UnreadableError as error:
            return [error.problem]
        except yaml.MarkedYAMLError as error:
            if error.problem in (NO_CHARACTER, TOO_DEEP) and self.parser is not yaml.SafeLoader:
                return self._again(yaml.SafeLoader, masked=self.masked)
            is_safe = self.masked or not self.is_private
            return [self._not_yaml(error)] if is_safe else self._again(self.parser, masked=True)
        if self.has_secret and self.problems and not self.masked:
            return self._again(self.parser, masked=True)
        document = Document(data, mark, [*bounded(self.problems)], text=self.text)
        return [self.too_long] if self.too_long else document

    def _again(self, parser: Any, *, masked: bool) -> Document | list[Problem]:
        return _Reader(self.file, self.first_line, self.text, parser, masked=masked).document()

    @property
    def is_private(self) -> bool:
        """True if the rest of the document may contain a value of a Secret.

        The kind of an object in a List or in another object may follow its data.
        """
        is_list = self.kind.endswith("List")
        is_data = "stringData" in self.path or (self.has_objects and "data" in self.path)
        return self.has_secret or not self.kind or is_list or is_data

    def check_size(self) -> None:
        """Raise a problem if the text is too large."""
        text = self.text
        # UTF-8 encodes a character in at most 4 bytes.
        if len(text) > DOCUMENT_BYTES // 4 and len(text.encode(errors="replace")) > DOCUMENT_BYTES:
            message = f"the document is larger than {DOCUMENT_BYTES >> 20} MiB"
            self._refuse(message, "put data into a volume instead", 0, "too-large")

    def check_text(self) -> None:
        """Check the text before it is parsed.

        Raises:
            _UnreadableError: the text is not YAML, or kubectl reads it differently.
        """
        text = self.text
        if line := OF_KUBECTL.search(text):
            message = f'kubectl reads "{line[0]}" as the start of a document, but YAML does not'
            self._refuse(message, 'write "---" on a separate line', line.start())
        if directive := DIRECTIVE.match(text):
            message = "directives other than %YAML 1.2 are not supported"
            self._refuse(message, "remove the line", directive.end() - 1)
        if character := UNACCEPTABLE.search(text):
            what = f"unacceptable character #x{ord(character[0]):04x}"
            message = f"is not valid YAML: {what}: special characters are not allowed"
            self._refuse(message, "", character.start())

    def _refuse(self, message: str, hint: str, at: int, code: Code = "not-yaml") -> NoReturn:
        """Raise a problem at an offset of the text."""
        line = self.first_line + self.text.count("\n", 0, at) + 1
        place = Place(self.file, line, at - self.text.rfind("\n", 0, at))
        raise _UnreadableError(Problem((), message, code, hint, place=place))

    def _not_yaml(self, error: yaml.MarkedYAMLError) -> Problem:
        """Return the problem of a text that libyaml cannot read."""
        mark: Any = error.problem_mark or error.context_mark
        hint = self.hint
        message = " ".join(str(error.problem or error.context).split())
        if message == NO_CHARACTER:
            message, hint = "an escape sequence is not a valid character", ""
        elif error.problem and error.context_mark:
            line = self._place(error.context_mark).line
            if line != self._place(mark).line:
                message += f" {error.context} that starts on line {line}"
        if message.startswith("found character that") and not self.masked:
            message = message.replace("that", f"{self.text[mark.index]!r} that", 1)
        place = self._place(mark)
        return Problem((), f"is not valid YAML: {message}", "not-yaml", hint, place=place)

    def _place(self, mark: Any) -> Place:
        """Return the place in the file of a PyYAML mark, which is relative to the document."""
        if not self.lines:
            return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)
        row = bisect_right(self.lines, mark.index)
        column = mark.index - self.lines[row - 1] + 1
        return Place(self.file, self.first_line + row, column)

    def _note(self, message: str, hint: str, place: Place | None, code: Code = "not-yaml") -> None:
        """Report a problem at a place, and continue to read the document."""
        if len(self.problems) <= PROBLEMS:  # one more than the limit, so that it is reported
            self.problems.append(Problem(tuple(self.path), message, code, hint, place=place))

    def _note_tag(self, tag: str, place: Place) -> None:
        """Report a tag, such as `!Ref`, that is not one of YAML's own types."""
        name = "" if self.masked else f" {tag}"
        self._note(f"the tag{name} is not supported", "remove the tag", place)

    def read(self) -> tuple[Any, Mark]:
        """Return the value of the document, and its mark."""
        self.next()  # the start of the stream
        if isinstance(self.next(), yaml.StreamEndEvent):
            return None, Mark(Place(self.file, self.first_line + 1))
        value = self._value(self.next())
        self.next()  # the end of the document
        end = self.next()
        if not isinstance(end, yaml.StreamEndEvent):
            message = "expected a single document, but found another one"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=end.start_mark)
        return value

    def _value(
        self, event: Any, key: Place | None = None, *, is_key: bool = False
    ) -> tuple[Any, Mark]:
        """Return the value that an event starts, and the marks of the values in it.

        Args:
            event: of PyYAML.
            key: the place of its key.
            is_key: True if the value is a key itself.
        """
        if type(event) is yaml.AliasEvent:
            return self._repeated(self._anchored(event), key)
        if event.anchor is None:
            return self._written(event, key, is_key=is_key)
        anchored = self.anchors[event.anchor] = _Anchored(event, tuple(self.path))
        values, characters, problems = self.values, self.characters, len(self.problems)
        outer, self.reached = self.reached, self.level
        value, mark = self._written(event, key, is_key=is_key)
        levels = self.reached - self.level
        self.reached = max(outer, self.reached)
        anchored.data, anchored.mark = value, mark
        anchored.size = (self.values - values, self.characters - characters, levels)
        anchored.problems = tuple(self.problems[problems:])
        return value, mark

    def _written(self, event: Any, key: Place | None, *, is_key: bool) -> tuple[Any, Mark]:
        """Return the value that an event starts, as `_value` does. The event is not an alias."""
        place = self._place(event.start_mark)
        if type(event) is yaml.ScalarEvent:
            self._count(not is_key, len(event.value), 0, event)
            value, text = self._scalar(event, place)
            return value, Mark(place, key, text)
        self._count(not is_key, 0, 1, event)
        if event.tag not in (None, "!", f"{TAG}map", f"{TAG}seq"):
            self._note_tag(event.tag, place)
        self.level += 1
        inner: dict[str | int, Mark] = {}
        is_mapping = type(event) is yaml.MappingStartEvent
        value = self._mapping(inner) if is_mapping else self._list(inner)
        self.level -= 1
        return value, Mark(place, key, inner=inner)

    def _count(self, values: int, characters: int, levels: int, event: Any) -> None:
        """Count a value and the values in it, before it is read or repeated.

        Raises:
            _UnreadableError: there are too many values, characters or levels.
        """
        self.values += values
        self.characters += characters
        self.reached = max(self.reached, self.level + levels)
        hint = "use fewer aliases, or put data into a volume"
        if self.level + levels > DEPTH:
            message, hint = f"is nested more than {DEPTH} levels deep", ""
        elif self.values > VALUES:
            message = f"the document has more than {VALUES} values after aliases are expanded"
        elif self.characters > CHARACTERS:
            message = (
                f"the document has more than {CHARACTERS} characters after aliases are expanded"
            )
        else:
            return
        place = self._place(event.start_mark)
        raise _UnreadableError(Problem((), message, "too-large", hint, place=place))

    def _anchored(self, alias: Any) -> _Anchored:
        """Return the value that an alias repeats, and count it."""
        anchored = self.anchors.get(alias.anchor)
        if not anchored:
            message = "found undefined alias" + ("" if self.masked else f" '{alias.anchor}'")
            raise yaml.MarkedYAMLError(problem=message, problem_mark=alias.start_mark)
        self._count(*anchored.size, alias)
        return anchored

    def _repeated(self, anchored: _Anchored, key: Place | None) -> tuple[Any, Mark]:
        """Return a copy of the value that an alias repeats, with the places of the original."""
        mark = anchored.mark
        if not mark:
            place = self._place(anchored.event.start_mark)
            self._note("an alias refers to a value that contains it", "copy the value", place)
            is_mapping = type(anchored.event) is yaml.MappingStartEvent
            return ({} if is_mapping else []), Mark(place, key)
        for problem in anchored.problems[: PROBLEMS + 1 - len(self.problems)]:
            path = (*self.path, *problem.path[len(anchored.path) :])
            self.problems.append(replace(problem, path=path))
        return _copy(anchored.data), Mark(mark.place, key, mark.text, inner=mark.inner)

    def _list(self, inner: dict[str | int, Mark]) -> list[Any]:
        """Return a list, and put the marks of its items into `inner`."""
        values: list[Any] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            index = len(values)
            self.path.append(index)
            value, inner[index] = self._value(event)
            values.append(value)
            self.path.pop()
        return values

    def _mapping(self, inner: dict[str | int, Mark]) -> dict[str, Any]:
        """Return a mapping. Its own keys override keys that `<<` merges into it.

        The last of several equal keys takes effect, as in kubectl (sigs.k8s.io/yaml, YAMLToJSON).

        Args:
            inner: receives the marks of its values.
        """
        fields: dict[str, Any] = {}
        merged: list[tuple[Any, Mark]] = []
        above: list[tuple[set[str], Place]] = []
        first_uses: dict[str, Place] = {}
        while type(event := self.next()) is not yaml.MappingEndEvent:
            key = self._key(event)
            event = self.next()
            if key is None:
                self._pass_over(event)
                continue
            place = self._place(key.start_mark)
            if _is_merge(key):
                merged.append(self._value(event))
                above.append(({*fields}, place))
                continue
            name = self._text(key.value, place)
            self.path.append(name)
            if first_uses.setdefault(name, place) is not place:
                message = f'duplicate key "{name}"; first used on line {first_uses[name].line}'
                self._note(message, "remove one of them", place, code="duplicate-key")
            fields[name], mark = self._value(event, place)
            if mark.text == "" and event.start_mark.index == event.end_mark.index:
                mark.place = place  # libyaml places an omitted value after its colon
            inner[name] = mark
            self.path.pop()
            if name in TYPES:
                self._note_type(name, fields[name], getattr(event, "tag", None))
        if not merged:
            return fields
        self._check_order(merged, above, fields)
        return self._merged(merged, inner) | fields

    def _note_type(self, name: str, value: Any, tag: str | None) -> None:
        """Record a field that shows whether an object is a Secret.

        kubectl decodes a tag such as `!!binary`.
        """
        word = str(value).strip()
        is_plain = tag in (None, "!", f"{TAG}str")
        if name == "apiVersion":
            self.has_objects |= self.level > 1 or self.has_version
            self.has_version = True
        elif name == "stringData" or not is_plain or word.lower().startswith("secret"):
            self.has_secret = True
        elif self.level == 1:
            self.kind = word

    def _check_order(
        self, merged: list[tuple[Any, Mark]], above: list[tuple[set[str], Place]], own: Any
    ) -> None:
        """Report a field above a `<<` with another value of it.

        In YAML, the field takes effect, and in kubectl the merged value (go-yaml v2, decode.go).
        """
        for (value, _), (names, place) in zip(merged, above, strict=True):
            for source in value if isinstance(value, list) else [value]:
                inner = source if isinstance(source, dict) else {}
                for name in inner:
                    if name in names and inner[name] != own[name]:
                        self.path.append(name)
                        message = f'kubectl replaces "{name}" above by the value that << merges'
                        self._note(message, "write << first", place)
                        self.path.pop()

    def _key(self, event: Any) -> Any:
        """Return the scalar of a key; None, with a problem, if the key is not a scalar."""
        if type(event) is yaml.AliasEvent:
            written = self._anchored(event).event
        elif event.anchor is None and type(event) is yaml.ScalarEvent:
            self._count(0, len(event.value), 0, event)
            return event
        else:
            written = event
            self._pass_over(event, is_key=True)
        if type(written) is yaml.ScalarEvent:
            return written
        kind = "mapping" if type(written) is yaml.MappingStartEvent else "list"
        place = self._place(written.start_mark)
        self._note(f"expected a string as key, got a {kind}", self.hint, place)
        return None

    def _pass_over(self, event: Any, *, is_key: bool = False) -> None:
        """Read a value that is not part of the data, to count it and to record its anchors."""
        problems, too_long = len(self.problems), self.too_long
        self._value(event, is_key=is_key)
        del self.problems[problems:]
        self.too_long = too_long

    def _merged(
        self, merged: list[tuple[Any, Mark]], inner: dict[str | int, Mark]
    ) -> dict[str, Any]:
        """Return the fields that `<<: *a` or `<<: [*a, *b]` merges. The first of a list wins.

        Args:
            merged: the merged values and their marks.
            inner: receives the marks of the fields.
        """
        fields: dict[str, Any] = {}
        marks: dict[str | int, Mark] = {}
        for value, mark in merged:
            is_list = isinstance(value, list)
            sources = zip(value, mark.inner.values(), strict=True) if is_list else [(value, mark)]
            for source, its in reversed(list(sources)):
                if isinstance(source, dict):
                    fields |= source
                    marks |= its.inner
                    continue
                kind = "list" if isinstance(source, list) else "scalar"
                message = f"expected a mapping to merge with <<, got a {kind}"
                self._note(message, "", its.place)
        own = dict(inner)
        inner.clear()
        inner.update(marks | own)
        return fields

    def _text(self, text: str, place: Place) -> str:
        """Return the text of a scalar, with `?` for each surrogate. Surrogates are problems."""
        if text.isascii() or not SURROGATE.search(text):
            return text
        if self.is_json:
            text = PAIR.sub(_character, text)
            if not SURROGATE.search(text):
                return text
        message = "an escape sequence is a lone surrogate, which is not a character"
        self._note(message, "write the character itself", place)
        return SURROGATE.sub("?", text)

    def _scalar(self, event: Any, place: Place) -> tuple[Any, str | None]:
        """Return a string, number, boolean or None, and its spelling; None for a string's."""
        text = self._text(event.value, place)
        if event.tag not in (None, "!"):
            kind = event.tag.removeprefix(TAG)
        else:
            kind = scalars.kind(text) if event.implicit[0] else "str"
        if kind in ("str", "timestamp", "value"):
            return text, None
        if kind not in scalars.TYPES:
            self._note_tag(event.tag or f"{TAG}{kind}", place)
            return text, None
        description, read = scalars.TYPES[kind]
        hint = "quote it if it is a string"
        if len(text) > NUMBER_DIGITS and kind in ("int", "float"):
            message = f"the number has {len(text)} characters, the limit is {NUMBER_DIGITS}"
            problem = Problem(tuple(self.path), message, "too-large", hint, place=place)
            self.too_long = self.too_long or problem
            return text, None
        try:
            return read(text), text
        except ValueError:
            message = f"expected {description}, got {'another' if self.masked else text[:60]}"
            self._note(message, hint, place)
            return text, None


def _is_merge(key: Any) -> bool:
    """Return True if a key is `<<` without quotes."""
    if key.value != "<<" or key.tag not in (None, "!"):
        return bool(key.tag == f"{TAG}merge")
    return bool(key.implicit[0])


def _copy(value: Any) -> Any:
    """Return a deep copy of a value."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _events(text: str, parser: Any) -> Callable[[], Any]:
    """Return a function that returns the next event of a text.

    All of PyYAML's parsers then raise the same errors.
    """
    loader = parser(text)

    def event() -> Any:
        try:
            return loader.get_event()
        except (OverflowError, ValueError):  # from PyYAML's own parser, for "\U00110000"
            raise yaml.MarkedYAMLError(
                problem=NO_CHARACTER, problem_mark=loader.get_mark()
            ) from None

    next_event: Callable[[], Any] = loader.get_event
    return event if parser is yaml.SafeLoader else next_event


def _no_event() -> Any:
    """Placeholder for `_Reader.next` until reading starts."""
    raise AssertionError
