"""One attempt to run a job, as a step of Argo Workflows, and the exit hook of the step.

    python3 -m mlgen.runtime.step          submit the job, supervise it, exit with its exit code
    python3 -m mlgen.runtime.step STATUS   the step has ended with STATUS: record it, and clean up

The last line determines whether Argo retries the step: "training permanent: ..." or "training
retryable: ...". Without such a line, the step itself has failed (exit code 200) or was killed. The
next attempt then continues with the running job.

    MLGEN_PLAN       file with the plan, by default in the pod; manifests.yaml is next to it
    WORKFLOW         name of the Workflow, which owns the objects
    WORKFLOW_UID     its UID
    NODE             name of the node that calls the template: together with the UID, it identifies
                     the run, because a Workflow may run the same job several times

For an attempt:

    RETRIES          0 for the first one of a run, also after `argo retry`
    BACKOFF_LIMIT    how often the job is restarted
    BACKOFF_SECONDS  the first delay of a restart
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mlgen.runtime import api, plan, status, supervise
from mlgen.runtime.answers import ApiError, Object
from mlgen.runtime.api import NOT_FOUND, REFUSED, Api, log_line
from mlgen.runtime.attempt import attempt, exit_code, last
from mlgen.runtime.cluster import (
    JOB,
    Seen,
    counts,
    is_live,
    stranger,
)
from mlgen.runtime.gang import MAX_DELAY as LONGEST
from mlgen.runtime.memory import Pods
from mlgen.runtime.status import State
from mlgen.runtime.supervise import OWN_FAILURE, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mlgen.runtime.decide import Decision
    from mlgen.runtime.plan import Plan

WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
TERMINATION_LOG = Path("/dev/termination-log")
"""The default terminationMessagePath. Argo shows it as the message of the step."""

POLL_SECONDS = 2.0
HELD_SECONDS = 600.0
"""The longest wait for the finalizers of other programs on deleted workloads."""

MAX_TRIES, MAX_DELAY, MAX_MESSAGE = 30, 30.0, 2000

KEPT = ("restarts", "disruptions", "spent", "disturbed", "quick", "quick_code")
"""Fields that the state of an attempt keeps from the previous attempt."""

HEAD = re.compile(r"apiVersion: (\S+)\nkind: (\S+)\nmetadata:\n  name: (\S+)\n")
"""The first lines of mlgen's YAML objects. Python's standard library cannot parse YAML."""

Answer = TypeVar("Answer")


class Impossible(Exception):  # noqa: N818
    """The job cannot be submitted, and retries do not help."""


class Step:
    """The requests that a step makes in addition to the supervisor's."""

    def __init__(
        self,
        plan: Plan,
        client: Api,
        workflow: tuple[str, str],
        sleep: Callable[[float], None],
    ) -> None:
        """Store the plan, the name and UID of the Workflow, and the sleep function."""
        self._plan = plan
        self._client = client
        self._owners = [{**WORKFLOW, "name": workflow[0], "uid": workflow[1]}]
        self._sleep = sleep
        self._pods = Pods(client, plan.job)
        self._clock = client.clock.now

    def submit(self, manifests: str, *, anew: bool = False) -> None:
        """Submit the job, unless an earlier step pod of this run submitted it and was lost."""
        data = self._ask(self._claimed)
        before = State(self._plan.run) if anew else status.load(data, self._plan.run)
        if before.first and before.phase != "BackingOff":
            log_line(f"resuming watch of {', '.join(self._plan.deciding)}")
            return
        status.resume(self._client.clock, data, self._plan.run)
        self._clear()
        wait = min(before.until - self._clock(), LONGEST)
        if wait > 0:
            log_line(f"the next attempt starts in {wait:.0f} s")
            self._sleep(wait)
        for document in documents(manifests):
            self._ask(partial(self._apply, document), NOT_FOUND)
        kept = {name: getattr(before, name) for name in KEPT}
        ahead = self._client.clock.ahead
        self._store(State(self._plan.run, first=self._clock(), ahead=ahead, **kept))

    def fail(self, text: str) -> State:
        """Record that the job cannot be submitted, if permitted, and return the state."""
        now = self._clock()
        state = State(self._plan.run, phase="Ended", ended=now, code=1, message=text)
        state = replace(state, reason="JobNotSubmitted")
        with contextlib.suppress(Impossible):
            self._store(state)
        return state

    def check_rights(self) -> None:
        """Raise Impossible without permission to read workloads. Then no cleanup is needed."""
        self._ask(lambda: self._workloads("Job"))

    def _ask(self, request: Callable[[], Answer], *final: int) -> Answer:
        """Return the response to a request, which is repeated while the API server is unavailable.

        Raises Impossible after one of the codes in `final` or REFUSED.
        """
        for tries in range(MAX_TRIES):
            try:
                return request()
            except ApiError as problem:
                error = problem
            if _is_final(error, (*REFUSED, *final)):
                raise Impossible(str(error)) from error
            log_line(f"retrying: {error}")
            self._sleep(max(error.retry_after, min(2.0**tries, MAX_DELAY)))
        raise error

    def _claimed(self) -> dict[str, str]:
        """Create or adopt the status, which is deleted with the Workflow, and return its data."""
        name = f"{self._plan.job}.status"
        labels = {"app.kubernetes.io/part-of": self._plan.job}
        metadata = {"labels": labels, "ownerReferences": self._owners}
        found = api.find(self._client, "ConfigMap", name)
        if found:
            with _may_be_gone():
                self._client.patch("ConfigMap", name, {"metadata": metadata})
                return dict(found["data"])
        self._client.create("ConfigMap", {"metadata": {**metadata, "name": name}})
        return {}

    def _store(self, state: State) -> None:
        """Replace the status of an earlier run or attempt."""
        data = self._ask(self._claimed)
        nothing = Seen(dict.fromkeys(item.name for item in self._plan.workloads), [], data)
        changed = status.changes(self._plan, nothing, state, self._clock())
        name = f"{self._plan.job}.status"
        self._ask(lambda: self._client.patch("ConfigMap", name, {"data": changed}))

    def _workloads(self, kind: str) -> list[Object]:
        return self._client.list(kind, labelSelector=f"{JOB}={self._plan.job}").objects

    def _clear(self) -> None:
        """Delete the workloads of earlier attempts, and wait until they and their pods are gone.

        New pods must not join an old rendezvous. Pods on a lost node are ignored. Raises Impossible
        if only finalizers of other programs keep the workloads for long.
        """
        since = self._clock()
        while left := self._ask(self._delete_workloads):
            now, held = self._clock(), [text for text in left if text]
            if len(held) < len(left):
                since = now
            elif now > since + HELD_SECONDS:
                text = f"{', '.join(held)} has been deleted, but remains until another program"
                raise Impossible(f"{text} removes its finalizer; remove it with kubectl edit")
            self._sleep(POLL_SECONDS)

    def _delete_workloads(self) -> list[str]:
        """Delete the workloads, and return for each, and for a live pod, what remains.

        That is its kind, name and the finalizers of other programs; "" if it has none.
        """
        left = []
        for kind in ("Job", "StatefulSet"):
            for metadata in [each["metadata"] for each in self._workloads(kind)]:
                holders = ", ".join(filter(_is_foreign, metadata["finalizers"]))
                left.append(holders and f"{kind} {metadata['name']} with the finalizer {holders}")
                if not metadata["deletionTimestamp"]:
                    log_line(f"delete {kind} {metadata['name']}")
                    body = {"propagationPolicy": "Background"}
                    with _may_be_gone():
                        self._client.delete(kind, metadata["name"], body)
        now, pods = self._clock(), self._pods.listed()
        is_left = any(is_live(pod, now) and _is_of_workload(pod) for pod in pods)
        return [*left, *([""] if is_left else [])]

    def _apply(self, document: str) -> None:
        """Apply a manifest, owned by the Workflow. Never overwrite another owner's object."""
        version, kind, name = head(document)
        log_line(f"apply {kind} {name}")
        found = api.find(self._client, kind, name, version)
        if found and (owner := stranger(found, self._plan.job)):
            raise Impossible(f"{kind} {name} exists, and belongs to {owner}")
        self._client.apply(version, kind, name, owned(document, self._owners))


def documents(manifests: str) -> list[str]:
    """Return the documents of a YAML text from mlgen."""
    return re.split("^---\n", manifests, flags=re.MULTILINE)[1:]


def head(document: str) -> tuple[str, str, str]:
    """Return the apiVersion, kind and name of a document."""
    found = HEAD.match(document)
    if not found:
        raise Impossible(f"expected a manifest of mlgen, got {document[:80]!r}")
    version, kind, name = (word.strip("'\"") for word in found.groups())
    return version, kind, name


def owned(document: str, owners: list[Object]) -> str:
    """Return a document with ownerReferences, as JSON, which is valid YAML."""
    references = f"metadata:\n  ownerReferences: {json.dumps(owners)}\n"
    return document.replace("metadata:\n", references, 1)


def _is_foreign(finalizer: str) -> bool:
    """Return whether a finalizer is of another program. Those of Kubernetes have no domain."""
    return "/" in finalizer


def _is_of_workload(pod: Object) -> bool:
    owners = pod["metadata"]["ownerReferences"]
    return any(owner["kind"] in ("Job", "StatefulSet") for owner in owners)


@contextlib.contextmanager
def _may_be_gone() -> Iterator[None]:
    """Ignore that an object does not exist: the garbage collector may have deleted it."""
    try:
        yield
    except ApiError as problem:
        if problem.code != NOT_FOUND:
            raise


def _is_final(problem: ApiError, codes: tuple[int, ...]) -> bool:
    """Return whether a request would fail again."""
    text = str(problem)
    invalid = problem.code in codes or "typed patch object" in text
    return invalid and "exceeded quota" not in text


def write_progress(path: str, plan: Plan, seen: Seen) -> None:
    """Write the number of succeeded replicas of the deciding Jobs, which Argo displays."""
    jobs = [seen.workloads[name] for name in plan.deciding]
    done = sum(job["status"]["succeeded"] for job in jobs if job)
    wanted = sum(counts(job)[0] for job in jobs if job)
    if path and wanted:
        Path(path).write_text(f"{done}/{wanted}\n", encoding="utf-8")


def supervised(
    job: Plan, client: Api, decision: Callable[[Plan, Seen, float], Decision]
) -> tuple[int, State]:
    """Supervise until the decision is to finish. Return an exit code and the state."""
    bell, supervisor = threading.Event(), Supervisor(job, client, decide=decision)
    supervise.follow(job, client, bell, supervisor.pods)
    return supervise.run(supervisor, bell), status.load(supervisor.data, job.run)


def run(step: Step, job: Plan, client: Api, folder: Path, env: Mapping[str, str]) -> State | None:
    """Run an attempt and return its end; None if the supervisor cannot continue."""
    manifests = (folder / "manifests.yaml").read_text(encoding="utf-8")
    progress = env.get("ARGO_PROGRESS_FILE", "")
    try:
        step.submit(manifests, anew=env["RETRIES"] == "0")
    except Impossible as problem:
        return step.fail(str(problem))

    def decision(plan: Plan, seen: Seen, now: float) -> Decision:
        write_progress(progress, plan, seen)
        return attempt(plan, seen, now)

    _, state = supervised(job, client, decision)
    return state if state.phase in ("BackingOff", "Ended") else None


def report(state: State | None) -> int:
    """Report the end of the attempt to Argo, and return the exit code."""
    if not state:
        return OWN_FAILURE
    if state.phase == "BackingOff":
        tell(f"training retryable: {status.why(state)}")
    elif state.code:
        tell(f"training permanent: {state.message}")
    return exit_code(state)


def tell(text: str) -> None:
    """Log a line that Argo shows as the message of the step."""
    log_line(text)
    TERMINATION_LOG.write_text(text[:MAX_MESSAGE], encoding="utf-8")


def main(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Run an attempt, or its exit hook if the step's outcome is passed as the argument."""
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    file = Path(env.get("MLGEN_PLAN", plan.FILE))
    run_of_job = f"{env['WORKFLOW_UID']}-{hashlib.sha256(env['NODE'].encode()).hexdigest()[:8]}"
    job = plan.load(file.read_text(encoding="utf-8"), run_of_job)
    client = api.in_cluster(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"])
    step = Step(job, client, (env["WORKFLOW"], env["WORKFLOW_UID"]), time.sleep)
    if not arguments:
        limit, delay = int(env["BACKOFF_LIMIT"]), float(env["BACKOFF_SECONDS"])
        job = job._replace(backoff_limit=limit, first_delay=delay)
        return report(run(step, job, client, file.parent, env))
    try:
        step.check_rights()
    except Impossible as problem:
        # The job was not submitted.
        log_line(str(problem))
        return 1
    code, _ = supervised(job, client, partial(last, outcome=arguments[0]))
    if code or arguments[0] == "Succeeded":
        return code
    # `argo retry` keeps the nodes that have succeeded, and runs the others again.
    tell("cleaned up; exiting with 1 because the step failed, so that argo retry repeats it")
    return 1


if __name__ == "__main__":  # pragma: no cover - tested in a process of its own
    sys.exit(supervise.guarded(partial(main, sys.argv[1:])))
