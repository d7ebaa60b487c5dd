"""The reports of progress that replicas send, in memory: the last one of each pod.

A report changes no object in the cluster. The supervisor reads a summary in each pass.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Optional

from mlgen.runtime.cluster import pods_of, replica
from mlgen.runtime.progress import MAX_QUIET, WRITE_SECONDS, Content, Progress, content
from mlgen.runtime.server import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlgen.runtime.answers import Object
    from mlgen.runtime.cluster import Seen
    from mlgen.runtime.plan import Plan
    from mlgen.runtime.server import Request

RATE, BURST = 5.0, 20.0
"""The reports of one pod that are read in a second on average, and at once. 16 ranks of a pod that
each report every 5 seconds need 3.2."""

NEWS_SECONDS = 2.0
"""Minimum seconds between two calls of `ring`, whatever the reports contain."""

DEAF_SECONDS = 30.0
"""After a pause of this length in which the server did not run, silence is measured again: its pod
may have been without CPU, or its node frozen."""

LED_SECONDS = 3600.0
"""For how long the announcement of the leading replica counts for others that report."""

UNKNOWN, RATE_LIMIT, LARGE, MALFORMED = "unknown sender", "too many", "too large", "malformed"
REASONS = {
    UNKNOWN: HTTPStatus.FORBIDDEN,
    RATE_LIMIT: HTTPStatus.TOO_MANY_REQUESTS,
    LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    MALFORMED: HTTPStatus.BAD_REQUEST,
}
"""The HTTP status by reason to reject a report."""


@dataclass
class _Sender:
    """A pod that reports."""

    __slots__ = ("content", "quiet", "refilled", "time", "tokens")
    time: float
    """When its last report arrived, even a rejected one, which is still a sign of life."""
    content: Content | None
    quiet: float
    tokens: float
    refilled: float


class Reports:
    """The reports of the current attempt.

    Args:
        clock: returns the time in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._senders: dict[str, _Sender] = {}
        self._attempt = 0
        self._since = self._ticked = self._rung = 0.0
        self._breaks = 0
        self._is_unseen = False
        self.accepted = 0
        self.rejected: dict[str, int] = {}
        self.ring: Callable[[], None] = lambda: None
        """Wakes the supervisor."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of reports by result."""
        return {
            "accepted": self.accepted,
            **{reason: self.rejected.get(reason, 0) for reason in REASONS},
        }

    def tick(self, breaks: int = 0) -> None:
        """Record that the server runs. It calls this every few seconds.

        Wake the supervisor if it has not seen the last report.

        Args:
            breaks: how often the server could not listen so far. Then silence is measured again.
        """
        now = self._clock()
        with self._lock:
            if breaks != self._breaks or not self._listens(now):
                self._since, self._breaks = now, breaks
            self._ticked = now
            is_due = self._is_unseen and self._is_due(now, WRITE_SECONDS)
        if is_due:
            self.ring()

    def _is_due(self, now: float, pause: float) -> bool:
        """Return whether the supervisor may be woken again, and record that it is."""
        is_due = not 0 <= now - self._rung < pause
        self._rung = now if is_due else self._rung
        return is_due

    def _listens(self, now: float) -> bool:
        """Return whether the server runs. Only its own thread can tell.

        A jump back is the change from the local clock to the clock of the API server.
        """
        return abs(now - self._ticked) <= DEAF_SECONDS

    def receive(self, sender: Object | None, request: Request) -> tuple[int, str]:
        """Return the answer to a report of a pod, or of a stranger (None)."""
        now = self._clock()
        with self._lock:
            reason, is_news = self._receive(sender, request, now)
            if reason:
                self.rejected[reason] = self.rejected.get(reason, 0) + 1
            else:
                self.accepted += 1
            self._is_unseen = self._is_unseen or sender is not None
            is_due = sender and self._is_due(now, NEWS_SECONDS if is_news else WRITE_SECONDS)
        if is_due:
            self.ring()
        return (REASONS[reason], f"rejected: {reason}\n") if reason else (HTTPStatus.OK, "")

    def _receive(self, sender: Object | None, request: Request, now: float) -> tuple[str, bool]:
        """Return why a report is rejected, or "", and whether the supervisor must know at once."""
        if sender is None:
            return UNKNOWN, False
        uid, is_first = sender["metadata"]["uid"], not self._senders
        known = self._senders.setdefault(uid, _Sender(now, None, 0.0, BURST, now))
        tokens = min(BURST, known.tokens + RATE * max(now - known.refilled, 0.0))
        known.time = now
        known.refilled = now
        known.tokens = max(tokens - 1.0, 0.0)
        if tokens < 1.0:
            return RATE_LIMIT, is_first
        if request.length > MAX_BODY:
            return LARGE, is_first
        try:
            told = content(json.loads(request.body or b"{}"))
        except (ValueError, RecursionError):
            return MALFORMED, is_first
        was_complete = known.content and known.content.is_complete
        if told.is_status:
            known.content = told
        if told.quiet is not None:
            known.quiet = now + told.quiet
        return "", is_first or (told.is_complete and not was_complete)

    def follow(self, attempt: int, *, stops: bool) -> None:
        """Forget the reports of earlier attempts.

        Args:
            attempt: the number of the attempt.
            stops: whether its replicas are stopped. They may still report.
        """
        with self._lock:
            if stops or attempt != self._attempt:
                self._senders.clear()
            self._attempt = attempt

    def progress(self, plan: Plan, seen: Seen) -> Progress:
        """Return the progress of the attempt, from the reports of existing pods."""
        now = self._clock()
        pods = {pod["metadata"]["uid"] for pod in seen.pods}
        with self._lock:
            self._is_unseen = False
            gone = [uid for uid in self._senders if uid not in pods]
            for uid in gone:  # a new pod may be missing from stale data
                if now - self._senders[uid].time > DEAF_SECONDS:
                    del self._senders[uid]
            known = {
                uid: (each.time, each.quiet, each.content) for uid, each in self._senders.items()
            }
            since = self._since if self._listens(now) else 0.0
            rejected, attempt = tuple(sorted(self.rejected.items())), self._attempt
        places = {item.name: place for place, item in enumerate(plan.workloads)}
        found: list[Found] = []
        for item, pod in pods_of(plan.workloads, seen):
            uid = pod["metadata"]["uid"]
            if uid in known:
                name = replica(plan.job, item, pod)
                index = int(name.rpartition("-")[2])
                order = (item.name not in plan.deciding, places[item.name], index)
                found.append((order, name, *known[uid]))
        if not found:
            return Progress(since=since, attempt=attempt, rejected=rejected)
        _, leader, _, _, told = min(found, key=_lead)
        slow = min(found, key=lambda each: (each[2], each[0])) if len(found) > 1 else None
        told = told or Content()
        return Progress(
            since,
            attempt,
            max(each[2] for each in found),
            _quiet(found, plan.stalled_seconds),
            told.percent,
            told.remaining,
            told.metrics,
            leader,
            len(found),
            slow[1] if slow else "",
            slow[2] if slow else 0.0,
            rejected,
        )


Found = tuple[tuple[bool, int, int], str, float, float, Optional[Content]]  # noqa: UP045 - 3.9
"""The order of a replica, its name, and its last report."""


def _quiet(found: list[Found], limit: int) -> float:
    """Return until when the silence of the job is announced; 0 if it is not.

    The announcement that ends first counts. That of the leading replica also counts for the others,
    up to an hour after its last report, because they may wait for it. Only deciding replicas count,
    because they do not wait for others, and only those that still report.
    """
    deciding = [each for each in found if not each[0][0]] or found
    lead = min(deciding, key=_lead)
    ends = [_announced(each) for each in deciding if each[2] >= lead[2] - limit]
    return max(min(ends), min(_announced(lead), lead[2] + LED_SECONDS))


def _announced(each: Found) -> float:
    """Return until when a replica need not report. A report of 100 % counts for a day."""
    _, _, last, quiet, told = each
    return max(quiet, last + MAX_QUIET) if told and told.is_complete else quiet


def _lead(each: Found) -> tuple[bool, bool, tuple[bool, int, int]]:
    """Return the sort key of the replica that describes the progress of the job.

    It reports a percentage, or else other values. Deciding roles come first, and low indexes.
    """
    order, *_, told = each
    return not told or told.percent is None, not told, order
