"""Text → a file that is written completely or not at all."""

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from mlgen.documents.files import SUFFIXES

DRAFT = ".mlgen-draft-"
"""The start of the name of a file that is being written, in the folder of the file that it will be.

A program that is ended by a signal removes it. After `kill -9`, the next one does."""

STALE = 3600
"""The age in seconds of a draft that nobody writes any more; it takes a moment."""


def conflict(outputs: Iterable[Path], inputs: Collection[str]) -> str:
    """Return why one of the files must not be written: it is or would become an input; or "".

    Args:
        outputs: the files; they need not exist.
        inputs: files and folders as on the command line.
    """
    paths = [Path(name) for name in inputs if name != "-"]
    folders = {path.resolve(): path for path in paths if path.is_dir()}
    files = [path for path in paths if not path.is_dir()]
    for folder in folders:
        with suppress(OSError):  # reported when it is read
            files += (file for file in folder.iterdir() if file.suffix in SUFFIXES)
    identities = {identity for file in files for identity in _identities(file)}
    identities |= _of_standard_input() if "-" in inputs else set()
    for output in outputs:
        if output.exists() and not output.is_file():  # /dev/stdout, or a pipe
            continue
        if not identities.isdisjoint(_identities(output)):
            return f"{output} is both input and output; write to another file"
        parent = output.resolve().parent
        if parent in folders and output.suffix in SUFFIXES:
            where = f"{output} is in the input folder {folders[parent]}"
            return f"{where}, and would be read as a job the next time; write to another folder"
    return ""


def _of_standard_input() -> set[Path | tuple[int, int]]:
    """Return what identifies the file that standard input is redirected from, if it is one."""
    with suppress(AttributeError, OSError, ValueError):
        status = os.fstat(sys.stdin.fileno())
        return {(status.st_dev, status.st_ino)}
    return set()


def _identities(path: Path) -> Iterator[Path | tuple[int, int]]:
    """Return the path without symbolic links, and if the file exists, what its hard links share."""
    yield path.resolve()
    if path.exists():
        status = path.stat()
        yield status.st_dev, status.st_ino


def write(name: str, texts: Iterable[str], mode: int | None = None) -> None:
    """Write texts to a file atomically, and keep its mode if it exists.

    A link is replaced by the file, and what it leads to stays as it is. What is no file, such as
    /dev/stdout, is written in place, but not a pipe that somebody else has put there.

    Args:
        name: of the file.
        texts: its content, in several parts.
        mode: of the file; by default, that of a file that is there, or that of the umask.

    Raises:
        OSError: the file cannot be written; its content has not changed.
    """
    path = Path(name)
    if path.exists() and not path.is_file():
        if _is_pipe_of_another(path):
            raise PermissionError(errno.EPERM, "the pipe belongs to another user")
        with path.open("w", encoding="utf-8") as file:
            file.writelines(texts)
        return
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=DRAFT)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.writelines(texts)
        Path(draft).chmod(_mode(path) if mode is None else mode)
        Path(draft).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(draft).unlink()
        raise


def remove_drafts(folder: Path) -> None:
    """Remove what processes that were killed have left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(DRAFT):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age > STALE and entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()


def _is_pipe_of_another(path: Path) -> bool:
    """Return whether a pipe in a folder is another user's; one of a shell is in /dev or /proc."""
    status = path.stat()
    in_system = os.path.realpath(path.parent).startswith(("/dev", "/proc"))
    return stat.S_ISFIFO(status.st_mode) and not in_system and not _is_own(status)


def _is_own(status: os.stat_result) -> bool:
    """Return whether a file is this user's; Windows has no such numbers."""
    return os.name != "posix" or status.st_uid == os.geteuid()


def _mode(path: Path) -> int:
    """Return the mode of a file that is to be written: that of a file of one's own stays."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and _is_own(status):
            return stat.S_IMODE(status.st_mode)
    return 0o666 & ~_umask()


def _umask() -> int:
    """Return the umask of this process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
