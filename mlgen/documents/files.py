"""Files, folders and standard input → texts."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlgen.problems import Place, Problem

SUFFIXES = (".json", ".yaml", ".yml")
"""The files that are read from a folder, as by `kubectl apply -f FOLDER`."""


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file or of standard input, or the problem that prevented reading it.

    Attributes:
        name: the file name in messages.
        text: the content, or a part of it.
        problem: why there is no text.
        line: for a part of a file, the number of lines before it.
    """

    name: str
    text: str = ""
    problem: Problem | None = None
    line: int = 0


def texts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, folders and `-` (standard input), in this order.

    Files in a folder are sorted by name; its subfolders are ignored. A file that cannot be read is
    returned as a `Text` with a problem.
    """
    for name in names:
        if name == "-":
            yield decode("<stdin>", sys.stdin.buffer.read())
            continue
        try:
            files = _files(Path(name))
        except OSError as error:
            yield _unreadable(name, error)
            continue
        if not files:
            hint = f"specify a folder with {', '.join(SUFFIXES)} files"
            message = "the folder contains no manifests"
            yield Text(name, problem=Problem((), message, "unreadable", hint, place=Place(name)))
        for file in files:
            try:
                yield decode(str(file), file.read_bytes())
            except OSError as error:
                yield _unreadable(str(file), error)


def _files(path: Path) -> list[Path]:
    """Return a file itself, or the manifests in a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _unreadable(name: str, error: OSError) -> Text:
    """Return a text whose problem is an error of the operating system."""
    message = f"cannot be read: {error.strerror or error}"
    return Text(name, problem=Problem((), message, "unreadable", place=Place(name)))


def decode(name: str, data: bytes, line: int = 0) -> Text:
    """Decode bytes as UTF-8, with or without a byte order mark.

    Args:
        name: the file name in messages.
        data: the content of the file, or a part of it.
        line: for a part of a file, the number of lines before it.

    Returns:
        The text, or a text with a problem at the first byte that is not UTF-8.
    """
    try:
        return Text(name, data.decode("utf-8-sig"), line=line)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        row = line + before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(
            (),
            f"is not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start})",
            "not-text",
            "save it as UTF-8, or omit it",
            place=Place(name, row, column),
        )
        return Text(name, problem=problem)
