"""`mlgen --help` and `mlgen COMMAND --help`, from the texts that the build has prepared."""

import os
import sys

from mlgen.resources import prepared

WIDTHS = (80, 100)
"""The widths, in columns, for which texts are prepared: where there is no terminal, and the widest.

click fills a terminal up to `max_content_width` of `mlgen.cli.main`, which is the last.
"""


def text(words: list[str]) -> str | None:
    """Return the help of a command, or that of mlgen if there are no words; None if it is unknown.

    Args:
        words: the command.
    """
    part = prepared("help_texts")
    width = min(columns(), WIDTHS[-1])
    if part is None or width not in WIDTHS:
        return None
    texts: dict[str, str] = part.TEXTS[width]
    return texts.get(" ".join(words))


def columns() -> int:
    """Return the width of the terminal, as `shutil.get_terminal_size` does, which click asks."""
    try:
        width = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        width = 0
    if width > 0:
        return width
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or WIDTHS[0]  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return WIDTHS[0]
