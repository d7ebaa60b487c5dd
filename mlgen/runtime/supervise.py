"""The supervisor: observe, decide, act, wait for a change, until the job is over.

    MLGEN_PLAN  file with the plan
    MLGEN_RUN   UID of the Job of this pod, which identifies the run
    MLGEN_EXIT  if set, exit with the code of the job; else with 0

The exit code is 200 if the supervisor itself cannot go on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlgen.runtime import api, plan
from mlgen.runtime.api import ApiError, Conflict, NotFound, Refused
from mlgen.runtime.cluster import Object, Seen
from mlgen.runtime.decide import Action, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlgen.runtime.plan import Plan

GAP = 0.2
"""Seconds between two passes, in which events gather."""

RESYNC = 60.0
"""Seconds after which the objects are read again, even if no event has been received."""

MAX_DELAY = 30.0
MAX_REFUSALS = 30
"""A Role may be applied a moment later than the Job, so a refusal is not final at once."""

OWN_FAILURE = 200
JOB = "mlgen.dev/job"


def log_line(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - the log of the pod


class Supervisor:
    """Supervises one job. It holds nothing that a new one would miss."""

    def __init__(
        self,
        plan: Plan,
        client: api.Api,
        clock: Callable[[], float] = time.time,
        log: Callable[[str], None] = log_line,
    ) -> None:
        self._plan = plan
        self._client = client
        self._clock = clock
        self._log = log
        self._problems = 0
        self.exit_code: int | None = None

    def step(self) -> float:
        """Observe, decide and act once; return after how many seconds to do so at the latest.

        After the last step, `exit_code` is set.
        """
        try:
            delay = self._pass()
        except Conflict as problem:
            # Somebody else has written; the next pass sees it.
            self._log(f"retrying: {problem}")
            return GAP
        except ApiError as problem:
            self._log(f"retrying: {problem}")
            self._problems += 1
            if isinstance(problem, (Refused, NotFound)) and self._problems >= MAX_REFUSALS:
                self.exit_code = OWN_FAILURE
            return max(problem.retry_after, min(GAP * 2.0 ** min(self._problems, 10), MAX_DELAY))
        self._problems = 0
        return delay

    def _pass(self) -> float:
        # The status is written only if it is older than what is observed, and still the same.
        status = self._read_status()
        seen = self._observe(status.get("data") or {})
        version = status["metadata"]["resourceVersion"]
        now = self._clock()
        decision = decide(self._plan, seen, now)
        if decision.status:
            body = {"metadata": {"resourceVersion": version}, "data": decision.status}
            self._client.patch("ConfigMap", self._status, body)
            return 0.0
        # Actions follow from a status that was still the same after the objects were read. Then
        # their resource versions tell whether somebody has gone on meanwhile.
        if decision.actions and self._read_status()["metadata"]["resourceVersion"] != version:
            raise Conflict(f"{self._status} has changed")
        for action in decision.actions:
            self._log(f"{action.kind} {action.name}: {action.patch or 'delete'}")
            if action.patch:
                self._client.patch(action.kind, action.name, action.patch)
            else:
                self._delete(action)
        self.exit_code = decision.finish
        if decision.actions:
            return 1.0
        return RESYNC if decision.wake is None else min(max(decision.wake - now, 0.0), RESYNC)

    @property
    def _status(self) -> str:
        return f"{self._plan.job}-status"

    def _read_status(self) -> Object:
        status = self._found("ConfigMap", self._status)
        if status is None:
            labels = {"app.kubernetes.io/part-of": self._plan.job}
            body = {"metadata": {"name": self._status, "labels": labels}}
            status = self._client.create("ConfigMap", body)
        return status

    def _observe(self, status: dict[str, str]) -> Seen:
        workloads = {item.name: self._found(item.kind, item.name) for item in self._plan.workloads}
        pods = []
        if self._plan.pods:
            pods = self._client.list("Pod", labelSelector=f"{JOB}={self._plan.job}")["items"]
        return Seen(workloads, pods, status)

    def _found(self, kind: str, name: str) -> Object | None:
        try:
            found = self._client.get(kind, name)
        except NotFound:
            return None
        return {"kind": kind, "status": {}, **found}

    def _delete(self, action: Action) -> None:
        body: Object = {"propagationPolicy": "Background"}
        if action.uid:
            body["preconditions"] = {"uid": action.uid}
        with contextlib.suppress(NotFound):
            self._client.delete(action.kind, action.name, body)


def ring(client: api.Api, bell: threading.Event, kind: str, selectors: Mapping[str, str]) -> None:
    """Set the bell at each change of the selected objects, for ever."""
    for _ in client.watch(kind, **selectors):
        bell.set()


def run(supervisor: Supervisor, bell: threading.Event) -> int:
    """Supervise until the job is over, and return its exit code."""
    while True:
        delay = supervisor.step()
        if supervisor.exit_code is not None:
            return supervisor.exit_code
        bell.wait(delay)
        bell.clear()
        time.sleep(GAP)


def watches(job: Plan) -> list[tuple[str, dict[str, str]]]:
    """Return the kinds and selectors to watch: Jobs by name, because the rights are by name."""
    jobs = [item.name for item in job.workloads if item.kind == "Job"]
    named = [("Job", {"fieldSelector": f"metadata.name={name}"}) for name in jobs]
    pods = [("Pod", {"labelSelector": f"{JOB}={job.job}"})]
    return named + pods if job.pods else named


def main(env: Mapping[str, str]) -> int:
    """Run the supervisor with an environment, and return its exit code."""
    job = plan.load(Path(env["MLGEN_PLAN"]).read_text(encoding="utf-8"), env["MLGEN_RUN"])
    client = api.in_cluster(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"])
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bell = threading.Event()
    for kind, selectors in watches(job):
        arguments: tuple[Any, ...] = (client, bell, kind, selectors)
        threading.Thread(target=ring, args=arguments, daemon=True).start()
    code = run(Supervisor(job, client), bell)
    return code if env.get("MLGEN_EXIT") or code == OWN_FAILURE else 0


if __name__ == "__main__":  # pragma: no cover - tested in a process of its own
    sys.exit(main(os.environ))
