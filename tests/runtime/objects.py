"""Objects as the supervisor sees them, from only the fields that a test needs."""

from mlgen.runtime.answers import shaped
from mlgen.runtime.cluster import deleted_at, remember
from mlgen.runtime.times import seconds


def made(kind, document, now=0.0):
    """Return an object in its shape. A pod is known since the times in it, else since `now`."""
    found = shaped(kind, {"kind": kind, **document})
    if kind == "Pod":
        remember(found, None, now)
        found.update(since=seconds(found["changed"]) or now, deleted=deleted_at(found))
    return found
