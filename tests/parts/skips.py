"""What a test needs and cannot have skips it, with one line."""

import pytest
from parts.programs import MissingError


def available(find, *names):
    """Return what `find` finds; skip the test with what is missing otherwise."""
    try:
        return find(*names)
    except MissingError as missing:
        pytest.skip(str(missing))
