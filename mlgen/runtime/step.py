"""One attempt to run a job, as a step of Argo Workflows; and the exit hook of that step.

    python3 -m mlgen.runtime.step          submit the job, supervise it, exit with its exit code
    python3 -m mlgen.runtime.step STATUS   the step has ended with STATUS: record it, and clean up

The last line tells Argo whether to retry the step: "training permanent: ..." or "training
retryable: ...". Without such a line, the step itself has failed (exit code 200) or was killed; the
next attempt then goes on with the running job.

    MLGEN_PLAN    file with the plan; manifests.yaml is beside it
    WORKFLOW      name of the Workflow, which owns the objects
    WORKFLOW_UID  its UID, which identifies the run

Argo restarts the job, so there is no gang for the supervisor. The phases of the status are

    Running ─► BackingOff ─► Running     another attempt
       └───────────┴───────► Ended       over
"""

from __future__ import annotations

import contextlib
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
from mlgen.runtime.api import NOT_FOUND, REFUSED, Api, ApiError
from mlgen.runtime.cluster import (
    ENDS,
    JOB,
    Failure,
    Object,
    Seen,
    counts,
    ending,
    failures,
    first,
    is_disrupted,
    is_live,
    is_suspended,
    pods_of,
    stranger,
    trimmed,
    volume_of,
)
from mlgen.runtime.decide import DISRUPTED, Decision, advance, decide
from mlgen.runtime.status import State
from mlgen.runtime.supervise import OWN_FAILURE, Supervisor, log_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlgen.runtime.plan import Plan, Workload

WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
TERMINATION_LOG = Path("/dev/termination-log")
"""The default terminationMessagePath. Argo shows it as the message of the step."""

FAILED = ("BackoffLimitExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded")
"""Reasons of a Job whose replicas have failed (staging/src/k8s.io/api/batch/v1/types.go)."""

STOPPED = "JobStopped"
SETTLE_SECONDS = 5.0
"""For so long the other replicas are watched: a slower kubelet may report an earlier failure."""

POLL_SECONDS = 2.0
MAX_TRIES, MAX_DELAY, MAX_MESSAGE = 30, 30.0, 2000

HEAD = re.compile(r"apiVersion: (\S+)\nkind: (\S+)\nmetadata:\n  name: (\S+)\n")
"""How mlgen begins the YAML of an object; Python's standard library cannot read YAML."""

Answer = TypeVar("Answer")


class Impossible(Exception):  # noqa: N818
    """The job cannot be submitted, however often that is tried."""


def attempt(plan: Plan, seen: Seen, now: float) -> Decision:
    """Return the next step of an attempt, which finishes when it is judged."""
    state = status.load(seen.status, plan.run)
    if state.phase != "Running":
        return Decision(finish=state.code)
    # Pods whose containers restart in place are deleted when their Job fails.
    restarts = _failures(plan, seen, plan.jobs, "Running")
    cause = max(restarts, key=lambda each: each.time, default=state.cause)
    state = advance(plan, seen, replace(state, cause=cause), now)
    if state.phase == "Ended" and state.reason in FAILED:
        state = _judged(plan, seen, state, now)
    changed = status.changes(plan, seen, state, now)
    if changed:
        return Decision(status=changed)
    return Decision(wake=state.settled) if state.settled else decide(plan, seen, now)


def _pods(jobs: tuple[Workload, ...], seen: Seen, phase: str) -> list[Object]:
    return [pod for _, pod in pods_of(jobs, seen) if pod["status"].get("phase") == phase]


def _failures(plan: Plan, seen: Seen, jobs: tuple[Workload, ...], phase: str) -> list[Failure]:
    """Return the failures in those pods of Jobs that are in a phase."""
    return failures(plan, jobs, replace(seen, pods=_pods(jobs, seen, phase)), "")


def _judged(plan: Plan, seen: Seen, state: State, now: float) -> State:
    """Return the state of an attempt after a Job has failed: to be tried again, or over.

    The container that failed first decides, because its peers often exit with 1 a moment later.
    """
    jobs = plan.jobs
    failed = tuple(item for item in jobs if not item.tolerates_failure and _has_failed(seen, item))
    cause = first(_failures(plan, seen, failed, "Failed")) or state.cause
    # A pod that is deleted, or whose node is lost, leaves no exit code, and that of a disrupted pod
    # says nothing about the training.
    disrupted = not cause or any(map(is_disrupted, _pods(failed, seen, "Failed")))
    state = replace(state, cause=cause, disrupted=state.disrupted or disrupted)
    settled = state.settled or now + SETTLE_SECONDS
    if now < settled and any(is_live(pod, now) for _, pod in pods_of(jobs, seen)):
        waiting = replace(state, phase="Running", settled=settled, ended=0.0)
        return replace(waiting, code=0, reason="", message="")
    state = replace(state, settled=0.0)
    if state.disrupted or not cause:
        names = " or ".join(item.name for item in failed)
        text = f"a pod of {names} was deleted, drained or preempted"
        again = replace(state, phase="BackingOff", ended=0.0, code=DISRUPTED)
        return replace(again, reason="JobDisrupted", message=text)
    oom = cause.reason == "OOMKilled"
    text = f"{cause.pod} exited with {cause.code}" + (", OOMKilled" if oom else "")
    state = replace(state, code=cause.code, reason=cause.reason if oom else "JobFailed")
    state = replace(state, message=text)
    return replace(state, phase="BackingOff", ended=0.0) if cause.retryable else state


def _has_failed(seen: Seen, job: Workload) -> bool:
    end = ending(seen.workloads[job.name])
    return bool(end and not ENDS[end["type"]])


def last(plan: Plan, seen: Seen, now: float, outcome: str) -> Decision:
    """Return the next step of the exit hook, after a step with this outcome."""
    state = status.load(seen.status, plan.run)
    if state.phase == "BackingOff":
        state = replace(state, phase="Ended", message=f"no attempts left; {state.message}")
    elif state.phase == "Running":
        text = f"the step ended ({outcome}) before training finished"
        state = replace(state, phase="Ended", code=DISRUPTED, reason=STOPPED, message=text)
    if not state.ended:
        state = replace(state, settled=0.0, ended=now)
        return Decision(status=status.changes(plan, seen, state, now))
    policy = plan.clean_pod_policy
    if state.reason == STOPPED and policy == "None":
        policy = "Running"  # None keeps the pods of a finished job, but a stopped one must not run
    if policy != "None":
        seen = _freed(seen)
    found = [each for each in seen.workloads.values() if each and not ending(each)]
    if state.reason == STOPPED and policy == "Running" and all(map(is_suspended, found)):
        changed = status.changes(plan, seen, state, now)
        return Decision(status=changed) if changed else Decision(finish=0)
    decision = decide(replace(plan, clean_pod_policy=policy), seen, now)
    return decision if decision.finish is None else replace(decision, finish=0)


def _freed(seen: Seen) -> Seen:
    """Return what is observed as it will be recorded, without the pods that are being stopped."""
    workloads = dict(seen.workloads)
    for name, observed in workloads.items():
        if observed:
            none = dict.fromkeys(("active", "ready", "replicas"), 0)
            workloads[name] = {**observed, "status": {**observed["status"], **none}}
    return replace(seen, workloads=workloads)


class Step:
    """The requests that a step makes beside those of the supervisor."""

    def __init__(
        self,
        plan: Plan,
        client: Api,
        workflow: str,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._client = client
        self._owners = [{**WORKFLOW, "name": workflow, "uid": plan.run}]
        self._sleep = sleep
        self._clock = clock

    def submit(self, manifests: str) -> None:
        """Submit the job, unless an earlier step pod has, and was lost."""
        data = self._ask(self._claimed)
        before = status.load(data, self._plan.run)
        if before.phase == "Ended" or (before.phase == "Running" and before.first):
            log_line(f"resuming watch of {', '.join(self._plan.deciding)}")
            return
        state = State(self._plan.run, restarts=before.restarts, disruptions=before.disruptions)
        if before.phase == "BackingOff" and before.code == DISRUPTED and not before.cause:
            state = replace(state, disruptions=state.disruptions + 1)
        elif before.phase == "BackingOff":
            state = replace(state, restarts=state.restarts + 1)
        while self._ask(self._delete_workloads):
            self._sleep(POLL_SECONDS)
        for document in documents(manifests):
            self._ask(partial(self._apply, document))
        self._store(replace(state, first=self._clock()))

    def fail(self, text: str) -> State:
        """Record that the job cannot be submitted, if the rights allow; return the state."""
        now = self._clock()
        state = State(self._plan.run, phase="Ended", ended=now, code=1, message=text)
        state = replace(state, reason="JobNotSubmitted")
        with contextlib.suppress(Impossible):
            self._store(state)
        return state

    def check_rights(self) -> None:
        """Raise Impossible if workloads may not be read; then there is nothing to clean up."""
        self._ask(lambda: self._workloads("Job"))

    def _ask(self, request: Callable[[], Answer]) -> Answer:
        """Return the answer to a request, which is repeated while the API server is unavailable."""
        for tries in range(MAX_TRIES):
            try:
                return request()
            except ApiError as problem:
                error = problem
            if _is_final(error):
                raise Impossible(str(error)) from error
            log_line(f"retrying: {error}")
            self._sleep(max(error.retry_after, min(2.0**tries, MAX_DELAY)))
        raise error

    def _claimed(self) -> dict[str, str]:
        """Return the data of the status, which is deleted with the Workflow."""
        name = f"{self._plan.job}-status"
        labels = {"app.kubernetes.io/part-of": self._plan.job}
        metadata = {"labels": labels, "ownerReferences": self._owners}
        found = api.find(self._client, "ConfigMap", name)
        if found and (owner := volume_of(found)):
            raise Impossible(f"ConfigMap {name} is a volume of the job {owner}; rename one of them")
        if found:
            found = self._client.patch("ConfigMap", name, {"metadata": metadata})
        else:
            found = self._client.create("ConfigMap", {"metadata": {**metadata, "name": name}})
        return found.get("data") or {}

    def _store(self, state: State) -> None:
        """Replace the status of an earlier run, or attempt."""
        data = self._ask(self._claimed)
        nothing = Seen(dict.fromkeys(item.name for item in self._plan.workloads), [], data)
        changed = status.changes(self._plan, nothing, state, self._clock())
        if state.code:
            changed.pop("Created", None)
        name = f"{self._plan.job}-status"
        self._ask(lambda: self._client.patch("ConfigMap", name, {"data": changed}))

    def _workloads(self, kind: str) -> list[Object]:
        return self._client.list(kind, trimmed, labelSelector=f"{JOB}={self._plan.job}")

    def _delete_workloads(self) -> bool:
        """Delete the workloads of earlier attempts; return whether one of their pods is left.

        A new pod must not join an old rendezvous. A pod on a lost node is not waited for.
        """
        left = False
        for kind in ("Job", "StatefulSet"):
            for metadata in [each["metadata"] for each in self._workloads(kind)]:
                left = True
                if not metadata.get("deletionTimestamp"):
                    log_line(f"delete {kind} {metadata['name']}")
                    body = {"propagationPolicy": "Background"}
                    self._client.delete(kind, metadata["name"], body)
        now = self._clock()
        return left or any(
            is_live(pod, now) and _is_of_workload(pod) for pod in self._workloads("Pod")
        )

    def _apply(self, document: str) -> None:
        """Apply a manifest, which is deleted with the Workflow, but over nobody else's object."""
        version, kind, name = head(document)
        log_line(f"apply {kind} {name}")
        found = api.find(self._client, kind, name, version)
        if found and (owner := stranger(found, self._plan.job)):
            raise Impossible(f"{kind} {name} exists, and belongs to {owner}")
        self._client.apply(version, kind, name, owned(document, self._owners))


def documents(manifests: str) -> list[str]:
    """Return the documents of a YAML text of mlgen."""
    return re.split("^---\n", manifests, flags=re.MULTILINE)[1:]


def head(document: str) -> tuple[str, str, str]:
    """Return the apiVersion, kind and name of a document."""
    found = HEAD.match(document)
    if not found:
        raise Impossible(f"expected a manifest of mlgen, got {document[:80]!r}")
    version, kind, name = (word.strip("'\"") for word in found.groups())
    return version, kind, name


def owned(document: str, owners: list[Object]) -> str:
    """Return a document with these ownerReferences; JSON is YAML."""
    references = f"metadata:\n  ownerReferences: {json.dumps(owners)}\n"
    return document.replace("metadata:\n", references, 1)


def _is_of_workload(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return any(owner["kind"] in ("Job", "StatefulSet") for owner in owners)


def _is_final(problem: ApiError) -> bool:
    """Return whether a request fails however often it is repeated."""
    text = str(problem)
    invalid = problem.code in (*REFUSED, NOT_FOUND) or "typed patch object" in text
    return invalid and "exceeded quota" not in text


def write_progress(path: str, plan: Plan, seen: Seen) -> None:
    """Write how many replicas of the deciding Jobs have succeeded, for Argo to show."""
    jobs = [seen.workloads[name] for name in plan.deciding]
    done = sum(job["status"].get("succeeded", 0) for job in jobs if job)
    wanted = sum(counts(job)[0] for job in jobs if job)
    if path and wanted:
        Path(path).write_text(f"{done}/{wanted}\n", encoding="utf-8")


def supervised(
    job: Plan, client: Api, decision: Callable[[Plan, Seen, float], Decision]
) -> tuple[int, State]:
    """Supervise until the decision is to finish; return an exit code, and the state."""
    bell, supervisor = threading.Event(), Supervisor(job, client, decide=decision)
    supervise.follow(job, client, bell, supervisor.pods)
    return supervise.run(supervisor, bell), status.load(supervisor.data, job.run)


def run(step: Step, job: Plan, client: Api, manifests: str, progress: str) -> State | None:
    """Run an attempt and return its end; None if the supervisor cannot go on."""
    try:
        step.submit(manifests)
    except Impossible as problem:
        return step.fail(str(problem))

    def decision(plan: Plan, seen: Seen, now: float) -> Decision:
        write_progress(progress, plan, seen)
        return attempt(plan, seen, now)

    _, state = supervised(job, client, decision)
    return state if state.phase != "Running" else None


def report(state: State | None) -> int:
    """Tell Argo how the attempt has ended; return the exit code."""
    if not state:
        return OWN_FAILURE
    if state.code:
        verdict = "retryable" if state.phase == "BackingOff" else "permanent"
        text = f"training {verdict}: {state.message}"
        log_line(text)
        TERMINATION_LOG.write_text(text[:MAX_MESSAGE], encoding="utf-8")
    return state.code


def main(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Run an attempt, or with the outcome of the step as the argument, its exit hook."""
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    file = Path(env["MLGEN_PLAN"])
    job = plan.load(file.read_text(encoding="utf-8"), env["WORKFLOW_UID"])
    client = api.in_cluster(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"])
    step = Step(job, client, env["WORKFLOW"])
    if not arguments:
        manifests = file.with_name("manifests.yaml").read_text(encoding="utf-8")
        return report(run(step, job, client, manifests, env.get("ARGO_PROGRESS_FILE", "")))
    try:
        step.check_rights()
    except Impossible as problem:
        # Nothing was submitted.
        log_line(str(problem))
        return 1
    return supervised(job, client, partial(last, outcome=arguments[0]))[0]


if __name__ == "__main__":  # pragma: no cover - tested in a process of its own
    sys.exit(supervise.guarded(partial(main, sys.argv[1:])))
