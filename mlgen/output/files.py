"""Text → a file that is written completely or not at all."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from mlgen.documents.files import SUFFIXES


def conflict(outputs: Iterable[Path], inputs: Iterable[str]) -> str:
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


def _identities(path: Path) -> Iterator[Path | tuple[int, int]]:
    """Return the path without symbolic links, and if the file exists, what its hard links share."""
    yield path.resolve()
    if path.exists():
        status = path.stat()
        yield status.st_dev, status.st_ino


def write(name: str, texts: Iterable[str]) -> None:
    """Write texts to a file atomically, and keep its mode if it exists.

    Raises:
        OSError: the file cannot be written; its content has not changed.
    """
    path = Path(name)
    if path.exists() and not path.is_file():  # /dev/stdout, or a pipe
        with path.open("w", encoding="utf-8") as file:
            file.writelines(texts)
        return
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.writelines(texts)
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        Path(draft).chmod(mode)
        Path(draft).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(draft).unlink()
        raise


def _umask() -> int:
    """Return the umask of this process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
