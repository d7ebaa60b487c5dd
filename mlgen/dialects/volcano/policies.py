"""The lifecycle policies of a Volcano job or task, parsed.

A policy maps events, or the exit code of a failed pod, to an action. The policies of a task come
before those of the job, and the first one that matches applies. Source: volcano-sh/volcano,
pkg/controllers/job/job_controller_util.go (applyPolicies) and state/running.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlgen.dialects._source_value import SourceValue

MAX_EXIT_CODE = 255

RESTARTS = ("RestartPod", "RestartTask", "RestartPartition", "RestartJob")
"""The actions that replace failed pods."""

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


@dataclass(frozen=True, slots=True)
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
