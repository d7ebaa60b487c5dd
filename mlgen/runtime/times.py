"""Times in the format of the API server."""

from __future__ import annotations

import calendar
import time


def seconds(timestamp: str) -> float:
    """Return an RFC 3339 time, `2026-11-22T15:34:33Z`, in seconds since the epoch.

    Returns 0 for an invalid time, because users can edit the status.
    """
    fields = (timestamp[:4], *(timestamp[at : at + 2] for at in (5, 8, 11, 14, 17)))
    try:
        return float(calendar.timegm(tuple(map(int, fields))))
    except ValueError:
        return 0.0


def stamp(now: float) -> str:
    """Return a time in the format of the API server."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
