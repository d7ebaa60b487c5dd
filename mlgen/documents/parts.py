"""Files, folders and standard input → the text of each document, read one after the other."""

import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlgen.bounds import TEXT_BYTES
from mlgen.documents.chunks import chunks, is_blank, split
from mlgen.documents.files import (
    STDIN,
    Text,
    TooLargeError,
    bounded,
    closed,
    decode,
    manifests,
    read,
    too_large,
)
from mlgen.problems import MlgenError

LONE_RETURN = re.compile(r"\r(?!\n)")


def parts(names: tuple[str, ...]) -> Iterator[Text]:
    """Read files, folders and `-`, as `files.texts` does, and yield a text for each document.

    Blank documents are passed over; a file without any other is yielded as an empty text.
    """
    return bounded(read(names, _parts))


def size(names: tuple[str, ...]) -> int | None:
    """Return the number of bytes that `parts` reads; None if it is not known."""
    try:
        if "-" in names:
            status = os.fstat(sys.stdin.fileno())
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return sum(file.stat().st_size for name in names for file in manifests(Path(name)))
    except (AttributeError, OSError, ValueError):  # it is said when the file is read
        return None


def documents(text: Text) -> Iterator[Text]:
    """Yield each document of a text that is read already, or the text if it has none."""
    blank = True
    for line, chunk in split(text.text):
        if not is_blank(chunk):
            blank = False
            yield Text(text.name, chunk, line=text.line + line)
    if blank:
        yield text


def standard_input() -> Iterator[bytes]:
    """Yield the lines of standard input, of which each document has a bound, and not the whole.

    Raises:
        MlgenError: it is closed, or a document is too large.
    """
    if sys.stdin is None:
        raise MlgenError([closed()])
    left = TEXT_BYTES
    while line := sys.stdin.buffer.readline(left + 1):
        left = (TEXT_BYTES if line.startswith(b"---") else left) - len(line)
        if left < 0:
            raise MlgenError([too_large(STDIN)])
        yield line


def _parts(name: str, stream: IO[bytes]) -> Iterator[Text]:
    """Yield the documents of a file."""
    line = offset = 0
    empty = True
    for _, chunk in chunks(_lines(stream)):
        text = decode(name, chunk, line, offset)
        if text.problem or not is_blank(text.text):
            empty = False
            yield text
        # `chunks` counts the lines of bytes, which end at newlines only.
        line += chunk.count(b"\n") + (len(LONE_RETURN.findall(text.text)) if b"\r" in chunk else 0)
        offset += len(chunk)
    if empty:
        yield Text(name)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file.

    Raises:
        TooLargeError: they have too many bytes; no more than that are read.
    """
    left = TEXT_BYTES
    while line := stream.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise TooLargeError
        yield line
