"""The supervisor: observes, decides, acts and waits for a change, until the job is over.

    MLGEN_PLAN  file with the plan; by default, the one in the pod
    MLGEN_RUN   UID of the Job of this pod, which identifies the run
    MLGEN_EXIT  if set, exit with 1 when the job has failed; else with 0

The exit code is 200 if the supervisor itself fails, and 201 if it never reached the API server.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from mlgen.runtime import api, plan, status
from mlgen.runtime.answers import SET, ApiError, Object
from mlgen.runtime.api import CONFLICT, GROUPS, NOT_FOUND, REFUSED, log_line
from mlgen.runtime.cluster import (
    JOB,
    Seen,
    stranger,
    unfinished,
)
from mlgen.runtime.decide import Action, Decision, decide, fail
from mlgen.runtime.memory import Changes, Pods

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlgen.runtime.gate import Gate
    from mlgen.runtime.last_log import LastLog
    from mlgen.runtime.plan import Plan
    from mlgen.runtime.reports import Reports
    from mlgen.runtime.server import Answer, Request

GAP = 0.2
"""Minimum seconds between two passes, to collect events. Longer after a slow pass."""

RESYNC = 60.0
"""Seconds after which the objects are read again, even if no event has been received."""

LIST_SHARE, MAX_AGE = 200.0, 600.0
"""Pods are listed again after LIST_SHARE times the duration of the last list, and at the latest
after MAX_AGE seconds, even without watch events."""

MAX_DELAY = 30.0
MAX_REFUSALS = 30
"""Consecutive errors before giving up, after about 15 minutes. The first refusal is not final,
because a Role may be applied after the Job."""

PATIENCE = 3
"""Conflicts in a row that are normal, because another client may write at the same time."""

MANY_JOBS = 10
"""Above this number, all Jobs with the job's label are listed and watched together."""

TERMINATING = "because it is being terminated"
"""Part of the API server's error in a namespace that is being deleted."""

OWN_FAILURE, UNREACHABLE = 200, 201


class Supervisor:
    """Supervises one job. A new supervisor can replace it at any time."""

    def __init__(
        self,
        plan: Plan,
        client: api.Api,
        log: Callable[[str], None] = log_line,
        decide: Callable[[Plan, Seen, float], Decision] = decide,
    ) -> None:
        self.pods = Pods(client, plan.job)
        self.gate: Gate | None = None
        self.reports: Reports | None = None
        # A job's program has only the modules that it needs.
        if plan.in_place:
            from mlgen.runtime.gate import Gate

            self.gate = Gate(client.clock.now)
        if plan.progress:
            from mlgen.runtime.reports import Reports

            self.reports = Reports(client.clock.now)
        self._listed_until = 0.0
        self._decide = decide
        self._plan = plan
        self._client = client
        self._clock = client.clock.now
        self._log = log
        self._problems = self._conflicts = 0
        self._reported: set[str] | None = set()
        self._status = f"{plan.job}.status"
        self._changes = Changes()
        self._told_ahead: float | None = None
        """`Clock.ahead` when this supervisor has stored a state last."""
        self._kept: tuple[LastLog | None, dict[str, str]] = (None, {})
        """The log that was read last, and its key of the status."""
        self._can_read_logs = True
        self._written: str | None = None
        """The state that this supervisor has stored last."""
        self.exit_code: int | None = None
        self.data: dict[str, str] = {}
        """The data of the status when last read."""

    def step(self) -> float:
        """Observe, decide and act once. Return the seconds until the next pass at the latest.

        After the last step, `exit_code` is set.
        """
        try:
            delay = self._pass()
        except ApiError as problem:
            self._log(f"retrying: {problem}")
            if problem.code == CONFLICT:
                # Another client has written; read it in the next pass.
                self._conflicts += 1
                return min(GAP * 2.0 ** max(self._conflicts - PATIENCE, 0), MAX_DELAY)
            self._problems += 1
            if TERMINATING in str(problem):
                sys.exit(OWN_FAILURE)
            if self._problems >= MAX_REFUSALS and not self._client.answered:
                self._log("giving up: the API server cannot be reached")
                sys.exit(UNREACHABLE)
            if self._problems >= MAX_REFUSALS and problem.code in (*REFUSED, NOT_FOUND):
                sys.exit(OWN_FAILURE)
            return max(problem.retry_after, min(GAP * 2.0 ** min(self._problems, 10), MAX_DELAY))
        self._problems = self._conflicts = 0
        return min(delay, self.gate.pause()) if self.gate else delay

    def _pass(self) -> float:
        # Read the status before the objects. It is written only if it has not changed since.
        version = self._read_status()
        if version is None:
            return 0.0
        self._tell_replicas()
        seen, fresh = self._observe()
        if not self._client.clock.is_ready:
            return GAP
        self._report(seen)
        now = self._clock()
        decision = self._decide(self._plan, seen, now)
        if not fresh and status.goes_on(self.data, decision.status or {}):
            # Watch data may be stale, and another supervisor may have newer data. That is good
            # enough to count replicas, but not to change the phase.
            seen = replace(seen, pods=self._list_pods())
            decision = self._decide(self._plan, seen, now)
        if decision.status:
            # Read the log first: the next pass may delete its pod.
            self._store({**decision.status, **self._last_log(decision.log)}, version)
            self._told_ahead = self._client.clock.ahead
            return 0.0
        # Act only if the status is unchanged after the objects were read. Then their resource
        # versions show whether another supervisor has acted meanwhile.
        if decision.actions and self._read_status() != version:
            raise ApiError(f"{self._status} has changed", CONFLICT)
        delays = [self._act(action, decision.finish) for action in decision.actions]
        self.exit_code = decision.finish
        if delays:
            return min(delays)
        return RESYNC if decision.wake is None else min(max(decision.wake - now, 0.1), RESYNC)

    def _read_status(self) -> str | None:
        """Read the status and return its version; None if it was lost and is written again.

        Returns "" if the status was deleted and may not be created. Then the supervisor keeps it in
        memory. The annotations of the Jobs contain the state for the next supervisor.
        """
        labels = {"app.kubernetes.io/part-of": self._plan.job}
        body = {"metadata": {"name": self._status, "labels": labels}}
        found = self._found("ConfigMap", self._status)
        try:
            found = found or self._client.create("ConfigMap", body)
        except ApiError as problem:
            if problem.code not in REFUSED or TERMINATING in str(problem):
                raise
            return ""
        known, data = self.data, found["data"]
        version = str(found["metadata"]["resourceVersion"])
        if status.is_stored(known, self._plan.run):
            if not status.stored(data):
                self._log(f"{self._status} has lost its data; restoring it")
                self._store(dict(known), version)
                return None
            if not status.is_stored(data, self._plan.run):
                self._log(f"{self._status} belongs to another run")
                sys.exit(OWN_FAILURE)
        status.resume(self._client.clock, data, self._plan.run)
        is_news = data.get("state") not in (known.get("state"), self._written)
        if is_news and status.goes_on(known, data):  # another supervisor has listed the pods
            self._listed_until = 0.0
        self.data = data
        return version

    def _store(self, changes: Mapping[str, str | None], version: str) -> None:
        """Store changes of the status, with its version as a precondition."""
        self._written = changes.get("state")
        if version:
            body = {"metadata": {"resourceVersion": version}, "data": changes}
            self._client.patch("ConfigMap", self._status, body)
            return
        after = {**self.data, **changes}
        self.data = {key: value for key, value in after.items() if value is not None}

    def _last_log(self, log: LastLog | None) -> dict[str, str]:
        """Return the key of the status with a log to keep; {} if it cannot be read.

        Each log is read once, and its loss must not delay a restart. So an error is not retried.
        """
        if log and log != self._kept[0]:
            from mlgen.runtime import last_log

            self._kept = log, {}
            try:
                answer = self._client.log(log.pod, **log.query)
                self._kept = log, {last_log.KEY: last_log.text(log, answer)}
            except ApiError as problem:
                if self._can_read_logs:
                    self._log(f"cannot keep the last lines of {log.pod}: {problem}")
                self._can_read_logs = False
        return self._kept[1] if log else {}

    def _observe(self) -> tuple[Seen, bool]:
        """Return the observed objects, and whether the pods were just listed."""
        workloads, taken = self._workloads()
        found = [workloads[item.name] for item in self._plan.workloads]
        self.pods.owners = frozenset(each["metadata"]["uid"] for each in found if each)
        told = self.pods.told() if self._clock() < self._listed_until else None
        pods = self._list_pods() if told is None else told
        refused = self._changes.refused(self.data)
        # Two supervisors can know different clocks. Each tells its own only once.
        ahead = self._client.clock.ahead
        news = None if ahead == self._told_ahead else ahead
        seen = Seen(workloads, pods, self.data, taken, refused, ahead=news)
        progress = self.reports.progress(self._plan, seen) if self.reports else None
        waiting = self.gate.of(pods) if self.gate else {}
        return replace(seen, waiting=waiting, progress=progress), told is None

    def _tell_replicas(self) -> None:
        """Let the answers to requests of replicas depend on the status that was just read."""
        if not self.gate and not self.reports:
            return  # parsing the state of a large job takes time
        uid = status.stored(self.data).get("uid", "")
        state = status.load(self.data, self._plan.run, uid)
        if self.gate:
            self.gate.update(state)
        if self.reports:
            self.reports.follow(state.attempt, stops=state.phase in ("Stopping", "BackingOff"))

    def _workloads(self) -> tuple[dict[str, Object | None], dict[str, str]]:
        """Return the job's workloads, and the owner of each one that belongs to another job.

        Names can collide: role `b-c` of job `a`, and role `c` of job `a-b`.
        """
        found = self._jobs() if len(self._plan.jobs) > MANY_JOBS else {}
        for item in self._plan.workloads:
            if item.name not in found:
                found[item.name] = self._found(item.kind, item.name)
        if self._plan.release:
            found[self._plan.release] = self._found("Job", self._plan.release)
        strangers = {name: stranger(each, self._plan.job) for name, each in found.items() if each}
        taken = {name: owner for name, owner in strangers.items() if owner}
        return {**found, **dict.fromkeys(taken)}, taken

    def _list_pods(self) -> list[Object]:
        started = self._clock()
        pods = self.pods.listed()
        now = self._clock()
        age = max(RESYNC / 2, LIST_SHARE * (now - started))
        self._listed_until = now + min(age, MAX_AGE)
        return pods

    def _found(self, kind: str, name: str) -> Object | None:
        found = api.find(self._client, kind, name)
        return self._own(found) if found and kind in GROUPS else found

    def _own(self, found: Object) -> Object | None:
        """Return a workload; None for a Job of another version of the job."""
        labels = found["spec"]["template"]["metadata"]["labels"]
        is_other = found["kind"] == "Job" and self._plan.set and labels[SET] != self._plan.set
        return None if is_other else found

    def _jobs(self) -> dict[str, Object | None]:
        """Return all Jobs of the job by name; None for a Job that does not exist."""
        jobs = self._client.list("Job", labelSelector=f"{JOB}={self._plan.job}").objects
        by_name = {each["metadata"]["name"]: self._own(each) for each in jobs}
        return {item.name: by_name.get(item.name) for item in self._plan.jobs}

    def _act(self, action: Action, finish: int | None) -> float:
        """Patch or delete an object, and return the seconds until the next pass.

        Attempts are limited, because another client may revert the change, or an admission policy
        reject it. A failed cleanup does not change the outcome of the job.
        """
        kind, name, uid = action.kind, action.name, action.uid
        wait = self._changes.wait(self.data, action, self._clock())
        if wait:
            return wait
        self._log(f"{action.text} {kind} {name}")
        problem = ""
        try:
            if (kind, name) in self._plan.objects:  # these are not observed
                found = self._client.get(kind, name)
                uid = found["metadata"]["uid"]
                if owner := stranger(found, self._plan.job):
                    self._log(f"skipped: it belongs to {owner}")
                    return 1.0
            if action.patch:
                self._patch(action, action.patch)
            else:
                body: Object = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
                body.update({"gracePeriodSeconds": 0} if kind == "Pod" else {})
                self._client.delete(kind, name, body)
        except ApiError as error:
            if error.code not in (NOT_FOUND, *REFUSED) or TERMINATING in str(error):
                raise
            problem = str(error) if error.code != NOT_FOUND else ""
            self._log(f"skipped: {error}")
        if finish is None:
            self._changes.add(action, self._clock(), problem)
        return 1.0

    def _patch(self, action: Action, body: Object) -> None:
        """Patch an object. Omit `more` if the API server rejects it, as older versions do."""
        if action.more:
            try:
                more = {**body, "spec": {**body["spec"], **action.more}}
                self._client.patch(action.kind, action.name, more)
            except ApiError as problem:
                if problem.code not in REFUSED:
                    raise
                self._log(f"skipped: {problem}")
            else:
                return
        self._client.patch(action.kind, action.name, body, action.subresource)

    def _report(self, seen: Seen) -> None:
        """Create the Events of the stored conditions, without retries."""
        for event in status.events(self._plan, seen, self._client.namespace):
            if self._reported is None or event["metadata"]["name"] in self._reported:
                continue
            self._reported.add(event["metadata"]["name"])
            try:
                self._client.create("Event", event)
            except ApiError as problem:
                if TERMINATING in str(problem):
                    raise
                if problem.code in REFUSED:
                    self._reported = None  # not permitted

    def leave(self) -> None:
        """End the Jobs if the namespace is being deleted, which waits until all pods are gone.

        A Job with backoffLimitPerIndex keeps its failed pods until they are replaced or the Job has
        ended (getPodsWithDelayedDeletionPerIndex in pkg/controller/job).
        """
        for _ in range(10):  # seconds, of the pod's grace period
            try:
                self._client.create("Event", {"metadata": {"name": f"{self._plan.job}-leaves"}})
            except ApiError as problem:
                if TERMINATING not in str(problem):
                    return  # not terminating; only the Event is invalid
            else:
                return
            with contextlib.suppress(ApiError):
                pairs = unfinished(self._plan.jobs, Seen(self._workloads()[0], [], {}))
                for action in [each for pair in pairs for each in fail(*pair)]:
                    self._act(action, None)
                return
            time.sleep(1.0)


def ring(
    client: api.Api, bell: threading.Event, pods: Pods, kind: str, selectors: Mapping[str, str]
) -> None:
    """Pass each change of the selected objects to `pods` and set the bell, forever."""
    for event in client.watch(kind, **selectors):
        if kind == "Pod":
            pods.hear(event)
        bell.set()


def follow(job: Plan, client: api.Api, bell: threading.Event, pods: Pods) -> None:
    """Watch the Jobs and pods of a job, in separate threads."""
    for kind, selectors in watches(job):
        start(ring, client, bell, pods, kind, selectors)


def run(supervisor: Supervisor, bell: threading.Event) -> int:
    """Supervise until the job is over, and return its exit code."""
    while True:
        bell.clear()
        started = time.monotonic()
        delay = supervisor.step()
        if supervisor.exit_code is not None:
            return supervisor.exit_code
        if delay > GAP:  # else the status has changed, so continue at once
            time.sleep(max(GAP, min(4 * (time.monotonic() - started), MAX_DELAY)))
            bell.wait(max(delay - time.monotonic() + started, 0.0))
        else:
            time.sleep(delay)


def start(target: Callable[..., None], *arguments: object) -> None:
    """Start a thread that ends with the program."""
    threading.Thread(target=target, args=arguments, daemon=True).start()


def watches(job: Plan) -> list[tuple[str, dict[str, str]]]:
    """Return the kinds and selectors to watch: Jobs by name, as in the Role, unless many."""
    every = {"labelSelector": f"{JOB}={job.job}"}
    named = [("Job", {"fieldSelector": f"metadata.name={item.name}"}) for item in job.jobs]
    return [*(named if len(named) <= MANY_JOBS else [("Job", every)]), ("Pod", every)]


def answer(job: Plan, supervisor: Supervisor, request: Request) -> Answer:
    """Return the answer to an HTTP request."""
    if request.method == "GET" and request.path == "/metrics":
        counts = supervisor.reports.counts if supervisor.reports else {}
        return HTTPStatus.OK, status.metrics(job, supervisor.data, counts)
    pod = supervisor.pods.sender(request.token, request.address)
    if supervisor.reports and request.path == "/progress":
        if request.method not in ("POST", "PUT"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "send reports with POST\n"
        return supervisor.reports.receive(pod, request)
    if supervisor.gate and request.path == "/attempt":
        if not pod:
            return HTTPStatus.FORBIDDEN, "the sender is not a pod of the job\n"
        return supervisor.gate.answer(pod, request.query) or str(pod["metadata"]["uid"])
    return HTTPStatus.NOT_FOUND, ""


def serve(job: Plan, supervisor: Supervisor, bell: threading.Event) -> None:
    """Start to answer the requests of replicas."""
    from mlgen.runtime.server import CONNECTIONS, Server

    gate, reports = supervisor.gate, supervisor.reports
    tick = reports.tick if reports else lambda _: None
    handle = partial(answer, job, supervisor)
    server = Server(handle, CONNECTIONS, tick, supervisor.pods.at)
    if reports:
        reports.ring = bell.set
    if gate:
        gate.ring, gate.wake = bell.set, server.wake
    start(server.run, job.port)


def main(env: Mapping[str, str]) -> int:
    """Run the supervisor with an environment, and return its exit code."""
    file = Path(env.get("MLGEN_PLAN", plan.FILE))
    job = plan.load(file.read_text(encoding="utf-8"), env["MLGEN_RUN"])
    client = api.in_cluster(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"])
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bell, supervisor = threading.Event(), Supervisor(job, client)
    follow(job, client, bell, supervisor.pods)
    if job.port:
        serve(job, supervisor, bell)
    try:
        return int(bool(run(supervisor, bell) and env.get("MLGEN_EXIT")))
    except SystemExit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.leave()
        raise


def guarded(program: Callable[[Mapping[str, str]], int]) -> int:
    """Run a program. An unexpected exception is its own failure, not the job's."""
    try:
        return program(os.environ)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return OWN_FAILURE


if __name__ == "__main__":  # pragma: no cover - tested in a process of its own
    sys.exit(guarded(main))
