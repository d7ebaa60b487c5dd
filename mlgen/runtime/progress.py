"""The progress of training, as the last reports describe it. Pure functions and data.

The names in JSON are those of Kubeflow Trainer's `trainerStatus`, and some of our own:
https://github.com/kubeflow/trainer/tree/master/docs/proposals/2779-trainjob-progress
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mlgen.runtime.times import seconds, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mlgen.runtime.plan import Plan

KEY = "progress"
"""The key of the status with the progress as JSON."""

MAX_METRICS, MAX_TEXT = 16, 64
"""The number of metrics that are kept, and the length of their names and values."""

MAX_REMAINING = 1e9
"""The longest estimate in seconds that is kept, about 30 years."""

MAX_QUIET = 86400
"""The longest time in seconds for which a replica may announce that it does not report."""

WRITE_SECONDS = 10.0
"""Minimum seconds between two changes of the status because of reports."""


COMPLETE = 100.0
"""The percentage of training that is done."""

Metrics = tuple[tuple[str, str], ...]
"""Names and values."""


@dataclass(frozen=True)
class Progress:
    """The progress of an attempt. Times are in seconds since the epoch."""

    since: float = 0.0
    """Since when this supervisor receives reports; 0 if it does not now."""
    attempt: int = 0
    last: float = 0.0
    """When the last report arrived; 0 for never."""
    quiet: float = 0.0
    """Until when no report is expected, as the replicas have announced."""
    percent: float | None = None
    remaining: float | None = None
    metrics: Metrics = ()
    replica: str = ""
    """The replica that reported the percentage, the time left and the metrics."""
    reporting: int = 0
    """The number of replicas that have reported."""
    slowest: str = ""
    """The replica whose last report is the oldest, if several report."""
    slowest_at: float = 0.0
    rejected: tuple[tuple[str, int], ...] = ()
    """The number of rejected reports by reason."""

    @property
    def is_complete(self) -> bool:
        """Return whether training is done, so that no report is expected."""
        return (self.percent or 0.0) >= COMPLETE


@dataclass(frozen=True)
class Content:
    """What a report contains. A heartbeat has no `trainerStatus`."""

    is_status: bool = False
    percent: float | None = None
    remaining: float | None = None
    metrics: Metrics = ()
    quiet: float | None = None
    """For how long no report may follow, in seconds."""

    @property
    def is_complete(self) -> bool:
        """Return whether training is done."""
        return (self.percent or 0.0) >= COMPLETE


EMPTY: tuple[Any, ...] = (None, "", [], {})


def stored_text(found: Progress, now: float) -> str:
    """Return the progress as JSON, for users."""
    slowest = {"replica": found.slowest, "lastReportTime": stamp(found.slowest_at)}
    values = {
        "progressPercentage": found.percent,
        "estimatedRemainingSeconds": found.remaining,
        "metrics": [{"name": name, "value": value} for name, value in found.metrics],
        "lastUpdatedTime": stamp(now),
        "lastReportTime": stamp(found.last) if found.last else None,
        "attempt": found.attempt,
        "replica": found.replica,
        "reporting": found.reporting,
        "slowest": slowest if found.slowest else None,
        "quietUntil": stamp(found.quiet) if found.quiet else None,
        "rejected": dict(found.rejected),
    }
    return json.dumps({key: value for key, value in values.items() if value not in EMPTY})


def number(value: Any, most: float) -> float | None:
    """Return a number from 0 to `most`, or None for None. Raises ValueError for other values."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        message = f"expected a number from 0 to {most:.0f}"
        raise ValueError(message)
    return value if isinstance(value, int) else round(value, 2)


def estimate(value: Any) -> float | None:
    """Return a valid estimate of the time left, in whole seconds; None if it is too long."""
    found = number(value, math.inf)
    return round(found) if found is not None and found <= MAX_REMAINING else None


def content(document: Any) -> Content:
    """Return the content of a report. Raises ValueError if it is malformed."""
    found = _mapping(document)
    quiet = number(found.get("quietSeconds"), MAX_QUIET)
    # A file may contain the inner mapping alone.
    status = _mapping(found.get("trainerStatus") if "trainerStatus" in found else found)
    percent = number(status.get("progressPercentage"), COMPLETE)
    remaining = estimate(status.get("estimatedRemainingSeconds"))
    metrics = _metrics(status.get("metrics") or [])
    is_status = (percent, remaining, metrics) != (None, None, ())
    return Content(is_status, percent, remaining, metrics, quiet)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = "expected a JSON object"
        raise ValueError(message)  # noqa: TRY004 - each malformed report is a ValueError
    return value


def _metrics(items: Any) -> Metrics:
    """Return the first metrics, as printable texts of limited length."""
    if not isinstance(items, list):
        message = "expected a list of metrics"
        raise ValueError(message)  # noqa: TRY004
    pairs = []
    for item in items[:MAX_METRICS]:
        name, value = _mapping(item).get("name"), item.get("value")
        if not isinstance(name, str) or not isinstance(value, (str, int, float)):
            message = "expected metrics with a name and a value"
            raise ValueError(message)  # noqa: TRY004
        pairs.append((_clean(name), _clean(str(value))))
    return tuple(pairs)


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text[:MAX_TEXT])


def load(text: str | None) -> Progress | None:
    """Return the progress in JSON; None if there is none, or if a user has made it invalid."""
    try:
        found = _mapping(json.loads(text or "null"))
        told = content({"trainerStatus": found})
        slowest = _mapping(found.get("slowest", {}))
        rejected = _mapping(found.get("rejected", {})).items()
        counts = tuple((_clean(key), int(number(value, 1e15) or 0)) for key, value in rejected)
        return Progress(
            attempt=int(number(found.get("attempt"), 1e9) or 0),
            last=seconds(str(found.get("lastReportTime", ""))),
            quiet=seconds(str(found.get("quietUntil", ""))),
            percent=told.percent,
            remaining=told.remaining,
            metrics=told.metrics,
            replica=_clean(str(found.get("replica", ""))),
            reporting=int(number(found.get("reporting"), 1e9) or 0),
            slowest=_clean(str(slowest.get("replica", ""))),
            slowest_at=seconds(str(slowest.get("lastReportTime", ""))),
            rejected=counts[:MAX_METRICS],
        )
    except (ValueError, RecursionError):
        return None


def current(heard: Progress | None, data: Mapping[str, str], attempt: int) -> Progress:
    """Return the progress of an attempt, which does not depend on restarts of the supervisor.

    Args:
        heard: from the reports that this supervisor has received.
        data: the status, with the progress that an earlier supervisor may have stored.
        attempt: the number of the attempt. Reports of another attempt do not count.
    """
    heard = heard if heard and heard.attempt == attempt else Progress(0.0, attempt)
    stored = load(data.get(KEY))
    if not stored or stored.attempt != attempt:
        return heard
    if not heard.last:
        return replace(stored, since=heard.since, rejected=heard.rejected)
    heard = replace(heard, quiet=heard.quiet or stored.quiet)
    if heard.percent is not None or heard.metrics:
        return heard
    return replace(
        heard,
        percent=stored.percent,
        remaining=stored.remaining,
        metrics=stored.metrics,
        replica=stored.replica,
    )


def updated(
    heard: Progress | None, data: Mapping[str, str], attempt: int, now: float
) -> tuple[str, float | None]:
    """Return the progress to store as JSON, and when it must be stored again; None if never.

    The first report of an attempt and the last one are stored at once, and others after some time.
    """
    text, found = data.get(KEY, ""), current(heard, data, attempt)
    stored = load(text)
    if not found.last and not found.rejected:
        return text, None
    if not stored:
        return stored_text(found, now), None
    if replace(stored, since=found.since) == _rounded(found):
        return text, None
    is_first = found.last and (not stored.last or stored.attempt != attempt)
    written = seconds(str(json.loads(text).get("lastUpdatedTime")))
    is_early = written <= now < written + WRITE_SECONDS
    if is_early and not is_first and found.is_complete <= stored.is_complete:
        return text, written + WRITE_SECONDS
    return stored_text(found, now), None


def _rounded(found: Progress) -> Progress:
    """Return a progress with the precision of a stored one."""
    last, quiet, slowest_at = map(math.floor, (found.last, found.quiet, found.slowest_at))
    return replace(found, last=last, quiet=quiet, slowest_at=slowest_at)


def silence(plan: Plan, found: Progress, *, again: bool) -> str:
    """Return why training is stalled: for how long no report has arrived, and the slowest replica.

    Args:
        plan: the plan of the job, with the limits.
        found: the progress of the attempt.
        again: True if the job was restarted for this reason before, and never sent a report.
    """
    if found.last:
        text = f"no report for {plan.stalled_seconds} s, since {stamp(found.last)}"
        text += " (runPolicy.progress.stalledSeconds)"
    else:
        text = f"no report within {plan.first_report_seconds} s from the start of all replicas"
        text += " (runPolicy.progress.startSeconds)"
    if found.slowest:
        text += f"; the oldest report is from {found.slowest}, at {stamp(found.slowest_at)}"
    if found.rejected:
        text += f"; rejected: {rejections(found.rejected)}"
    if again:
        text += "; a restart did not help, so the job is not restarted for this reason again"
    return text


def rejections(counts: Iterable[tuple[str, int]]) -> str:
    """Return the numbers of rejected reports: `3 unknown sender, 1 malformed`."""
    return ", ".join(f"{count} {reason}" for reason, count in counts)
