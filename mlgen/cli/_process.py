"""End the process cleanly after signals, Ctrl-C and errors in writing its output.

`mlgen --help` imports this module, so it imports others only when it needs them.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

WRITERS = ("click.utils", "mlgen.cli.tools", "mlgen.live.watch")
"""The modules whose functions write to stdout."""

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a program, apart from Ctrl-C. Windows has no SIGHUP."""


@contextmanager
def output_checked() -> Iterator[None]:
    """Exit with status 1 and one line on stderr if stdout cannot be written.

    A closed pipe is not reported: click exits quietly. Other errors of the system without the name
    of a file, such as a full folder for temporary files, are reported in the same way.
    """
    if sys.stdout is None:  # stdout is closed. click would silently discard its output
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        yield
    except OSError as error:
        from mlgen.output.terminal import failed, say

        if error.errno is not None and _writes(error):
            sys.exit(failed(error))
        has_folder = _has_working_folder()
        if has_folder and (error.filename is not None or error.errno is None):
            raise
        hint = "the working folder does not exist; change to another folder"
        sys.exit(say(f"Error: {error.strerror if has_folder else hint}") or 1)


def _writes(error: OSError) -> bool:
    """Return True if an error was raised by one of the functions that write to stdout."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return last is not None and str(last.tb_frame.f_globals.get("__name__")) in WRITERS


def _has_working_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - importing pathlib would slow down `mlgen --help`
    except OSError:
        return False
    return True


class _TerminatedError(BaseException):
    """A signal that ends the process was received."""

    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, _frame: Any) -> None:
    raise _TerminatedError(number)


@contextmanager
def terminable() -> Iterator[None]:
    """On a signal, remove all temporary files, then end the process with this signal."""
    numbers = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, _end)
    except ValueError:  # not the main thread: mlgen is part of another program
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
    except click.Abort as abort:  # Ctrl-C at a prompt
        if not isinstance(abort.__context__, KeyboardInterrupt):
            raise
    else:
        return
    from mlgen.output.terminal import interrupted

    raise click.exceptions.Exit(interrupted())
