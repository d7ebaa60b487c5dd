"""Text → a file that is written completely or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write(name: str, text: str) -> None:
    """Write a file atomically, and keep its mode if it exists.

    Raises:
        OSError: the file cannot be written; its content has not changed.
    """
    path = Path(name)
    if path.exists() and not path.is_file():  # /dev/stdout, or a pipe
        path.write_text(text, encoding="utf-8")
        return
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
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
