"""A progress bar for a person at a terminal."""

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mlgen.documents.files import Text

PATIENCE = 1.0
"""The seconds after which a progress bar is shown, if there is more to do."""


@contextmanager
def progress(texts: "Iterable[Text]", label: str, length: int | None) -> "Iterator[Iterator[Text]]":
    """Yield an iterator over texts that shows a progress bar on a terminal, if that takes long.

    Args:
        texts: count by their characters.
        label: says what is done.
        length: about how many characters they have together; None if that is not known.
    """
    total = {"length": length} if length else {"iterable": iter(int, 1), "show_pos": True}
    bar: Any = click.progressbar(label=label, file=sys.stderr, **total)
    start = monotonic()
    done = 0

    def watched() -> "Iterator[Text]":
        nonlocal done
        for text in texts:
            if done and monotonic() - start > PATIENCE:
                bar.update(min(done, length or done) - bar.pos)
            yield text
            done += len(text.text)

    try:
        yield watched()
        if bar.pos:
            bar.update((length or done) - bar.pos)
    finally:
        if bar.pos:
            bar.render_finish()  # which also shows the cursor again
