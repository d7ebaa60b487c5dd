"""Texts → the results of a function on them, from several processes, in the order of the texts."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from mlgen.documents.files import Text

T = TypeVar("T")


BATCH, BATCH_CHARACTERS = 16, 1 << 16
"""The maximum number of texts in a batch, and of characters above which a batch is complete."""

AHEAD = 4
"""The maximum number of batches per process that are in progress or wait for an earlier batch."""

DIED = "a worker process was killed; if memory is short, pass a smaller number to --jobs"


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def results(
    work: Callable[[Text], T], texts: Iterable[Text], jobs: int
) -> Generator[tuple[Text, T], None, None]:
    """Yield each text with the result of `work`.

    Args:
        work: the function, which can be pickled.
        texts: the texts, which are read when they are needed.
        jobs: the number of processes; 0: one for each core. A single batch starts no process.

    Raises:
        ChildProcessError: a worker process has died.
    """
    batches = _batches(texts)
    first = list(islice(batches, jobs or cores()))
    if len(first) == 1:
        yield from ((text, work(text)) for text in first[0])
        return
    with _started(work, len(first)) as connections:
        yield from _in_order(connections, chain(first, batches))


def _batches(texts: Iterable[Text]) -> Iterator[list[Text]]:
    """Yield batches of texts, which reduce the communication between processes."""
    batch: list[Text] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.text)
        if len(batch) == BATCH or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _in_order(
    connections: Sequence[Connection], batches: Iterator[list[Text]]
) -> Iterator[tuple[Text, Any]]:
    """Yield the texts of batches with their results.

    A process gets one batch at a time. With a second batch in transit, it and this process could
    deadlock, each waiting for the other to read.
    """
    idle: list[Any] = [*connections]
    busy: dict[Any, int] = {}
    sent: dict[int, list[Text]] = {}
    done: dict[int, list[Any]] = {}
    count = first = 0
    while True:
        while idle and count - first < AHEAD * len(connections):
            batch = next(batches, None)
            if batch is None:
                break
            connection = idle.pop()
            connection.send(batch)
            sent[count], busy[connection] = batch, count
            count += 1
        if not sent:
            return
        for ready in wait(busy) if first not in done else ():
            done[busy.pop(ready)] = _received(ready)
            idle.append(ready)
        while first in done:
            yield from zip(sent.pop(first), done.pop(first), strict=True)
            first += 1


def _received(connection: Any) -> list[Any]:
    """Return the results of a batch.

    Raises:
        ChildProcessError: the process has died, or its function has raised an error.
    """
    try:
        answer: list[Any] | ChildProcessError = connection.recv()
    except (EOFError, OSError):
        raise ChildProcessError(DIED) from None
    if isinstance(answer, ChildProcessError):
        raise answer
    return answer


@contextmanager
def _started(work: Callable[[Text], Any], number: int) -> Iterator[list[Connection]]:
    """Start processes, and yield a connection to each. Kill all of them at the end."""
    connections: list[Connection] = []
    processes = []
    try:
        for _ in range(number):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=_serve, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            connections.append(ours)
            processes.append(process)
        yield connections
    finally:
        for process in processes:
            process.kill()  # Python drops any other signal that arrives while the process starts
        for process in processes:
            process.join()


def _serve(connection: Connection, work: Callable[[Text], Any]) -> None:
    """Work on batches until the parent process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent process
    for name in ("SIGTERM", "SIGHUP"):  # only the parent process has files to remove
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    streams: list[Any] = [connection, *([parent.sentinel] if parent else [])]
    while wait(streams) == [connection]:
        try:
            batch = connection.recv()
        except EOFError:
            return
        connection.send(_answer(batch, work))


def _answer(batch: list[Text], work: Callable[[Text], Any]) -> list[Any] | ChildProcessError:
    """Return the results for a batch, or an error with the traceback if `work` raises one."""
    try:
        return [work(text) for text in batch]
    except Exception:  # noqa: BLE001 - the parent process reports it
        return ChildProcessError(traceback.format_exc())
