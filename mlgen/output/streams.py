"""Texts → standard output and standard error, which may be closed, or full."""

import errno
import os
import sys

INTERRUPTED = 128 + 2
"""The exit status of a program that SIGINT ended, as a shell reports it."""


def write(data: bytes) -> int:
    """Write to standard output; return the exit status of a command that does nothing more."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        return failed(error)
    return 0


def say(text: str) -> int:
    """Print lines on standard error; return the exit status of a command that does nothing more."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        return 1
    return 0


def failed(error: OSError) -> int:
    """Say on standard error why standard output cannot be written; return the exit status.

    The reader of a pipe may close it at any time, which is not worth a line.
    """
    _discard_output()
    if error.errno == errno.EPIPE or sys.stderr is None:
        return 1
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror
    return say(f"Error: cannot write to standard output: {reason}") or 1


def interrupted() -> int:
    """End the line on which a terminal shows ^C; return the exit status."""
    if sys.stderr is not None and sys.stderr.isatty():
        say("")
    return INTERRUPTED


def _discard_output() -> None:
    """Send what is still buffered for stdout nowhere; the interpreter would fail to write it."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
