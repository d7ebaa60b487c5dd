"""Stores output until the command knows that there is no error. It is then read again.

Memory holds `MEMORY` bytes. More go to a temporary file.
"""

import marshal
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Generic, TypeVar

from mlgen.bounds import BYTES

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
