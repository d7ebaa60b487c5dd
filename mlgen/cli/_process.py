"""How the process ends when its output cannot be written, or when a person interrupts it."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from mlgen.output.terminal import failed, interrupted

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What ends a program, apart from Ctrl-C; Windows does not know the second one."""


@contextmanager
def output_checked() -> Iterator[None]:
    """Exit with status 1 and one line on stderr if stdout cannot be written.

    A closed pipe is not reported: click exits quietly.
    """
    if sys.stdout is None:  # python's value of a closed stdout, to which click prints in silence
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        sys.exit(failed(error))


class _TerminatedError(BaseException):
    """A signal is to end the process."""

    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, _frame: Any) -> None:
    raise _TerminatedError(number)


@contextmanager
def terminable() -> Iterator[None]:
    """Let a signal end the process only after all temporary files are removed."""
    numbers = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, _end)
    except ValueError:  # only the main thread can; in another, mlgen is a part of a program
        numbers = []
    try:
        yield
    except _TerminatedError as end:
        signal.signal(end.number, signal.SIG_DFL)
        os.kill(os.getpid(), end.number)
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interruptible() -> Iterator[None]:
    """Exit with status 130 and without a traceback on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        pass
    except click.Abort as abort:  # Ctrl-C while click asks for a value
        if not isinstance(abort.__context__, KeyboardInterrupt):
            raise
    else:
        return
    raise click.exceptions.Exit(interrupted())
