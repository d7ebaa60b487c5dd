"""How the process ends when its output cannot be written, or when a person interrupts it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from mlgen.output.streams import failed, interrupted


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
