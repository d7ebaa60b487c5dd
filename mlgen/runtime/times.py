"""Times in the format of the API server."""

from __future__ import annotations

import calendar
import time

FIELDS = (slice(4), slice(5, 7), slice(8, 10), slice(11, 13), slice(14, 16), slice(17, 19))
"""The year, month, day, hour, minute and second in a time."""


def seconds(timestamp: str) -> float:
    """Return an RFC 3339 time, `2026-11-22T15:34:33Z`, in seconds since the epoch.

    Returns 0 for an invalid time, because users can edit the status.
    """
    try:
        return float(calendar.timegm(tuple([int(timestamp[field]) for field in FIELDS])))
    except ValueError:
        return 0.0


def stamp(now: float) -> str:
    """Return a time in the format of the API server."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
