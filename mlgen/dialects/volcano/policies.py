"""The lifecycle policies of a Volcano job or task, parsed.

A policy maps events, or the exit code of a failed pod, to an action. The policies of a task come
before those of the job, and the first one that matches applies. Source: volcano-sh/volcano,
pkg/controllers/job/job_controller_util.go (applyPolicies) and state/running.go.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from mlgen.dialects._source_value import SourceValue

ALL_CODES = range(1, 256)
"""The exit codes of a container that has failed."""

TOGETHER = ("RestartTask", "RestartPartition", "RestartJob")
"""The actions that restart several pods together."""

RESTARTS = ("RestartPod", *TOGETHER)
"""The actions that replace failed pods."""

ENDS = ("AbortJob", "TerminateJob")
"""The actions that end the job unsuccessfully."""

ACTIONS = {
    "RestartPod": "restarts the pod",
    "RestartTask": "restarts all pods of the task",
    "RestartPartition": "restarts all pods of the partition",
    "RestartJob": "restarts all pods of the job",
    "AbortJob": "aborts the job",
    "TerminateJob": "terminates the job",
    "CompleteJob": "completes the job",
    "ResumeJob": "resumes the job",
}
"""By action: what Volcano does, for messages."""

EVENTS = {
    "PodFailed": "a pod fails",
    "PodEvicted": "a pod is evicted",
    "TaskFailed": "containers restart too often",
    "TaskCompleted": "a task completes",
    "PodPending": "a pod is pending for too long",
    "Unknown": "part of the gang cannot be scheduled",
    "JobUpdated": "the job is updated",
}
"""By event: when it occurs, for messages."""

JOB_EVENTS = ("Unknown", "JobUpdated")
"""Events of the job as a whole; policies of a task do not match them."""

ANY = "*"
"""Matches every event."""


UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""The units of a duration in Go, in seconds."""

DURATION_PART = re.compile(r"(\d{1,15}(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|ns|s)")


@dataclass(frozen=True)
class Policy:
    """One policy.

    Attributes:
        source: where it is written.
        action: what Volcano does, a key of `ACTIONS`.
        events: all events that it matches, in the order of `EVENTS`; () if it is for an exit code.
        exit_code: of a failed pod; None if the policy is for events.
    """

    source: SourceValue
    action: str
    events: tuple[str, ...]
    exit_code: int | None

    @property
    def timeout_seconds(self) -> int | None:
        """How long Volcano waits before it acts, at least 1; None without a valid timeout.

        https://pkg.go.dev/time#ParseDuration
        """
        text = self.source.get("timeout").value or ""
        parts = DURATION_PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            return None
        return max(1, ceil(sum(float(number) * UNITS[unit] for number, unit in parts)))


def event_names(policy: SourceValue) -> set[str]:
    """Return the events that a policy names in `event` or `events`; `*` is returned as it is."""
    return {*policy.value.get("events", []), policy.value.get("event", "")} - {""}


def parse_policies(policies: SourceValue) -> Iterator[Policy]:
    """Return the policies of a job or a task, in order.

    `*` matches every event. A policy for PodPending needs a timeout, and matches nothing without.
    """
    for item in policies.items():
        names = event_names(item)
        events = [event for event in EVENTS if event in names or ANY in names]
        if not item.get("timeout"):
            events = [event for event in events if event != "PodPending"]
        yield Policy(item, item.value["action"], tuple(events), item.value.get("exitCode"))
