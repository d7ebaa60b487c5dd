"""Files, folders and standard input → texts."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mlgen.bounds import DOCUMENTS, TEXT_BYTES
from mlgen.problems import Place, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

SUFFIXES = (".json", ".yaml", ".yml")
"""The files that are read from a folder, as by `kubectl apply -f FOLDER`."""

KUSTOMIZATIONS = ("Kustomization", "kustomization.yaml", "kustomization.yml")
"""The files from which kustomize builds a folder. They are not manifests."""

KUSTOMIZE_HINT = "build it first: kubectl kustomize FOLDER | mlgen render -"

CHARTS = ("Chart.yaml", "values.yaml")
"""The files of a Helm chart that are not templates."""

HELM_HINT = "render the chart first: helm template CHART | mlgen render -"


STDIN = "<stdin>"
"""What messages call standard input."""


@dataclass(frozen=True)
class Text:
    """The text of a file or of standard input, or the problem that prevented reading it.

    Attributes:
        name: the file name in messages.
        text: the content, or a part of it.
        problem: why there is no text.
        line: for a part of a file, the number of lines before it.
        item: the part is an item of a List, which is written anew.
    """

    name: str
    text: str = ""
    problem: Problem | None = None
    line: int = 0
    item: bool = False


def texts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, folders and `-` (standard input), in this order.

    Files in a folder are sorted by name; its subfolders and the file of kustomize are ignored. A
    file that cannot be read is returned as a `Text` with a problem.
    """
    return bounded(read(names, _whole))


def bounded(texts: Iterable[Text]) -> Iterator[Text]:
    """Yield texts, and a problem in place of that with which they have too many documents."""
    documents = 0
    for text in texts:
        documents += 1 + text.text.count("\n---")
        if documents > DOCUMENTS:
            yield Text(text.name, problem=too_many(text.name))
            return
        yield text


def too_many(name: str) -> Problem:
    """Return the problem of too many documents, of which the last ones are in a file."""
    hint = "read fewer files at once"
    message = f"more than {DOCUMENTS} documents"
    return Problem((), message, "too-large", hint, place=Place(name))


def too_large(name: str) -> Problem:
    """Return the problem of a file that is too large."""
    message, hint = f"is larger than {TEXT_BYTES >> 20} MiB", "split it into several files"
    return Problem((), message, "too-large", hint, place=Place(name))


class TooLargeError(Exception):
    """A text has more bytes than are read."""


def _whole(name: str, stream: "IO[bytes]") -> list[Text]:
    """Return the text of a file, in a list.

    Raises:
        TooLargeError: it has too many bytes; no more than that are read.
    """
    data = stream.read(TEXT_BYTES + 1)
    if len(data) > TEXT_BYTES:
        raise TooLargeError
    return [decode(name, data)]


def read(
    names: tuple[str, ...], texts_of: "Callable[[str, IO[bytes]], Iterable[Text]]"
) -> Iterator[Text]:
    """Yield the texts of each file, and one with a problem for what cannot be read.

    Args:
        names: as for `texts`.
        texts_of: returns the texts of a file, given its name and its content; or raises
            `TooLargeError`.
    """
    for source in _opened(names):
        if isinstance(source, Text):
            yield source
            continue
        name, stream = source
        try:
            yield from texts_of(name, stream)
        except OSError as error:
            yield _unreadable(name, error)
        except TooLargeError:
            yield Text(name, problem=too_large(name))


def _opened(names: tuple[str, ...]) -> "Iterator[tuple[str, IO[bytes]] | Text]":
    """Open files, folders and standard input as `texts` does; yield each name with its stream."""
    for name in names:
        if name == "-":
            yield _standard_input()
            continue
        try:
            files = _names(name)
        except OSError as error:
            yield _unreadable(name, error)
            continue
        if isinstance(files, Problem):
            yield Text(name, problem=files)
            continue
        for file in files:
            try:
                stream = open(file, "rb")  # noqa: PTH123, SIM115 - as in `_names`; closed below
            except OSError as error:
                yield _unreadable(file, error)
                continue
            with stream:
                yield file, stream


def _names(name: str) -> list[str] | Problem:
    """Return the names of the manifests that a file or folder stands for, or its problem."""
    # A plain file is the usual case, and to import pathlib takes as long as to read a job file.
    if os.path.isfile(name) and os.path.normpath(name) == name:  # noqa: PTH113
        return [name]
    from pathlib import Path

    files = manifests(Path(name))
    return _unsuitable(Path(name), files) or list(map(str, files))


def _standard_input() -> "tuple[str, IO[bytes]] | Text":
    """Return the name and the stream of standard input, which may be closed."""
    return Text(STDIN, problem=closed()) if sys.stdin is None else (STDIN, sys.stdin.buffer)


def closed() -> Problem:
    """Return the problem of standard input that is closed."""
    message, hint = "cannot be read: standard input is closed", "pass a file, or pipe one in"
    return Problem((), message, "unreadable", hint, place=Place(STDIN, 0))


def manifests(path: "Path") -> "list[Path]":
    """Return a file itself, or the manifests in a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in files if file.name not in KUSTOMIZATIONS)


def leads_out(path: "Path", folder: "Path") -> bool:
    """Return whether a path is that of a file outside of a folder, once links are followed."""
    from pathlib import Path

    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _unsuitable(path: "Path", files: "list[Path]") -> Problem | None:
    """Return the problem of a folder of Helm or kustomize, or of one without manifests, or None.

    A link may lead to a file of somebody else, which whoever wrote the folder could not read. So no
    link out of a folder is followed; who names a link on the command line wants the file.

    Args:
        path: the folder, or a file.
        files: its manifests, or the file itself.
    """
    hint = ""
    if path.is_dir() and (path / CHARTS[0]).is_file():
        message, hint = "the folder is a Helm chart", HELM_HINT.replace("CHART", str(path))
    elif not files and any((path / name).is_file() for name in KUSTOMIZATIONS):
        message = "the folder contains a kustomization, but no manifests"
        hint = KUSTOMIZE_HINT.replace("FOLDER", str(path))
    elif not files:
        message = "the folder contains no manifests"
        hint = f"specify a folder with {', '.join(SUFFIXES)} files"
    links = (file for file in files if file != path and file.is_symlink())
    if outside := next((file for file in links if leads_out(file, path)), None):
        message, hint = "is a link out of the folder", "copy the file into the folder"
        return Problem((), message, "unreadable", hint, place=Place(str(outside)))
    return Problem((), message, "unreadable", hint, place=Place(str(path))) if hint else None


def _unreadable(name: str, error: OSError) -> Text:
    """Return a text whose problem is an error of the operating system."""
    message = f"cannot be read: {error.strerror or error}"
    return Text(name, problem=Problem((), message, "unreadable", place=Place(name)))


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
