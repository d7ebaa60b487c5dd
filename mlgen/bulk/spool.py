"""Texts that are kept until all of them are known, outside of memory if they are many."""

import io
import marshal
import os
from collections.abc import Iterator
from typing import IO, Any

MAX_BYTES = 8 << 20
"""What is kept in memory; beyond it, a temporary file is used."""


class Spool:
    """Tuples of strings, numbers and None, which can be read again."""

    def __init__(self) -> None:
        self._file: IO[bytes] = io.BytesIO()
        self._in_memory = True

    def add(self, item: tuple[Any, ...]) -> int:
        """Add an item, and return its position."""
        position = self._file.seek(0, os.SEEK_END)
        if self._in_memory and position > MAX_BYTES:
            self._spill()
        self._file.write(marshal.dumps(item))
        return position

    def _spill(self) -> None:
        """Go on in a temporary file, which vanishes with this object."""
        import tempfile

        file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        self._file.seek(0)
        file.write(self._file.read())
        self._file, self._in_memory = file, False

    def read(self, position: int) -> tuple[Any, ...]:
        """Return the item at a position."""
        self._file.seek(position)
        item: tuple[Any, ...] = marshal.load(self._file)  # noqa: S302 - of our own
        return item

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        end, position = self._file.seek(0, os.SEEK_END), 0
        while position < end:
            yield self.read(position)
            position = self._file.tell()
