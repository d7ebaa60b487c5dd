"""Reports missing programs with one line: see `support.missing`."""

from parts.programs import MissingError
from support import missing


def available(find, *names):
    """Return the result of `find`. If it raises a MissingError, the program is missing."""
    try:
        return find(*names)
    except MissingError as error:
        return missing(str(error))
