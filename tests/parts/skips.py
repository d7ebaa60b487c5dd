"""Skips tests whose programs are missing, with one line."""

import pytest
from parts.programs import MissingError


def available(find, *names):
    """Return the result of `find`; skip the test if it raises a MissingError."""
    try:
        return find(*names)
    except MissingError as missing:
        pytest.skip(str(missing))
