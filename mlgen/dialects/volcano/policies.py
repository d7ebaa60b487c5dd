"""Volcano's policies: what it does when something happens to a task, and what a Job does of that.

A policy leads from events, or from the exit code of a failed pod, to an action. The policies of a
task stand before those of the job, and the first one that fits counts. Read off volcano-sh/volcano,
pkg/controllers/job/job_controller_util.go (applyPolicies) and state/running.go; what is refused,
off pkg/webhooks/admission/jobs/validate/util.go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._schemas import TEXT, mapping
from mlgen.dialects._source_value import SourceValue

MAX_RETRY = 3
"""Of a job and of a task, where nothing or 0 is written."""

MAX_EXIT_CODE = 255

RESTARTS = ("RestartPod", "RestartTask", "RestartPartition", "RestartJob")
ENDS = ("AbortJob", "TerminateJob", "CompleteJob")

DOES = {
    "RestartPod": "restarts the pod",
    "RestartTask": "restarts all pods of the task",
    "RestartPartition": "restarts all pods of the partition",
    "RestartJob": "restarts all pods of the job",
    "AbortJob": "ends the job",
    "TerminateJob": "ends the job",
    "CompleteJob": "completes the job",
    "ResumeJob": "starts the job again",
}
"""By action: what it leads to."""

WHEN = {
    "PodFailed": "a pod has failed",
    "PodEvicted": "a pod was evicted",
    "TaskFailed": "containers have restarted too often",
    "TaskCompleted": "a task has completed",
    "PodPending": "a pod waits for too long",
    "Unknown": "the gang has lost its room",
    "JobUpdated": "the job was changed",
}
"""By event: what has happened."""

OF_THE_JOB = ("Unknown", "JobUpdated")
"""Events that are of no task, so that only the job's policies can fit."""

ANY = "*"

POLICY: dict[str, Any] = mapping(
    {
        "action": {"enum": list(DOES)},
        "event": {"enum": ["", ANY, *WHEN]},
        "events": {"type": "array", "items": {"enum": [ANY, *WHEN]}},
        "exitCode": {"type": "integer"},
        "timeout": TEXT,
    },
    "action",
)
POLICIES: dict[str, Any] = {"type": "array", "items": POLICY}
RETRIES: dict[str, Any] = {"type": "integer", "minimum": -1}


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy; `events` are all that it fits, or () where it is for an exit code."""

    given: SourceValue
    action: str
    events: tuple[str, ...]
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Task:
    """One task with its replicas.

    Attributes:
        role: its name here.
        restart: the restart policy of its pods, whether written or by default.
        rules: what fits it, first to last.
    """

    name: str
    role: str
    given: SourceValue
    replicas: int
    restart: str
    rules: tuple[Rule, ...] = ()

    def fits(self, event: str) -> Rule | None:
        """Return the policy that counts for an event."""
        return next((rule for rule in self.rules if event in rule.events), None)

    def codes(self, *actions: str) -> dict[int, Rule]:
        """Return the policies for exit codes that lead to these actions.

        A pod that starts its containers again has none, and what stands after a policy for all
        failed pods never counts.
        """
        found: dict[int, Rule] = {}
        for rule in self.rules if self.restart == "Never" else ():
            if "PodFailed" in rule.events:
                break
            if rule.exit_code is not None and 0 < rule.exit_code <= MAX_EXIT_CODE:
                found.setdefault(rule.exit_code, rule)
        return {code: rule for code, rule in found.items() if rule.action in actions}


def rules(given: SourceValue) -> Iterator[Rule]:
    """Return the policies of a job or a task; `*` fits all events, PodPending needs a timeout."""
    for item in given.items():
        named = [*item.value.get("events", []), item.value.get("event", "")]
        events = [event for event in WHEN if event in named or ANY in named]
        if not item.get("timeout"):
            events = [event for event in events if event != "PodPending"]
        yield Rule(item, item.value["action"], tuple(events), item.value.get("exitCode"))


def admit_policies(builder: Builder, given: SourceValue) -> None:
    """Refuse what the webhook refuses of the policies of a job or a task."""
    events: set[str] = set()
    codes: set[int] = set()
    for item in given.items():
        named = {*item.value.get("events", []), item.value.get("event", "")} - {""}
        failure = item.get("exitCode")
        if bool(named) == bool(failure):
            message = "a policy is for events, or for an exit code"
            builder.refuse(item, message, "write one of event, events and exitCode")
        for event in sorted(named & events):
            message = f"there is another policy for {event}"
            builder.refuse(item, message, "keep one of the two")
        if ANY in named | events and len(named | events) > 1:
            builder.refuse(item, "beside * there is no event left", "leave * out, or the others")
        if failure.value == 0:
            builder.refuse(failure, "0 is no error", "write another exit code")
        elif failure and failure.value in codes:
            message = f"there is another policy for exit code {failure.value}"
            builder.refuse(failure, message, "keep one of the two")
        events |= named
        codes |= {failure.value} if failure else set()


def completing(task: Task) -> Rule | None:
    """Return the policy of a task's own by which its completion completes the job."""
    rule = task.fits("TaskCompleted")
    own = task.given.get("policies").path
    mine = rule and rule.action == "CompleteJob" and rule.given.path[: len(own)] == own
    return rule if mine else None


def again(task: Task) -> bool:
    """Return whether a failed pod is replaced, by whatever action."""
    failed = task.fits("PodFailed")
    return failed is not None and failed.action in RESTARTS


def retries(builder: Builder, task: Task) -> tuple[str, SourceValue, int]:
    """Return what happens to a failed replica: the restart policy, and how often, by whom.

    A pod that restarts its containers does so for ever, unless a policy counts them. One that does
    not stays failed, unless a policy replaces it.
    """
    failed, counted = task.fits("PodFailed"), task.fits("TaskFailed")
    if task.restart == "OnFailure":
        if not counted:
            return "OnFailure", builder.spec, ENDLESS
        given = task.given.get("maxRetry")
        most = given.value or MAX_RETRY
        return "OnFailure", given or counted.given, ENDLESS if most < 0 else most
    given = builder.spec.get("maxRetry")
    codes = task.codes(*RESTARTS)
    if again(task) or codes:
        source = given or (failed.given if failed else task.given)
        return "Never" if again(task) else "ExitCode", source, given.value or MAX_RETRY
    return "Never", task.given, 0


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The tasks of a job, and the one whose end is the end of training."""

    builder: Builder
    tasks: Sequence[Task]
    decider: Task

    def explain(self) -> None:
        """Say of each policy what Kubernetes does not do of it."""
        whole = list(rules(self.builder.spec.get("policies")))
        own = [rule for task in self.tasks for rule in rules(task.given.get("policies"))]
        for rule in (*whole, *own):
            different = self._different(rule)
            timeout = rule.given.get("timeout")
            if different:
                self._say(rule, different)
            elif timeout and rule.events:
                message = f"Volcano waits {timeout.value} before it {DOES[rule.action]}"
                self.builder.differs(timeout, f"{message}; here that is at once")

    def _different(self, rule: Rule) -> list[tuple[str, Task]]:
        """What Kubernetes does otherwise: the events, each with the first task that it is of."""
        found: dict[str, Task] = {}
        for task in self.tasks:
            for event in rule.events:
                fits = event in OF_THE_JOB or task.fits(event) == rule
                if fits and not self._native(rule, event, task):
                    found.setdefault(event, task)
            if rule in task.codes(rule.action).values() and not self._native(rule, "", task):
                found.setdefault("", task)
        return list(found.items())

    def _native(self, rule: Rule, event: str, task: Task) -> bool:
        """Kubernetes does it by itself, or nothing happens in Volcano either."""
        action, decides = self._alone(rule.action, task), task == self.decider
        fails = decides and action in ("AbortJob", "TerminateJob")
        if event == "TaskCompleted":
            return decides and action == "CompleteJob"
        if event == "TaskFailed":
            return task.restart == "Never" or (fails and task.restart == "OnFailure")
        if event in ("PodPending", *OF_THE_JOB):
            return False
        if action == "RestartPod":
            return True
        return event != "PodEvicted" and fails and task.restart == "Never" and not again(task)

    def _alone(self, action: str, task: Task) -> str:
        """Of one pod, all pods are that one."""
        pods = sum(other.replicas for other in self.tasks)
        one = pods == 1 if action == "RestartJob" else task.replicas == 1
        return "RestartPod" if one and action in RESTARTS else action

    def _say(self, rule: Rule, different: list[tuple[str, Task]]) -> None:
        events = [WHEN.get(event, f"a pod exits with {rule.exit_code}") for event, _ in different]
        when = f"when {' or '.join(events)}" if len(events) < len(WHEN) - 1 else "at any event"
        event, task = different[0]
        here, hint = self._here(rule.action, event, task)
        self.builder.differs(rule.given, f"Volcano {DOES[rule.action]} {when}; here {here}", hint)

    def _here(self, action: str, event: str, task: Task) -> tuple[str, str]:
        """What happens instead, and the nearest thing."""
        if event == "PodPending":
            return "it goes on to wait", DEADLINE
        if event in ("TaskCompleted", *OF_THE_JOB):
            completes = event == "TaskCompleted" and action == "CompleteJob"
            return (f"when {self.decider.role} has" if completes else "nothing does"), ""
        hint = WORKFLOW if action in RESTARTS else ""
        counted = event == "TaskFailed" and task.restart == "OnFailure"
        stays = task.restart == "Never" and not again(task) and not task.codes(*RESTARTS)
        if not counted and (event == "PodEvicted" or not stays):
            return "that pod alone is replaced", hint
        if hint or task == self.decider:
            return f"{task.role} has then failed", hint
        jobs = f"kubectl get jobs -l mlgen.dev/job={self.builder.name}"
        return f"{task.role} has then failed, and the others go on", f"look at {jobs}"


WORKFLOW = "restarting all replicas together needs a workflow around the job"
DEADLINE = "give the job a deadline: --set spec.runPolicy.activeDeadlineSeconds=3600"
