"""How the process ends when its output cannot be written, or when a person interrupts it."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

INTERRUPTED = 128 + 2
"""The exit status of a program that SIGINT ended, as a shell reports it."""


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
        _discard_output()
        with suppress(OSError):
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            click.echo(f"Error: cannot write to standard output: {reason}", err=True)
        sys.exit(1)


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
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)  # end the line on which the terminal shows ^C
    raise click.exceptions.Exit(INTERRUPTED)


def _discard_output() -> None:
    """Send what is still buffered for stdout nowhere; the interpreter would fail to write it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
