"""Files, folders and standard input → texts."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlgen.problems import Place, Problem

SUFFIXES = (".json", ".yaml", ".yml")
"""The files of a folder that are read, as with `kubectl apply -f FOLDER`."""


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
            files = _files(Path(name))
        except OSError as error:
            yield _unreadable(name, error)
            continue
        if not files:
            hint = f"name a folder with {', '.join(SUFFIXES)} files"
            message = "the folder holds no manifest"
            yield Text(name, problem=Problem((), message, "unreadable", hint, place=Place(name)))
        for file in files:
            try:
                yield decoded(str(file), file.read_bytes())
            except OSError as error:
                yield _unreadable(str(file), error)


def _files(path: Path) -> list[Path]:
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
