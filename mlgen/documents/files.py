"""Reads files, folders and stdin, as whole texts or as one text per document."""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, AnyStr, NamedTuple

from mlgen.input_limits import DOCUMENTS, TEXT_BYTES
from mlgen.problems import Code, MlgenError, Place, Problem

SUFFIXES = (".json", ".yaml", ".yml")
"""The suffixes of files that are read from a folder, as in `kubectl apply -f FOLDER`."""

KUSTOMIZATIONS = ("Kustomization", "kustomization.yaml", "kustomization.yml")
"""The files from which kustomize builds a folder. They are not manifests."""

KUSTOMIZE_HINT = "build it first: kubectl kustomize FOLDER | mlgen render -"


CHARTS = ("Chart.yaml", "values.yaml")
"""The files of a Helm chart that are not templates."""

HELM_HINT = "render the chart first: helm template CHART | mlgen render -"


STDIN = "<stdin>"
"""The name of stdin in messages."""


MARKERS = ("---", b"---")

AFTER = ("", " ", "\t", "\n", "\r", b"", b" ", b"\t", b"\n", b"\r")
"""Characters after a `---` that starts a document.

https://yaml.org/spec/1.2.2/#912-document-markers
"""

IGNORED = ("", "#", b"", b"#")
"""The first characters of lines without content."""

VERSION = ("%YAML 1.2", b"%YAML 1.2")
"""The directive that has no effect."""


@dataclass(frozen=True)
class Text:
    """The text of a file or of stdin, or the problem that prevented reading it.

    Attributes:
        name: the file name in messages.
        text: the content, or a part of it.
        problem: the reason if there is no text.
        line: for a part of a file, the number of lines before it.
        item: True if the part is an item of a List. Its text is then not kept as written.
        context: the documents of all input that custom resources in this text may refer to.
        others: for the kustomization of a folder, the names of the manifests in the folder. It
            contains no documents.
        quotable: True for a single line that messages may quote.
    """

    name: str
    text: str = ""
    problem: Problem | None = None
    line: int = 0
    item: bool = False
    context: "Context | None" = field(default=None, compare=False, repr=False)
    others: tuple[str, ...] | None = None
    quotable: bool = False


Reader = Callable[[str, IO[bytes]], Iterable[Text]]
"""Returns the texts of a file from its name and content, or raises `TooLargeError`."""


class Context(NamedTuple):
    """The documents of all input that are merged into custom resources, or replaced by jobs.

    Attributes:
        texts: the texts that contain documents that are merged.
        names: their names, as far as custom resources in the input refer to them.
        jobs: the namespaces and names of jobs with the name of a headless Service in the input. A
            namespace is "" if it is not set.
    """

    texts: tuple[Text, ...]
    names: frozenset[str]
    jobs: frozenset[tuple[str, str]] = frozenset()


def texts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, folders and `-` (stdin), in this order.

    Files in a folder are sorted by name, after its kustomization. Subfolders are ignored. A file
    that cannot be read is returned as a `Text` with a problem.
    """
    return bounded(read(names, _whole), TEXT_BYTES)


def bounded(texts: Iterable[Text], most: int | None = None) -> Iterator[Text]:
    """Yield texts until they are too many, then a problem instead of a text.

    Args:
        texts: the texts, with at most `DOCUMENTS` documents together.
        most: the maximum number of characters together, if they are kept in memory.
    """
    documents = characters = 0
    for text in texts:
        documents += 1 + text.text.count("\n---")
        characters += len(text.text)
        if most is not None and characters > most:
            message = f"all files together have more than {most >> 20} MiB"
            hint = "pass fewer files at a time"
            yield Text(text.name, problem=_problem(text.name, message, "too-large", hint))
            return
        if documents > DOCUMENTS:
            yield Text(text.name, problem=too_many(text.name))
            return
        yield text


def too_many(name: str) -> Problem:
    """Return the problem of too many documents, at the file that exceeds the limit."""
    message, hint = f"more than {DOCUMENTS} documents", "read fewer files at once"
    return _problem(name, message, "too-large", hint)


def too_large(name: str) -> Problem:
    """Return the problem of a file that is too large."""
    message, hint = f"is larger than {TEXT_BYTES >> 20} MiB", "split it into several files"
    return _problem(name, message, "too-large", hint)


def _problem(name: str, message: str, code: Code, hint: str = "") -> Problem:
    """Return the problem of a whole file."""
    return Problem((), message, code, hint, place=Place(name))


class TooLargeError(Exception):
    """A text has more bytes than the limit."""


def _whole(name: str, stream: IO[bytes]) -> list[Text]:
    """Return the text of a file, in a list.

    Raises:
        TooLargeError: it has more than `TEXT_BYTES` bytes. Reading stops there.
    """
    data = stream.read(TEXT_BYTES + 1)
    if len(data) > TEXT_BYTES:
        raise TooLargeError
    return [decode(name, data)]


def read(names: tuple[str, ...], texts_of: Reader) -> Iterator[Text]:
    """Yield the texts of each file, or a text with a problem if the file cannot be read.

    Args:
        names: as for `texts`.
        texts_of: reads a file.
    """
    for name in names:
        if name == "-":
            yield from _read(None, texts_of)
            continue
        if re.match("[a-z][a-z0-9]*://", name):
            message, hint = "is a URL, not a file", "download it, or pipe it in and pass -"
            yield Text(name, problem=_problem(name, message, "unreadable", hint))
            continue
        try:
            files = manifests(Path(name))
            problem = _unsuitable(Path(name), files)
        except OSError as error:
            yield _unreadable(name, error)
            continue
        if problem:
            yield Text(name, problem=problem)
            continue
        if path := kustomization(Path(name)):
            others = tuple(file.name for file in files)
            yield from (replace(text, others=others) for text in _read(path, _whole))
        for file in files:
            yield from _read(file, texts_of)


def _read(file: Path | None, texts_of: Reader) -> Iterator[Text]:
    """Yield the texts of one file or of stdin, or a text with a problem. See `read`."""
    name = str(file) if file else STDIN
    try:
        if file:
            with file.open("rb") as stream:
                yield from texts_of(name, stream)
        elif sys.stdin is None:
            yield Text(name, problem=closed())
        else:
            yield from texts_of(name, sys.stdin.buffer)
    except OSError as error:
        yield _unreadable(name, error)
    except TooLargeError:
        yield Text(name, problem=too_large(name))


def closed() -> Problem:
    """Return the problem of a closed stdin."""
    message, hint = "cannot be read: standard input is closed", "pass a file, or pipe one in"
    return Problem((), message, "unreadable", hint, place=Place(STDIN, 0))


def manifests(path: Path) -> list[Path]:
    """Return a file itself, or the manifests in a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in files if file.name not in KUSTOMIZATIONS)


def kustomization(folder: Path) -> Path | None:
    """Return the kustomization of a folder; None without one."""
    return next((path for name in KUSTOMIZATIONS if (path := folder / name).is_file()), None)


def leads_out(path: Path, folder: Path) -> bool:
    """Return True if a path, after following links, is outside of a folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _unsuitable(path: Path, files: list[Path]) -> Problem | None:
    """Return the problem of a Helm chart, a kustomization or a folder without manifests, or None.

    A link in a folder may lead to a file that the author of the folder has no permission to read.
    Therefore, links out of a folder are not followed. A link on the command line is followed.

    Args:
        path: the folder, or a file.
        files: its manifests, or the file itself.
    """
    hint = ""
    if path.is_dir() and (path / CHARTS[0]).is_file():
        message, hint = "the folder is a Helm chart", HELM_HINT.replace("CHART", str(path))
    elif not files and kustomization(path):
        message = "the folder contains a kustomization, but no manifests"
        hint = KUSTOMIZE_HINT.replace("FOLDER", str(path))
    elif not files:
        message = "the folder contains no manifests"
        hint = f"specify a folder with {', '.join(SUFFIXES)} files"
    links = (file for file in files if file != path and file.is_symlink())
    if outside := next((file for file in links if leads_out(file, path)), None):
        message, hint = "is a link to a file outside of the folder", "copy the file into the folder"
        return _problem(str(outside), message, "unreadable", hint)
    return _problem(str(path), message, "unreadable", hint) if hint else None


def _unreadable(name: str, error: OSError) -> Text:
    """Return a text with the problem of an operating system error."""
    message = f"cannot be read: {error.strerror or error}"
    return Text(name, problem=_problem(name, message, "unreadable"))


def decode(name: str, data: bytes, line: int = 0, offset: int = 0) -> Text:
    """Decode bytes as UTF-8, with or without a byte order mark.

    Args:
        name: the file name in messages.
        data: the content of the file, or a part of it.
        line: for a part of a file, the number of lines before it.
        offset: for a part of a file, the number of bytes before it.

    Returns:
        The text, or a text with a problem at the first byte that is not UTF-8.
    """
    try:
        return Text(name, data.decode("utf-8" if offset else "utf-8-sig"), line=line)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        row = line + before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(
            (),
            f"is not UTF-8 text (byte 0x{data[error.start]:02x} at offset {offset + error.start})",
            "not-text",
            "save it as UTF-8, or omit it",
            place=Place(name, row, column),
        )
        return Text(name, problem=problem, line=line)


LONE_RETURN = re.compile(r"\r(?!\n)")


def parts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, folders and `-`, as `files.texts` does, and yield a text for each document.

    Blank documents are skipped. A file with only blank documents is yielded as an empty text.
    """
    return bounded(read(names, _parts))


def documents(text: Text) -> Iterator[Text]:
    """Yield each document of a text, or the text itself if it contains none."""
    blank = True
    for line, chunk in split(text.text):
        if not is_blank(chunk):
            blank = False
            yield replace(text, text=chunk, line=text.line + line)
    if blank:
        yield text


def standard_input() -> Iterator[bytes]:
    """Yield the lines of stdin. The size limit applies to each document, not to the whole stream.

    Raises:
        MlgenError: stdin is closed, or a document is too large.
    """
    if sys.stdin is None:
        raise MlgenError([closed()])
    try:
        yield from _bounded_lines(sys.stdin.buffer, each=True)
    except TooLargeError:
        raise MlgenError([too_large(STDIN)]) from None


def _parts(name: str, stream: IO[bytes]) -> Iterator[Text]:
    """Yield the documents of a file."""
    line = offset = 0
    empty = True
    for _, chunk in chunks(_bounded_lines(stream)):
        text = decode(name, chunk, line, offset)
        if text.problem or not is_blank(text.text):
            empty = False
            yield text
        # `chunks` counts lines of bytes. These end only at newlines.
        line += chunk.count(b"\n") + (len(LONE_RETURN.findall(text.text)) if b"\r" in chunk else 0)
        offset += len(chunk)
    if empty:
        yield Text(name)


def _bounded_lines(stream: IO[bytes], *, each: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file.

    Args:
        stream: of the file.
        each: True if the size limit applies to each document, False if to the whole file.

    Raises:
        TooLargeError: they exceed the limit. Reading stops there.
    """
    left = TEXT_BYTES
    while line := stream.readline(left + 1):
        left = (TEXT_BYTES if each and line.startswith(b"---") else left) - len(line)
        if left < 0:
            raise TooLargeError
        yield line


def chunks(lines: Iterable[AnyStr]) -> Iterator[tuple[int, AnyStr]]:
    """Split a stream before each `---` line.

    Args:
        lines: str or bytes, with their line endings.

    Returns:
        For each document, the number of its first line (from 0) and its text. The texts add up to
        the stream.
    """
    start = 0
    document: list[AnyStr] = []
    for number, line in enumerate(lines):
        if line[:3] in MARKERS and document and _starts_with_marker(line):
            yield start, document[0][:0].join(document)
            start, document = number, [line]
        else:
            document.append(line)
    if document:
        yield start, document[0][:0].join(document)


def split(text: str) -> Iterator[tuple[int, str]]:
    """Split a text into documents, as `chunks` splits lines."""
    if "\r" in text:
        yield from chunks(io.StringIO(text, newline=""))
        return
    start = line = 0
    end = text.find("\n---")
    while end >= 0:
        if text[end + 4 : end + 5] in AFTER:
            yield line, text[start : end + 1]
            line += text.count("\n", start, end + 1)
            start = end + 1
        end = text.find("\n---", end + 1)
    if text[start:]:
        yield line, text[start:]


def is_blank(chunk: AnyStr) -> bool:
    """Return True if a document contains only its `---`, comments and `%YAML 1.2`.

    As in kubectl, a comment also ends at the line breaks of YAML 1.1, such as U+2028, and only
    spaces and tabs are blanks (go-yaml, yamlprivateh.go, is_break and is_blank).
    """
    text = chunk if isinstance(chunk, str) else chunk.decode(errors="replace")
    rows = without_marker(text).splitlines()
    return all(row.lstrip(" \t")[:1] in IGNORED or row[:9] in VERSION for row in rows)


def without_marker(chunk: AnyStr) -> AnyStr:
    """Return a document with its `---` replaced by spaces.

    The rest of that line belongs to the document, and keeps its columns.
    """
    if not _starts_with_marker(chunk):
        return chunk
    return f"   {chunk[3:]}" if isinstance(chunk, str) else b"   " + chunk[3:]


def is_marked(chunk: str) -> bool:
    """Return True if a document starts with a line of `---`, alone or before a comment.

    kubectl and YAML agree on these lines. kubectl does not see `--- {}` or `---` before a lone
    carriage return.
    """
    line, end, _ = chunk.partition("\n")
    rest = line[3:].removesuffix("\r" if end else "")
    return _starts_with_marker(chunk) and "\r" not in rest and rest.lstrip(" \t")[:1] in ("", "#")


def _starts_with_marker(text: AnyStr) -> bool:
    """Return True if a text is `---`, or starts with `---` and white space."""
    return text[:3] in MARKERS and text[3:4] in AFTER
