"""The time. Durations are measured on the monotonic clock, so no jump of another clock counts.

The API server's clock decides only at which time the monotonic clock starts. A supervisor that
replaces another one continues its times, even if the API server's clock was set meanwhile.
"""

from __future__ import annotations

import time
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSE = 30.0
"""Clocks that differ by less than these seconds agree."""

FIRST, ENOUGH = 3, 9
"""The number of answers in a row that must agree: to set a wrong clock of this machine before the
first decision, and to believe later that the API server's clock was set."""


class Clock:
    """The time of a supervisor, in seconds since the epoch.

    Args:
        monotonic: returns seconds from any start. It never jumps.
        local: returns the time of this machine. It may be wrong.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        local: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic = monotonic
        self._offset = local() - monotonic()
        self._heard: deque[float] = deque(maxlen=ENOUGH)
        self._recorded: float | None = None
        self._is_set, self._count = False, 0
        self.ahead = 0.0
        """The seconds by which the API server's clock is ahead of `now`, after it was set."""

    def now(self) -> float:
        """Return the time. It jumps only in the first answers, from a wrong clock."""
        return self._monotonic() + self._offset

    @property
    def is_ready(self) -> bool:
        """True if a time may be recorded."""
        return self._is_set or not self._heard

    def hear(self, date: float) -> None:
        """Learn the time of an answer, which may be wrong, or be followed by a jump for good."""
        self._heard.append(date - self._monotonic())
        self._count += 1
        if self._recorded is None:
            return
        agree = max(self._heard) - min(self._heard) <= CLOSE
        # The clocks of several API servers may never agree.
        if not agree and (self._is_set or self._count <= 3 * ENOUGH):
            return
        found = median(self._heard)
        told = found - self.ahead
        if self._is_set:
            if len(self._heard) == ENOUGH:
                self.ahead = _rounded(found - self._offset)
        elif abs(told - self._offset) <= CLOSE:
            self._offset, self._is_set = told, True
        elif len(self._heard) >= FIRST:
            if self._recorded:
                # One of the two clocks was set. Time that only seems to have passed could end the
                # job, so the clock counts that is closer to the last time that is known.
                known = self._recorded - self._monotonic()
                told = max(known, min(told, self._offset, key=lambda each: abs(each - known)))
            self._offset, self._is_set = told, True

    def resume(self, ahead: float, recorded: float) -> None:
        """Continue the times of an earlier supervisor. Before, `now` is the time of this machine.

        Args:
            ahead: what it last knew of the API server's clock.
            recorded: a time that it has recorded, so it is in the past; 0 if there is none.
        """
        if self._recorded is None:
            self.ahead, self._recorded = ahead, recorded


def _rounded(seconds: float) -> float:
    """Return 0 for clocks that agree. Dates are whole seconds, and clocks drift."""
    return float(round(seconds)) if abs(seconds) > CLOSE else 0.0
