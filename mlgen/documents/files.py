"""Files, folders and standard input → texts."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlgen.problems import Place, Problem

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

    Files in a folder are sorted by name; its subfolders and the file of kustomize are ignored. A
    file that cannot be read is returned as a `Text` with a problem.
    """
    for name in names:
        if name == "-":
            yield _standard_input()
            continue
        try:
            files = _files(Path(name))
        except OSError as error:
            yield _unreadable(name, error)
            continue
        problem = _unsuitable(Path(name), files)
        if problem:
            yield Text(name, problem=problem)
            continue
        for file in files:
            try:
                yield decode(str(file), file.read_bytes())
            except OSError as error:
                yield _unreadable(str(file), error)


def _standard_input() -> Text:
    """Return the text on standard input, which may be closed."""
    if sys.stdin is None:
        message, hint = "cannot be read: standard input is closed", "pass a file, or pipe one in"
        return Text(STDIN, problem=Problem((), message, "unreadable", hint, place=Place(STDIN, 0)))
    return decode(STDIN, sys.stdin.buffer.read())


def _files(path: Path) -> list[Path]:
    """Return a file itself, or the manifests in a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    return sorted(file for file in files if file.name not in KUSTOMIZATIONS)


def _unsuitable(path: Path, files: list[Path]) -> Problem | None:
    """Return the problem of a folder of Helm or kustomize, or of one without manifests, or None.

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
    return Problem((), message, "unreadable", hint, place=Place(str(path))) if hint else None


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
