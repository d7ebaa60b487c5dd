"""YAML text → a document with the place of each value, or what is wrong with it."""

import re
from collections.abc import Callable
from typing import Any

from mlgen.bounds import DOCUMENT_BYTES, NUMBER_DIGITS
from mlgen.documents import _scalars
from mlgen.documents._composer import TooLargeError, composer
from mlgen.documents.document import Document
from mlgen.documents.marks import Mark
from mlgen.problems import Code, Place, Problem

TEMPLATE_HINT = "render the Helm chart first: helm template CHART | mlgen render -"

TAG = "tag:yaml.org,2002:"

KINDS = {"mapping": "mapping", "sequence": "list", "scalar": "scalar"}
"""What messages call the nodes of ruamel.yaml."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair: an escape such as `"\\ud83d"` produces it, UTF-8 cannot encode it."""

OF_KUBECTL = re.compile(r"^---(?![ \t\r\n]|\Z)[^\S\n]*(?:#|$)", re.MULTILINE)
"""A line at which kubectl starts a document, unlike YAML (YAMLReader.Read in
k8s.io/apimachinery/pkg/util/yaml/decoder.go)."""

DIRECTIVE = re.compile(r"(?:(?:[ \t\r]*(?:#[^\n]*)?|%YAML 1\.2[^\n]*)\n)*%(?!YAML 1\.2)")
"""The start of a document with a directive that may change its meaning, such as `%YAML 1.1`."""

SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", lambda _: None),
    "bool": ("a boolean", _scalars.boolean),
    "int": ("an integer", _scalars.integer),
    "float": ("a number", _scalars.number),
}
"""For each YAML type other than strings: its description in messages, and how it is read."""


class Reader:
    """Converts the nodes of ruamel.yaml for one document into data, marks and problems.

    Attributes:
        file: its name in messages.
        first_line: number of lines before the document.
        problems: those of the document so far.
        hint: what to do if the text is not YAML.
        path: that of the current value.
        ancestors: ids of the nodes that contain it.
    """

    def __init__(self, file: str, first_line: int) -> None:
        self.file, self.first_line = file, first_line
        self.problems: list[Problem] = []
        self.hint = ""
        self.path: list[str | int] = []
        self.ancestors: set[int] = set()

    def read(self, text: str) -> Document | list[Problem]:
        """Return the document, without its text, or why it cannot be read."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.hint = TEMPLATE_HINT if "{{" in text else ""
        refused = self._refused(text)
        if refused:
            return [refused]
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = composer()
        try:
            node = yaml.compose(text)
            data, mark = self._value(node) if node else (None, Mark(self._place(None)))
        except (OverflowError, ValueError):  # of ruamel.yaml, for "\U00110000"
            message = "is not valid YAML: an escape sequence stands for no character"
            return [self._problem(message, "not-yaml")]
        except TooLargeError as error:
            return [self._problem(error.message, "too-large", error.hint, error.mark)]
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = " ".join(str(error.problem or error.context).split())
            return [self._problem(f"is not valid YAML: {message}", "not-yaml", self.hint, mark)]
        except YAMLError as error:
            before = text[: getattr(error, "position", 0)]
            line = self.first_line + before.count("\n") + 1
            place = Place(self.file, line, len(before) - before.rfind("\n"))
            message = f"is not valid YAML: {str(error).splitlines()[0]}"
            return [Problem((), message, "not-yaml", place=place)]
        return Document(data, lambda: mark, self.problems)

    def _refused(self, text: str) -> Problem | None:
        """Return the problem of a text that is too large, or that kubectl reads in another way."""
        if len(text.encode(errors="surrogatepass")) > DOCUMENT_BYTES:
            message = f"the document is larger than {DOCUMENT_BYTES >> 20} MiB"
            return self._problem(message, "too-large", "put data into a volume instead")
        line, directive = OF_KUBECTL.search(text), DIRECTIVE.match(text)
        if line:
            message = f'kubectl starts a document at "{line[0]}", but YAML does not'
            hint = 'write "---" on a line of its own'
        elif directive:
            message = "directives other than %YAML 1.2 are not supported"
            hint = "remove the line"
        else:
            return None
        at = line.start() if line else directive.end() if directive else 0
        number = self.first_line + text.count("\n", 0, at) + 1
        return Problem((), message, "not-yaml", hint, place=Place(self.file, number))

    def _problem(self, message: str, code: Code, hint: str = "", mark: Any = None) -> Problem:
        """Return a problem at a mark of ruamel.yaml, or at the start of the document."""
        return Problem(tuple(self.path), message, code, hint, place=self._place(mark))

    def _place(self, mark: Any) -> Place:
        """Return the place in the file of a mark, which counts from the start of the document."""
        if mark is None:
            return Place(self.file, self.first_line + 1)
        return Place(self.file, self.first_line + mark.line + 1, mark.column + 1)

    def _note(self, message: str, hint: str, node: Any, code: Code = "not-yaml") -> None:
        """Report a problem with one node; the rest of the document is still read."""
        self.problems.append(self._problem(message, code, hint, node.start_mark))

    def _value(self, node: Any, key: Place | None = None) -> tuple[Any, Mark]:
        """Return the data of a node, and the marks of all that is in it.

        Args:
            node: of ruamel.yaml.
            key: the place of its key.
        """
        place = self._place(node.start_mark)
        if node.id == "scalar":
            value, text = self._scalar(node)
            return value, Mark(place, key, text)
        if node.tag not in (TAG + "map", TAG + "seq"):
            self._note_tag(node)
        if id(node) in self.ancestors:
            self._note("an alias refers to a value that contains it", "copy the value", node)
            return ({} if node.id == "mapping" else []), Mark(place, key)
        self.ancestors.add(id(node))
        inner: dict[Any, Mark] = {}
        value = self._mapping(node, inner) if node.id == "mapping" else self._list(node, inner)
        self.ancestors.remove(id(node))
        return value, Mark(place, key, inner=inner)

    def _list(self, node: Any, inner: dict[Any, Mark]) -> list[Any]:
        """Return a list, and put the marks of its items into `inner`."""
        values = []
        for index, item in enumerate(node.value):
            self.path.append(index)
            value, inner[index] = self._value(item)
            values.append(value)
            self.path.pop()
        return values

    def _mapping(self, node: Any, inner: dict[Any, Mark]) -> dict[str, Any]:
        """Return a mapping, whose own keys override those that `<<` merges into it.

        Of duplicate keys the last takes effect, as in kubectl (sigs.k8s.io/yaml, YAMLToJSON).

        Args:
            node: of ruamel.yaml.
            inner: the marks of its values are put into it.
        """
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                merged |= self._merged(value, inner)
        fields: dict[str, Any] = {}
        first_uses: dict[str, Place] = {}
        for key, value in node.value:
            if key.tag == TAG + "merge":
                continue
            if key.id != "scalar":
                self._note(f"expected a string as key, got a {KINDS[key.id]}", self.hint, key)
                continue
            name = self._text(key)
            key_place = self._place(key.start_mark)
            self.path.append(name)
            first = first_uses.setdefault(name, key_place)
            if first is not key_place:
                self._note_duplicate(name, key, first)
            fields[name], mark = self._value(value, key_place)
            if value.id == "scalar" and value.start_mark.index == value.end_mark.index:
                mark.place = key_place  # ruamel.yaml gives an omitted value that of the next key
            inner[name] = mark
            self.path.pop()
        return merged | fields

    def _merged(self, node: Any, inner: dict[Any, Mark]) -> dict[str, Any]:
        """Return the fields that `<<: *a` or `<<: [*a, *b]` merges; the first of a list wins.

        Args:
            node: what is merged.
            inner: the marks of the fields are put into it.
        """
        fields: dict[str, Any] = {}
        for source in reversed(node.value) if node.id == "sequence" else [node]:
            if source.id != "mapping":
                message = f"expected a mapping to merge with <<, got a {KINDS[source.id]}"
                self._note(message, "", source)
                continue
            value, mark = self._value(source)
            fields |= value
            inner |= mark.inner
        return fields

    def _note_duplicate(self, name: str, key: Any, first: Place) -> None:
        """Report a further use of a key, with the line of the first one."""
        message = f'duplicate key "{name}"; first used on line {first.line}'
        self._note(message, "remove one of them", key, code="duplicate-key")

    def _note_tag(self, node: Any) -> None:
        """Report a tag, such as `!Ref`, that is not one of YAML's own types."""
        self._note(f"the tag {node.tag} is not supported", "remove the tag", node)

    def _text(self, node: Any) -> str:
        """Return the text of a scalar, with `?` for each surrogate, which is a problem."""
        text = str(node.value)
        if SURROGATE.search(text):
            message = "an escape sequence is only half of a character (a lone surrogate)"
            self._note(message, "write the character itself", node)
            return SURROGATE.sub("?", text)
        return text

    def _scalar(self, node: Any) -> tuple[Any, str | None]:
        """Return a string, number, boolean or None, as the node's tag says, and its spelling.

        That of a string is None.

        Raises:
            TooLargeError: it is a number that is too long.
        """
        text = self._text(node)
        kind = node.tag.removeprefix(TAG)
        if kind in ("str", "timestamp", "value"):
            return text, None
        if kind not in SCALARS:
            self._note_tag(node)
            return text, None
        description, read = SCALARS[kind]
        hint = "quote it if it is a string"
        if len(text) > NUMBER_DIGITS and kind in ("int", "float"):
            message = f"the number has {len(text)} characters, the limit is {NUMBER_DIGITS}"
            raise TooLargeError(message, hint, node.start_mark)
        try:
            return read(text), text
        except ValueError:
            message = f"{text[:60]} is not {description} that a manifest can hold"
            self._note(message, hint, node)
            return text, None
