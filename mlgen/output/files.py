"""Files that are written completely or not at all, and a spool of output."""

import errno
import marshal
import os
import stat
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Generic, TypeVar

from mlgen.documents.files import SUFFIXES
from mlgen.input_limits import BYTES

DRAFT = ".mlgen-draft-"
"""The start of a draft's file name. A draft is in the folder of the file that it becomes.

A process that is ended by a signal removes its draft. After `kill -9`, the next process does."""

STALE = 3600
"""The age in seconds at which a draft is abandoned. Writing a file takes much less time."""


def conflict(outputs: Iterable[Path], inputs: Collection[str]) -> str:
    """Return an error if an output file is an input, or would be read as one next time; else "".

    Args:
        outputs: the output files, which need not exist.
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
    """Return the identity of the file that stdin is redirected from; empty if there is none."""
    with suppress(AttributeError, OSError, ValueError):
        status = os.fstat(sys.stdin.fileno())
        return {(status.st_dev, status.st_ino)}
    return set()


def _identities(path: Path) -> Iterator[Path | tuple[int, int]]:
    """Yield the path without symbolic links and, if the file exists, its device and inode."""
    yield path.resolve()
    if path.exists():
        status = path.stat()
        yield status.st_dev, status.st_ino


def write(name: str, texts: Iterable[str], mode: int | None = None) -> None:
    """Write texts to a file atomically, and keep its mode if it exists.

    A symbolic link is replaced by the file. Its target does not change. A path that is not a
    regular file, such as /dev/stdout, is written in place, unless it is another user's pipe.

    Args:
        name: the name of the file.
        texts: its content, in several parts.
        mode: the file's mode; by default, the mode of the existing file, or from the umask.

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
    """Remove the drafts of killed processes from a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(DRAFT):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if age > STALE and entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()


def _is_pipe_of_another(path: Path) -> bool:
    """Return True for another user's pipe in a folder. A shell's pipe is in /dev or /proc."""
    status = path.stat()
    in_system = os.path.realpath(path.parent).startswith(("/dev", "/proc"))
    return stat.S_ISFIFO(status.st_mode) and not in_system and not _is_own(status)


def _is_own(status: os.stat_result) -> bool:
    """Return True if a file belongs to this user; always True on Windows."""
    return os.name != "posix" or status.st_uid == os.geteuid()


def _mode(path: Path) -> int:
    """Return the mode for a file: the user's existing file keeps its mode, else from the umask."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and _is_own(status):
            return stat.S_IMODE(status.st_mode)
    return 0o666 & ~_umask()


def _umask() -> int:
    """Return the umask of this process. It can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


K = TypeVar("K")
V = TypeVar("V")

MEMORY = 8 << 20
"""The maximum number of bytes in memory."""


class FullError(Exception):
    """The output has more bytes than one command may write."""


class Spool(Sequence[Any]):
    """Items of plain data: strings, bytes, numbers, None, and collections of these."""

    def __init__(self) -> None:
        # Open as long as this object.
        self._file: IO[bytes] = SpooledTemporaryFile(MEMORY)  # noqa: SIM115
        self._ends = array("Q", [0])

    def add(self, item: Any) -> None:
        """Add an item.

        Raises:
            FullError: the items have more than `BYTES` bytes together.
        """
        data = marshal.dumps(item)
        if self._ends[-1] + len(data) > BYTES:
            raise FullError
        self._file.seek(self._ends[-1])
        self._ends.append(self._ends[-1] + self._file.write(data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        self._file.seek(self._ends[number])
        data = self._file.read(self._ends[number + 1] - self._ends[number])
        return marshal.loads(data)  # noqa: S302 - of our own


class Stored(Mapping[K, V], Generic[K, V]):
    """Values by key, which are read when they are looked up.

    Args:
        keys: the keys, in order.
        read: returns the value of a key.
    """

    def __init__(self, keys: Collection[K], read: Callable[[K], V]) -> None:
        self._keys, self._read = keys, read

    def __getitem__(self, key: K) -> V:
        if key not in self._keys:
            raise KeyError(key)
        return self._read(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
