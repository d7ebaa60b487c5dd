"""Texts → documents, each value with its place.

The events of libyaml become data and places in one pass. kubectl and Helm read YAML with a port of
libyaml (sigs.k8s.io/yaml), so they and mlgen agree on what is a document. Where PyYAML has no C
extension, its own parser is read: slower, with the same result. Scalars are those of YAML 1.2 (`on`
and `y` are strings), with anchors and merge keys. A duplicate key is a problem.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import yaml

from mlgen.bounds import CHARACTERS, DEPTH, DOCUMENT_BYTES, DOCUMENTS, NUMBER_DIGITS, VALUES
from mlgen.documents import scalars
from mlgen.documents.chunks import is_blank, split
from mlgen.documents.document import Document, Mark
from mlgen.documents.files import Text, too_many
from mlgen.problems import Code, Place, Problem, ValuePath

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

TEMPLATE_HINT = "render the Helm chart first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

UNACCEPTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that is not in YAML (https://yaml.org/spec/1.2.2/#51-character-set)."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair: an escape such as `"\\ud83d"` produces it, UTF-8 cannot encode it."""

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Both halves: in JSON, two escapes are one character."""

ODD_BREAK = re.compile("[\x85\u2028\u2029]")
"""The line breaks of YAML 1.1, at which no editor starts a line."""

BREAK = re.compile("\r\n|\r|\n")

OF_KUBECTL = re.compile(r"^---(?![ \t\r\n]|\Z)[^\S\n]*(?:#|$)", re.MULTILINE)
"""A line at which kubectl starts a document, unlike YAML (YAMLReader.Read in
k8s.io/apimachinery/pkg/util/yaml/decoder.go)."""

DIRECTIVE = re.compile(r"(?:(?:[ \t\r]*(?:#[^\n]*)?|%YAML 1\.2[^\n]*)\n)*%(?!YAML 1\.2)")
"""The start of a document with a directive that may change its meaning, such as `%YAML 1.1`."""

NO_CHARACTER = "found invalid Unicode character escape code"
"""What libyaml says of an escape sequence such as `"\\ud83d"` or `"\\U00110000"`."""


def read_documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Return each document of a text, or, for a document that cannot be read, its problems.

    Blank documents are skipped; a text without any other is a problem.
    """
    if text.problem:
        yield [text.problem]
        return
    documents = 0
    for line, chunk in split(text.text):
        if is_blank(chunk):
            continue
        documents += 1
        if documents > DOCUMENTS:
            yield [too_many(text.name)]
            return
        yield read_document(text.name, text.line + line, chunk)
    if not documents:
        hint = "write a TrainingJob, or omit the file"
        yield [Problem((), "the file contains no documents", "empty", hint, place=Place(text.name))]


def read_document(file: str, first_line: int, chunk: str) -> Document | list[Problem]:
    """Return the document of a text, or why it cannot be read.

    Args:
        file: its name in messages.
        first_line: the number of lines before the document.
        chunk: the text of one document.
    """
    return _Reader(file, first_line, chunk, LOADER).document()


def value_document(text: str) -> Document:
    """Return one value, read as YAML 1.2, with its spelling, for `--set path=value`.

    Raises:
        ValueError: the text is not valid YAML; the message says why.
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
    """A text has a problem, and no data."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Anchored:
    """A value with an anchor, which an alias repeats.

    Attributes:
        event: its first one.
        path: of the value.
        data: the value itself.
        mark: of the value; None before its end.
        size: its values, its characters, and its levels of nesting.
        problems: those in it.
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
        is_json: kubectl reads the text as JSON.
        hint: what to do if the text is not YAML.
        lines: the offsets of all lines; empty if libyaml counts the same ones.
        path: that of the current value.
        problems: those so far.
        too_long: that of the first number that is too long; reported if the text is YAML at all.
        anchors: the values with an anchor, by its name.
        values: their number so far, including those that aliases repeat.
        characters: in all scalars so far, including those that aliases repeat.
        level: the number of mappings and lists around the current value.
        reached: the largest of these in the current value with an anchor.
    """

    def __init__(self, file: str, first_line: int, text: str, parser: Any) -> None:
        self.file, self.first_line, self.text, self.parser = file, first_line, text, parser
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
        """Return the document, or why it cannot be read.

        libyaml stops at an escape sequence for half of a character. PyYAML's own parser reads on,
        so all problems of the document are known at once.
        """
        try:
            self._check_text()
            if not self.text.isascii() and ODD_BREAK.search(self.text):
                self.lines = [0, *(match.end() for match in BREAK.finditer(self.text))]
            self.next = _events(self.text, self.parser)
            data, mark = self._root()
        except _UnreadableError as error:
            return [error.problem]
        except yaml.MarkedYAMLError as error:
            if error.problem == NO_CHARACTER and self.parser is not yaml.SafeLoader:
                return _Reader(self.file, self.first_line, self.text, yaml.SafeLoader).document()
            return [self._not_yaml(error)]
        if self.too_long:
            return [self.too_long]
        return Document(data, mark, self.problems, text=self.text)

    def _check_text(self) -> None:
        """Check what can be checked before the text is read.

        Raises:
            _UnreadableError: it is too large, or kubectl reads it in another way.
        """
        text = self.text
        # A character has up to 4 bytes.
        if len(text) > DOCUMENT_BYTES // 4 and len(text.encode(errors="replace")) > DOCUMENT_BYTES:
            message = f"the document is larger than {DOCUMENT_BYTES >> 20} MiB"
            self._refuse(message, "put data into a volume instead", 0, "too-large")
        if line := OF_KUBECTL.search(text):
            message = f'kubectl starts a document at "{line[0]}", but YAML does not'
            self._refuse(message, 'write "---" on a line of its own', line.start())
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
        if message.startswith("found character that"):
            message = message.replace("that", f"{self.text[mark.index]!r} that", 1)
        place = self._place(mark)
        return Problem((), f"is not valid YAML: {message}", "not-yaml", hint, place=place)

    def _place(self, mark: Any) -> Place:
        """Return the place in the file of a mark, which counts from the start of the document."""
        if not self.lines:
            return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)
        row = bisect_right(self.lines, mark.index)
        column = mark.index - self.lines[row - 1] + 1
        return Place(self.file, self.first_line + row, column)

    def _note(self, message: str, hint: str, place: Place | None, code: Code = "not-yaml") -> None:
        """Report a problem at a place; the rest of the document is still read."""
        self.problems.append(Problem(tuple(self.path), message, code, hint, place=place))

    def _note_tag(self, tag: str, place: Place) -> None:
        """Report a tag, such as `!Ref`, that is not one of YAML's own types."""
        self._note(f"the tag {tag} is not supported", "remove the tag", place)

    def _root(self) -> tuple[Any, Mark]:
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
        """Return the value that an event starts, and the marks of all that is in it.

        Args:
            event: of PyYAML.
            key: the place of its key.
            is_key: it is a key itself.
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
        """Return the value that an event starts, as `_value` does; it is no alias."""
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
        """Count a value with all that is in it, before it is read or repeated.

        Raises:
            _UnreadableError: these are too many.
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
        """Return what an alias stands for, and count it."""
        anchored = self.anchors.get(alias.anchor)
        if not anchored:
            message = f"found undefined alias '{alias.anchor}'"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=alias.start_mark)
        self._count(*anchored.size, alias)
        return anchored

    def _repeated(self, anchored: _Anchored, key: Place | None) -> tuple[Any, Mark]:
        """Return a copy of what an alias stands for; its places are those of the original."""
        mark = anchored.mark
        if not mark:
            place = self._place(anchored.event.start_mark)
            self._note("an alias refers to a value that contains it", "copy the value", place)
            is_mapping = type(anchored.event) is yaml.MappingStartEvent
            return ({} if is_mapping else []), Mark(place, key)
        for problem in anchored.problems:
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
        """Return a mapping, whose own keys override those that `<<` merges into it.

        Of duplicate keys the last takes effect, as in kubectl (sigs.k8s.io/yaml, YAMLToJSON).

        Args:
            inner: the marks of its values are put into it.
        """
        fields: dict[str, Any] = {}
        merged: list[tuple[Any, Mark]] = []
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
                continue
            name = self._text(key.value, place)
            self.path.append(name)
            if first_uses.setdefault(name, place) is not place:
                message = f'duplicate key "{name}"; first used on line {first_uses[name].line}'
                self._note(message, "remove one of them", place, code="duplicate-key")
            fields[name], mark = self._value(event, place)
            if mark.text == "" and event.start_mark.index == event.end_mark.index:
                mark.place = place  # libyaml gives an omitted value the place after its colon
            inner[name] = mark
            self.path.pop()
        return self._merged(merged, inner) | fields if merged else fields

    def _key(self, event: Any) -> Any:
        """Return the scalar that a key is; None if it is something else, which is a problem."""
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
        """Read what is not part of the data, only to count it and to know its anchors."""
        problems, too_long = len(self.problems), self.too_long
        self._value(event, is_key=is_key)
        del self.problems[problems:]
        self.too_long = too_long

    def _merged(
        self, merged: list[tuple[Any, Mark]], inner: dict[str | int, Mark]
    ) -> dict[str, Any]:
        """Return the fields that `<<: *a` or `<<: [*a, *b]` merges; the first of a list wins.

        Args:
            merged: what is merged, and its marks.
            inner: the marks of the fields are put into it.
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
        """Return the text of a scalar, with `?` for each surrogate, which is a problem."""
        if text.isascii() or not SURROGATE.search(text):
            return text
        if self.is_json:
            text = PAIR.sub(_character, text)
            if not SURROGATE.search(text):
                return text
        message = "an escape sequence is only half of a character (a lone surrogate)"
        self._note(message, "write the character itself", place)
        return SURROGATE.sub("?", text)

    def _scalar(self, event: Any, place: Place) -> tuple[Any, str | None]:
        """Return a string, number, boolean or None, and its spelling unless it is a string."""
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
            message = f"{text[:60]} is not {description} in JSON"
            self._note(message, hint, place)
            return text, None


def _is_merge(key: Any) -> bool:
    """Return whether a key is `<<`, and not in quotes."""
    if key.value != "<<" or key.tag not in (None, "!"):
        return bool(key.tag == f"{TAG}merge")
    return bool(key.implicit[0])


def _copy(value: Any) -> Any:
    """Return a value that can be changed without changing the original."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _events(text: str, parser: Any) -> Callable[[], Any]:
    """Return what returns the next event of a text; PyYAML's parsers then raise the same errors."""
    loader = parser(text)

    def event() -> Any:
        try:
            return loader.get_event()
        except (OverflowError, ValueError):  # of PyYAML's own parser, for "\U00110000"
            raise yaml.MarkedYAMLError(
                problem=NO_CHARACTER, problem_mark=loader.get_mark()
            ) from None

    next_event: Callable[[], Any] = loader.get_event
    return event if parser is yaml.SafeLoader else next_event


def _no_event() -> Any:
    """Return the first event of a text that is not read yet."""
    raise AssertionError
