"""The step of an Argo Workflow: its verdicts, case by case, and attempts in a model cluster."""

import json
import re
import threading
import time
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from runtime import rights
from runtime.objects import made
from runtime.world import EPOCH, Killed, World
from support import ROOT, load, load_all

from mlgen.runtime import api, status, step, supervise
from mlgen.runtime.answers import ApiError, Event
from mlgen.runtime.attempt import attempt, exit_code, last
from mlgen.runtime.clock import Clock
from mlgen.runtime.cluster import Seen
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.status import State, stamp
from mlgen.runtime.step import Impossible, Step
from mlgen.runtime.supervise import Supervisor

NOW = 1_800_000_000.0
UID = "uid-1"
NODE = "mnist[0].train"
PLAN = Plan(
    job="mnist",
    run=UID,
    deciding=("mnist-worker",),
    workloads=(
        Workload("Job", "mnist-worker", "worker", replicas=2, retryable="any"),
        Workload("StatefulSet", "mnist-ps", "ps", retryable="any"),
        Workload("Job", "mnist-evaluator", "evaluator", retryable="any"),
    ),
    clean_pod_policy="Running",
    objects=(("Service", "mnist"),),
    crashes=5,
    backoff_limit=3,
    keep_last_log=False,
)


def rule(retryable):
    """Return the plan with another rule for exit codes."""
    workloads = tuple(item._replace(retryable=retryable) for item in PLAN.workloads)
    return PLAN._replace(workloads=workloads)


BY_CODE = rule(">=128")
RUNNING = State(UID, uid="mnist-worker", first=NOW - 60, started=NOW - 60)


# The verdict on an attempt


def job(name="mnist-worker", *, end="", reason="BackoffLimitExceeded", suspend=False, **counts):
    at = stamp(NOW)
    conditions = [{"type": end, "status": "True", "reason": reason, "message": "why"}]
    conditions[0]["lastTransitionTime"] = at
    document = {
        "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
        "spec": {"completions": 2, "parallelism": 2, "suspend": suspend},
        "status": {"active": 2, "ready": 2, **counts, "conditions": conditions if end else []},
    }
    return made("Job", document)


def server(replicas=1):
    metadata = {"name": "mnist-ps", "uid": "mnist-ps", "resourceVersion": "8", "generation": 1}
    status = {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}
    document = {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}
    return made("StatefulSet", document)


def pod(name, code=None, at=-1, phase="Failed", owner="mnist-worker", **more):
    """Return a pod whose container ended `at`, and that was deleted at the time `told`."""
    state = {"running": {}}
    if code is not None:
        ended = {"exitCode": code, "startedAt": stamp(NOW - 3000), "finishedAt": stamp(NOW + at)}
        state = {"terminated": {**ended, "reason": more.get("reason", "Error")}}
    container = {"name": "main", "image": "i", "restartCount": 0, "state": state}
    if "restarted" in more:
        end = {"exitCode": more["restarted"], "finishedAt": stamp(NOW + at), "reason": "Error"}
        container |= {"lastState": {"terminated": end}, "restartCount": 2}
    conditions = [{"type": c, "status": "True"} for c in more.get("conditions", ())]
    told = {"deletionTimestamp": stamp(NOW + more["told"])} if "told" in more else {}
    found = {
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": stamp(NOW - 3000),
            "ownerReferences": [{"kind": "Job", "uid": owner}], **told,
        },
        "spec": {},
        "status": {"phase": phase, "containerStatuses": [container], "conditions": conditions},
    }  # fmt: skip
    if "init" in more:
        sidecar = {"restartPolicy": "Always"} if more["init"] == "sidecar" else {}
        found["spec"]["initContainers"] = [{"name": "init", **sidecar}]
        found["status"]["initContainerStatuses"] = [{**container, "name": "init"}]
        container["state"] = {"waiting": {}}
    return made("Pod", found, NOW - 3000)


FAILED = job(end="Failed", active=0, ready=0)


def seen(*pods, worker=None, evaluator=None, state=RUNNING):
    workloads = {
        "mnist-worker": worker or FAILED,
        "mnist-ps": server(),
        "mnist-evaluator": evaluator or job("mnist-evaluator"),
    }
    return Seen(workloads, list(pods), {"state": state.text()})


def judged(what, plan=PLAN, now=NOW):
    """Return the verdict on an attempt, its exit code, and the reason."""
    for _ in range(3):
        decision = attempt(plan, what, now)
        if decision.status is None:
            break
        what = replace(what, status={**what.status, **decision.status})
    state = status.load(what.status, UID)
    return state.phase, exit_code(state), state.message or status.why(state)


AGAIN, OVER = "BackingOff", "Ended"
GONE = "a pod of mnist-worker was disrupted: Deleted"
CASES = {
    "any exit code": ([pod("w-1", 42)], 42, "w-1 exited with code 42"),
    "a signal": ([pod("w-1", 139)], 139, "w-1 exited with code 139"),
    "out of memory": ([pod("w-1", 137, reason="OOMKilled")], 137, "w-1 exited with code 137 (OOM"),
    "the first counts": ([pod("w-0", 1, -2), pod("w-1", 143, -3)], 143, "w-1 exited with code 143"),
    "on a tie, the higher code": ([pod("w-0", 1), pod("w-1", 137)], 137, "w-1 exited with code"),
    "an init container": ([pod("w-1", 75, init="")], 75, "init container init of w-1 exited"),
    "no pod is left": ([], 143, GONE),
    "drained": (
        [pod("w-1", 1, conditions=["DisruptionTarget"]), pod("w-0", 1)],
        143,
        "w-1 was disrupted: DisruptionTarget",
    ),
    "deleted": (
        [pod("w-1", 143, told=-2, at=1), pod("w-0", 1)],
        143,
        "w-1 was disrupted: Deleted",
    ),
    "deleted by the Job": ([pod("w-1", 143, told=0, at=1), pod("w-0", 1)], 1, "w-0 exited with"),
    "lost with its node": (
        [pod("w-1", phase="Running", told=-3000), pod("w-0", 1)],
        143,
        "w-1 was disrupted: Deleted",
    ),
    "a sidecar": ([pod("w-1", 143, init="sidecar")], 143, GONE),
    "a success": ([pod("w-1", 0, phase="Succeeded")], 143, GONE),
    "the failure of a server": ([pod("ps-0", 1, owner="mnist-ps"), pod("w-0", 2)], 2, "w-0 exited"),
    "a server that is deleted": (
        [pod("ps-0", phase="Running", owner="mnist-ps", told=-1), pod("w-0", 1)],
        143,
        "ps-0 was disrupted: Deleted",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause_of_a_failure_is_reported_and_the_job_restarted(case):
    pods, code, text = CASES[case]

    found = judged(seen(*pods))

    assert (AGAIN, code) == found[:2]
    assert text in found[2]


EXITS = {
    "a permanent code": (">=128", [pod("w-1", 42)], OVER),
    "a retryable code": (">=128", [pod("w-1", 138)], AGAIN),
    "a listed code": ((3,), [pod("w-1", 3)], AGAIN),
    "a code that is not listed": ((3,), [pod("w-1", 138)], OVER),
    "killed, whatever is listed": ((3,), [pod("w-1", 137)], AGAIN),
    "out of memory": ((3,), [pod("w-1", 137, reason="OOMKilled")], AGAIN),
    "a peer of one that was killed": (">=128", [pod("w-0", 1, -3), pod("w-1", 139, -2)], AGAIN),
    "never": (None, [pod("w-1", 138)], OVER),
    "never, and disrupted": (None, [], AGAIN),
}


@pytest.mark.parametrize("case", EXITS)
def test_only_a_rule_of_the_job_file_makes_an_exit_code_permanent(case):
    retryable, pods, phase = EXITS[case]

    assert phase == judged(seen(*pods), rule(retryable))[0]


def test_a_restart_counts_towards_the_limit_and_a_disruption_does_not():
    spent = replace(RUNNING, restarts=4, spent=3)
    text = "w-1 exited with code 138 after 3 restarts (runPolicy.backoffLimit)"

    assert (OVER, 138, text) == judged(seen(pod("w-1", 138), state=spent))
    assert AGAIN == judged(seen(state=spent))[0]


def test_a_program_that_cannot_start_is_not_started_for_ever():
    state = replace(RUNNING, restarts=2, spent=2, quick=2, quick_code=2)
    quick, slow = pod("w-1", 2), pod("w-1", 2)
    quick["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = stamp(NOW - 4)

    assert OVER == judged(seen(quick, state=state))[0]
    assert AGAIN == judged(seen(slow, state=state))[0]


def test_earlier_failures_do_not_count_after_an_hour_of_running():
    pods = [pod(f"w-{i}", phase="Running") for i in range(2)]
    others = [pod("ps-0", phase="Running", owner="mnist-ps")]
    others += [pod(f"e-{i}", phase="Running", owner="mnist-evaluator") for i in range(2)]
    state = replace(RUNNING, spent=3, restarts=3)
    runs = seen(*pods, *others, worker=job(), state=state)
    first = status.load(attempt(PLAN, runs, NOW).status, UID)
    later = replace(runs, status=attempt(PLAN, runs, NOW).status)

    assert (NOW, 3) == (first.running, first.spent)
    assert None is attempt(PLAN, later, NOW + 3599).status
    assert (0, 3) == (
        (found := status.load(attempt(PLAN, later, NOW + 3600).status, UID)).spent,
        found.restarts,
    )
    lost = replace(later, pods=[*pods, *others[1:]])
    assert 0 == status.load(attempt(PLAN, lost, NOW + 60).status, UID).running


def test_an_exceeded_deadline_and_a_job_deleted_by_hand_are_permanent():
    late = seen(pod("w-1", 143), worker=job(end="Failed", reason="DeadlineExceeded"))
    gone = seen(worker=job())
    gone.workloads["mnist-worker"] = None

    assert (OVER, 124) == judged(late)[:2]
    assert (OVER, 1, "mnist-worker was deleted by another client") == judged(gone)


def test_the_other_jobs_are_ended_before_the_verdict():
    """A kubelet may be slow to report which replica failed first, and a lost one never ends."""
    running = pod("w-0", phase="Running")
    what = seen(pod("e-0", 42, owner="mnist-evaluator"), running, worker=job())
    what.workloads["mnist-evaluator"] = job("mnist-evaluator", end="FailureTarget")

    first = attempt(BY_CODE, what, NOW)
    stopping = replace(what, status=first.status)
    (action,) = attempt(BY_CODE, stopping, NOW).actions

    assert "Failed" not in first.status
    assert ("mnist-worker", 1) == (action.name, action.patch["spec"]["activeDeadlineSeconds"])
    ended = replace(stopping, pods=[what.pods[0]])
    ended.workloads["mnist-worker"] = job(end="Failed", reason="DeadlineExceeded")
    assert (OVER, 42) == judged(ended, BY_CODE)[:2]
    killed = replace(ended, pods=[*ended.pods, pod("e-1", 137, owner="mnist-evaluator")])
    assert (AGAIN, 137) == judged(killed, BY_CODE)[:2]


def test_a_pod_on_a_lost_node_is_waited_for_until_that_is_known():
    lost = pod("w-1", phase="Running", told=1)
    what = seen(pod("w-0", 1), lost)
    stopping = replace(what, status=attempt(PLAN, what, NOW).status)

    assert NOW + 61 == attempt(PLAN, stopping, NOW + 2).wake
    assert (AGAIN, 143, "w-1 was disrupted: NodeLost") == judged(stopping, now=NOW + 62)


def test_a_job_that_succeeds_while_it_is_ended_has_succeeded():
    end = job("mnist-evaluator", end="Failed")
    what = seen(worker=job(end="Complete"), evaluator=end, state=replace(RUNNING, phase="Stopping"))

    assert (OVER, 0) == judged(what)[:2]


def test_a_job_that_cannot_be_ended_does_not_hold_up_the_verdict():
    what = seen(pod("w-1", 3), pod("e-0", phase="Running", owner="mnist-evaluator"))

    assert AGAIN == judged(replace(what, refused={"mnist-evaluator": "denied"}))[0]


def test_the_last_restart_in_place_is_remembered_when_its_pod_is_deleted():
    running = seen(pod("mnist-worker-1-x", phase="Running", restarted=42), worker=job())

    decision = attempt(BY_CODE, running, NOW)
    found = judged(replace(seen(), status=decision.status), BY_CODE)

    assert (OVER, 42) == found[:2]
    assert "mnist-worker-1-x exited with code 42" in found[2]


def test_a_restart_in_place_is_no_cause_of_what_fails_later():
    before = pod("mnist-evaluator-0-x", phase="Running", restarted=42, owner="mnist-evaluator")

    decision = attempt(BY_CODE, seen(before, worker=job()), NOW)

    assert (AGAIN, 143, GONE) == judged(replace(seen(), status=decision.status), BY_CODE)


def test_what_is_judged_is_not_judged_again():
    for phase, code in ((AGAIN, 143), (OVER, 42)):
        state = replace(RUNNING, phase=phase, code=code)

        assert code == attempt(PLAN, seen(state=state), NOW).finish


def test_a_retryable_failure_is_no_failure_of_the_job():
    decision = attempt(PLAN, seen(pod("w-1", 138)), NOW)

    assert "Restarting" in decision.status
    assert "Failed" not in decision.status


def test_a_job_that_ends_before_it_is_seen_running_was_running():
    data = attempt(PLAN, seen(worker=job(end="Complete", active=0, succeeded=2)), NOW).status

    assert ["False", "True"] == [data[name].split()[0] for name in ("Running", "Succeeded")]


# The exit hook


def ended(phase, policy="Running", outcome="Failed", worker=None, **fields):
    """Return the conditions and actions of the exit hook after an attempt with this state."""
    what = seen(worker=worker or job(), state=replace(RUNNING, phase=phase, **fields))
    job_plan, actions = PLAN._replace(clean_pod_policy=policy), []
    for _ in range(9):
        decision = last(job_plan, what, NOW, outcome)
        actions += decision.actions
        data = {**what.status, **(decision.status or {})}
        what = replace(what, status=data)
        for action in decision.actions:
            found = what.workloads.get(action.name)
            if found and action.patch:
                found["spec"].update(action.patch["spec"])
                if action.patch["spec"].get("activeDeadlineSeconds"):
                    end = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
                    found["status"]["conditions"] = [end]
            elif found:
                what.workloads[action.name] = None
        if decision.finish is not None:
            assert decision.finish == 0
            break
    else:
        raise AssertionError("the hook does not end")
    return data, [(action.name, action.patch and action.patch["spec"]) for action in actions]


FREED = [("mnist-ps", {"replicas": 0}), ("mnist-evaluator", {"suspend": True})]


def test_the_hook_keeps_the_end_that_the_attempt_has_recorded():
    data, actions = ended(
        OVER, worker=FAILED, code=42, reason="JobFailed", message="w-1 exited", ended=NOW
    )

    assert data["Failed"].endswith("JobFailed: w-1 exited")
    assert FREED == actions
    assert data["replicas.ps"].startswith("active 0,")


def test_the_hook_ends_a_job_that_would_have_been_restarted():
    data, _ = ended(AGAIN, worker=FAILED, until=NOW + 300)

    assert "JobStopped: the step ended (Failed) before training finished" in data["Failed"]
    assert data["completionTime"] == stamp(NOW)


@pytest.mark.parametrize("policy", ["None", "Running"])
def test_a_stopped_job_stops_running(policy):
    data, actions = ended("Running", policy)

    assert "JobStopped: the step ended (Failed) before training finished" in data["Failed"]
    assert [("mnist-worker", {"activeDeadlineSeconds": 1}), *FREED] == actions
    assert data["replicas.worker"].startswith("active 0,")


def test_a_suspended_job_that_is_stopped_stays_suspended():
    """Kueue would suspend it again, forever."""
    what = seen(worker=job(suspend=True), evaluator=job("mnist-evaluator", suspend=True))
    what.workloads["mnist-ps"] = None
    first = last(PLAN, what, NOW, "Failed")
    second = last(PLAN, replace(what, status=first.status), NOW, "Failed")
    third = last(
        PLAN, replace(what, status={**first.status, **(second.status or {})}), NOW, "Failed"
    )

    assert "JobStopped" in first.status["Failed"]
    assert (0, ()) == (third.finish, third.actions)


def test_policy_none_keeps_what_runs_after_a_success():
    data, actions = ended(
        OVER, "None", worker=job(end="Complete", active=0, succeeded=2), reason="JobSucceeded",
        ended=NOW,
    )  # fmt: skip

    assert [] == actions
    assert data["replicas.ps"].startswith("active 1,")
    assert "Succeeded" in data


def test_policy_all_deletes_everything_and_keeps_the_counts():
    done = job(end="Complete", active=0, succeeded=2)
    data, actions = ended(OVER, "All", worker=done, reason="JobSucceeded", ended=NOW)

    assert {"mnist", "mnist-worker", "mnist-ps", "mnist-evaluator"} == {name for name, _ in actions}
    assert "active 0, succeeded 2, failed 0" == data["replicas.worker"]
    assert data["replicas.ps"].startswith("active 0,")


# Whole attempts

MANIFESTS = """---
apiVersion: v1
kind: Service
metadata:
  name: mnist
spec:
  selector: {a: b}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: mnist-ps
  labels: {mlgen.dev/job: mnist}
spec:
  replicas: 1
---
apiVersion: batch/v1
kind: Job
metadata:
  name: 'mnist-worker'
  labels: {mlgen.dev/job: mnist}
spec:
  completions: 2
  parallelism: 2
  backoffLimit: 0
"""
SMALL = PLAN._replace(workloads=PLAN.workloads[:2])


class Cluster(World):
    """A model of a cluster in which workers fail `failures` times."""

    def __init__(self, *codes):
        super().__init__(Random(3))
        self.codes = list(codes)
        self.created = []
        self.on_pod_created = self.pod_created
        self.on_pod_running = self.pod_running
        self.generations = []
        self.requests = 0
        self.dies_at = None

    def apply(self, version, kind, name, text):
        body = load(text)
        assert (version, kind, name) == (body["apiVersion"], body["kind"], body["metadata"]["name"])
        if (kind, name) not in self.objects:
            self.put(kind, name, metadata=body["metadata"], spec=body["spec"])

    def pod_created(self, pod):
        self.created.append(pod["metadata"]["name"])
        owner = pod["metadata"]["ownerReferences"][0]
        owner["kind"] = "Job" if "worker" in pod["metadata"]["name"] else "StatefulSet"
        live = [p for p in self.all("Pod") if p["status"]["phase"] in ("Pending", "Running")]
        owners = {p["metadata"]["ownerReferences"][0]["uid"] for p in live}
        assert len(owners) <= 2, "a new pod met an old one"

    def pod_running(self, pod):
        workers = [p for p in self.all("Pod") if self.is_running(p) and self.of_job(p)]
        if len(workers) == 2 and self.of_job(pod):
            code = self.codes.pop(0) if self.codes else 0
            for each in workers[: 1 if code else 2]:
                self.after(3.0, self.end_pod, each, code)

    @staticmethod
    def of_job(pod):
        return "worker" in pod["metadata"]["name"]

    def workers(self):
        return {p["metadata"]["uid"] for p in self.all("Pod") if self.of_job(p)}

    def sleep(self, seconds):
        self.advance(self.now + seconds)

    def __getattribute__(self, name):
        if name in ("get", "list", "create", "patch", "delete", "apply"):
            self.requests += 1
            if self.requests == self.dies_at:
                raise Killed
        return super().__getattribute__(name)

    def data(self):
        return self.objects["ConfigMap", "mnist.status"].get("data", {})

    def state(self):
        return status.load(self.data(), UID)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Collect the logged lines."""
    lines = []
    monkeypatch.setattr(step, "log_line", lines.append)
    return lines


class Client:
    """A client of a model cluster, with its clock."""

    namespace, answered = "team", True

    def __init__(self, cluster):
        self.cluster = cluster
        self.clock = Clock(lambda: cluster.now - EPOCH, lambda: cluster.now)

    def __getattr__(self, name):
        return getattr(self.cluster, name)


def submission(cluster, run=UID):
    plan = SMALL._replace(run=run)
    return Step(plan, Client(cluster), ("mnist-x", "uid"), cluster.sleep)


def supervise_until_end(cluster, decision):
    supervisor = Supervisor(SMALL, Client(cluster), lambda _: None, decision)
    while supervisor.exit_code is None:
        delay = supervisor.step()
        cluster.advance(cluster.now + min(delay, 5.0))
        assert cluster.now < EPOCH + 3600
    return status.load(supervisor.data, UID)


def one_attempt(cluster, *, anew=False):
    submission(cluster).submit(MANIFESTS, anew=anew)
    return supervise_until_end(cluster, attempt)


def test_an_attempt_submits_the_job_and_supervises_it():
    cluster = Cluster()

    state = one_attempt(cluster)

    assert ("Ended", 0) == (state.phase, state.code)
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
    owner |= {"name": "mnist-x", "uid": "uid"}
    names = [("Service", "mnist"), ("StatefulSet", "mnist-ps"), ("Job", "mnist-worker")]
    for kind, name in [*names, ("ConfigMap", "mnist.status")]:
        assert [owner] == cluster.objects[kind, name]["metadata"]["ownerReferences"]
    data = cluster.data()
    assert ["True", "False", "True"] == [
        data[name].split()[0] for name in ("Created", "Running", "Succeeded")
    ]
    assert "Restarting" not in data


def test_an_attempt_replaces_all_pods_when_the_last_is_gone():
    cluster = Cluster(138)
    first = one_attempt(cluster)
    before = cluster.workers()
    cluster.sleep(10)

    second = one_attempt(cluster)

    assert [("BackingOff", 138), ("Ended", 0)] == [(s.phase, exit_code(s)) for s in (first, second)]
    assert not before & cluster.workers()
    assert (1, 0) == (second.restarts, second.disruptions)
    assert cluster.data()["Restarting"].startswith("False ")


def test_the_next_attempt_begins_after_its_delay_and_keeps_the_counts(quiet):
    cluster = Cluster()
    counts = {"restarts": 4, "disruptions": 2, "spent": 3, "disturbed": 1, "quick": 1}
    before = State(UID, phase="BackingOff", first=1.0, until=cluster.now + 80, uid="old", **counts)
    cluster.put("ConfigMap", "mnist.status", data={"state": before.text()})

    submission(cluster).submit(MANIFESTS)

    assert "the next attempt starts in 80 s" in quiet
    assert EPOCH + 80 <= cluster.state().first < EPOCH + 90
    assert State(UID, first=cluster.state().first, **counts) == cluster.state()


def test_a_program_that_cannot_start_is_started_three_times():
    cluster = Cluster(2, 2, 2)

    states = [one_attempt(cluster, anew=n == 0) for n in range(3)]

    assert [AGAIN, AGAIN, OVER] == [state.phase for state in states]
    assert ("StartFailed", 2) == (states[-1].reason, states[-1].restarts)


def test_the_first_delay_is_doubled_up_to_five_minutes():
    delays = []
    for spent in range(6):
        what = seen(pod("w-1", 3), state=replace(RUNNING, spent=spent))
        plan = PLAN._replace(backoff_limit=9, first_delay=30.0)
        delays.append(status.load(attempt(plan, what, NOW).status, UID).until - NOW)

    assert [30, 60, 120, 240, 300, 300] == delays


def test_a_delay_that_a_wrong_clock_has_stored_is_cut_short():
    cluster = Cluster()
    before = State(UID, phase="BackingOff", first=1.0, until=cluster.now + 1e6)
    cluster.put("ConfigMap", "mnist.status", data={"state": before.text()})

    submission(cluster).submit(MANIFESTS)

    assert cluster.state().first <= EPOCH + 310


@pytest.mark.parametrize("phase", ["Running", "BackingOff", "Ended"])
def test_the_first_attempt_after_argo_retry_trains_again(phase):
    cluster = Cluster()
    before = State(UID, phase=phase, first=1.0, code=3, restarts=3, spent=3, quick=2)
    cluster.put("ConfigMap", "mnist.status", data={"state": before.text()})

    state = one_attempt(cluster, anew=True)

    assert ("Ended", 0, 0) == (state.phase, state.code, state.restarts)


def test_the_attempt_after_the_exit_hook_trains_again():
    """It is an attempt of `argo retry` whose first step pod was lost before it started."""
    cluster = Cluster()
    submission(cluster).submit(MANIFESTS)
    cluster.data()["state"] = replace(cluster.state(), phase="Ended", code=42, ended=1.0).text()
    supervise_until_end(cluster, partial(last, outcome="Failed"))
    assert "Failed" in cluster.data()

    state = one_attempt(cluster)

    assert ("Ended", 0) == (state.phase, state.code)


def test_a_new_workflow_discards_the_status_of_an_earlier_one():
    cluster = Cluster()
    earlier = State("uid-0", phase="Ended", code=1, first=1.0)
    data = {"state": earlier.text(), "Failed": "True 2026-01-01T00:00:00Z JobFailed: x"}
    cluster.put("ConfigMap", "mnist.status", data=data)

    state = one_attempt(cluster)

    assert ("Ended", 0) == (state.phase, state.code)
    assert "Failed" not in cluster.data()


@pytest.mark.parametrize("phase", ["Running", "Ended"])
def test_the_job_of_a_lost_step_is_not_submitted_again(phase, quiet):
    cluster = Cluster()
    submission(cluster).submit(MANIFESTS)
    state = replace(cluster.state(), phase=phase, code=42 if phase == "Ended" else 0)
    cluster.data()["state"] = state.text()
    cluster.sleep(2)
    before = cluster.workers()

    state = one_attempt(cluster)

    assert ("Ended", state.code) == (state.phase, 42 if phase == "Ended" else 0)
    assert quiet[-1] == "resuming watch of mnist-worker"
    assert before == cluster.workers()


@pytest.mark.parametrize(
    "at",
    [pytest.param(at, marks=() if at % 20 == 1 else pytest.mark.slow) for at in range(1, 100, 4)],
)
def test_a_step_that_is_killed_at_a_request_is_replaced(at):
    """As Argo does: another attempt after a lost step, or a retryable exit code."""
    cluster = Cluster(138)
    cluster.dies_at = at
    for _ in range(4):
        try:
            state = one_attempt(cluster)
        except Killed:
            continue
        if state.phase == "Ended":
            break
    cluster.dies_at = None
    supervise_until_end(cluster, partial(last, outcome="Succeeded"))
    cluster.sleep(60)

    state = cluster.state()
    assert ("Ended", 0, 1) == (state.phase, state.code, state.restarts)
    assert "Succeeded" in cluster.data()
    assert {p["status"]["phase"] for p in cluster.all("Pod")} == {"Succeeded"}


# Requests


class Recorder(Client):
    """A client that records the permissions that it uses."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.used = set()

    def __getattr__(self, name):
        def call(*arguments, **selectors):
            if name == "apply":  # which creates the object if it does not exist
                self.used |= {(verb, rights.resource(arguments[1])) for verb in ("create", "patch")}
            else:
                self.used.add(rights.request(name, *arguments)[:2])
            return getattr(self.cluster, name)(*arguments, **selectors)

        return call


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_the_role_of_the_step_has_what_it_uses_and_no_more(policy):
    objects = (("Service", "mnist"), ("ConfigMap", "mnist-files")) if policy == "All" else ()
    job_plan = SMALL._replace(clean_pod_policy=policy, objects=objects)
    cluster = Cluster(138)
    recorder = Recorder(cluster)
    recorder.used |= {right[:2] for right in rights.watched(job_plan)}
    argo = Step(job_plan, recorder, ("mnist-x", "uid"), cluster.sleep)
    for decision in (attempt, attempt, partial(last, outcome="Succeeded")):
        if decision is attempt:
            argo.submit(MANIFESTS + MORE)
        supervisor = Supervisor(job_plan, recorder, lambda _: None, decision)
        while supervisor.exit_code is None:
            supervisor.step()
            cluster.sleep(1.0)

    files = load_all((ROOT / "argo/rbac.yaml").read_text())
    (rules,) = [document["rules"] for document in files if document["kind"] == "Role"]
    granted = {
        (verb, each) for rule in rules for each in rule["resources"] for verb in rule["verbs"]
    }
    of_argo = {(verb, "workflowtaskresults") for verb in ("create", "patch")}
    unused = {
        "All": {("patch", "statefulsets/scale")},
        "Running": {("delete", "services"), ("delete", "configmaps")},
    }
    # A PodGroup is deleted with its owner.
    assert recorder.used == granted - of_argo - unused[policy] - {("delete", "podgroups")}


MORE = """---
apiVersion: v1
kind: ConfigMap
metadata:
  name: mnist-files
spec: {}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: mnist
spec: {}
"""


class Answers:
    """An API server that raises these errors, and then answers."""

    def __init__(self, *errors, method="list"):
        self.errors, self.method, self.calls = list(errors), method, []

    clock = Clock(lambda: 0.0, lambda: NOW)

    def __getattr__(self, name):
        def call(*arguments, **_):
            self.calls.append((name, *arguments[:3]))
            if name == self.method and self.errors:
                raise self.errors.pop(0)
            if name == "get":
                raise ApiError("no such object", 404)
            return Event("LISTED", [], "1") if name == "list" else {}

        return call


def submitted(answers, manifests=MANIFESTS):
    waits = []
    Step(SMALL, answers, ("mnist-x", "uid"), waits.append).submit(manifests)
    return [each for each in waits if each]


@pytest.mark.parametrize("method", ["patch", "list", "get", "apply"])
def test_the_attempt_waits_for_an_unavailable_api_server(method):
    errors = [ApiError("refused"), ApiError("busy", 429, 7.0), ApiError("exceeded quota: x", 403)]

    assert [1.0, 7.0, 4.0] == submitted(Answers(*errors, method=method))


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_the_garbage_collector_may_delete_first(method):
    """The step of the next Workflow starts while the objects of the last one are deleted."""

    class Deleted(Cluster):
        def __getattribute__(self, name):
            if name == method and not self.__dict__.get("passed"):
                return self.delete_first
            return super().__getattribute__(name)

        def delete_first(self, kind, name, *_):
            self.__dict__["passed"] = True
            self.objects.pop((kind, name))
            raise ApiError(f"{name} not found", 404)

    cluster = Deleted()
    cluster.put("ConfigMap", "mnist.status", data={"state": "{}"})
    cluster.put("Job", "mnist-worker", metadata={"labels": {"mlgen.dev/job": "mnist"}}, spec={})

    submission(cluster).submit(MANIFESTS)

    assert "Running" == cluster.state().phase
    assert cluster.objects["Job", "mnist-worker"]["spec"]["completions"] == 2


def test_a_lasting_outage_fails_the_step_not_the_training():
    with pytest.raises(ApiError, match="refused"):
        submitted(Answers(*[ApiError("refused")] * 99))


@pytest.mark.parametrize(
    ("code", "text"),
    [(403, "forbidden"), (422, "invalid"), (404, "not found"), (500, "typed patch object (x)")],
)
def test_a_request_that_cannot_succeed_is_not_repeated(code, text):
    answers = Answers(ApiError(text, code), ApiError("again"), method="apply")

    with pytest.raises(Impossible, match=text.partition("(")[0]):
        submitted(answers)

    assert len(answers.errors) == 1


@pytest.mark.parametrize(
    ("labels", "owner"),
    [({"mlgen.dev/job": "mnist-a"}, "the job mnist-a"), ({}, "another application")],
)
def test_an_object_of_somebody_else_is_not_applied_over(labels, owner):
    cluster = Cluster()
    theirs = cluster.put(
        "StatefulSet", "mnist-ps", metadata={"labels": labels}, spec={"replicas": 7}
    )

    with pytest.raises(Impossible, match=f"StatefulSet mnist-ps exists, and belongs to {owner}"):
        submission(cluster).submit(MANIFESTS)

    assert theirs["spec"] == {"replicas": 7}


def test_a_manifest_that_mlgen_has_not_written_is_refused():
    with pytest.raises(Impossible, match="expected a manifest of mlgen, got '"):
        submitted(Answers(), "---\n{}\n")


def test_an_unexpected_answer_to_the_status_is_raised():
    with pytest.raises(Impossible, match="no"):
        submitted(Answers(ApiError("no", 403), method="get"))


def test_a_failed_submission_is_recorded_if_the_rights_allow():
    cluster = Cluster()

    state = submission(cluster).fail("403: no")
    refusing = Answers(*[ApiError("no", 403)] * 9, method="get")
    Step(SMALL, refusing, ("mnist-x", "uid"), cluster.sleep).fail("403: no")

    assert ("Ended", 1, "403: no") == (state.phase, state.code, state.message)
    assert "JobNotSubmitted: 403: no" in cluster.data()["Failed"]
    assert "Created" not in cluster.data()


def test_pods_that_no_workload_owns_and_pods_on_lost_nodes_are_not_waited_for():
    cluster = Cluster()
    labels = {"labels": {"mlgen.dev/job": "mnist"}}
    board = {**labels, "ownerReferences": [{"kind": "ReplicaSet", "uid": "r"}]}
    stuck = {**labels, "ownerReferences": [{"kind": "Job", "uid": "j"}]}
    stuck["deletionTimestamp"] = stamp(cluster.now - 61)
    cluster.put("Pod", "board", metadata=board, spec={}, status={"phase": "Running"})
    cluster.put("Pod", "stuck", metadata=stuck, spec={}, status={"phase": "Running"})

    submission(cluster).submit(MANIFESTS)

    assert cluster.now < EPOCH + 65


def test_a_workload_that_is_being_deleted_is_waited_for():
    metadata = {"name": "mnist-worker", "uid": "u", "deletionTimestamp": stamp(NOW)}
    gone = made("Job", {"metadata": metadata})

    class Terminating(Answers):
        jobs = [[gone], []]  # noqa: RUF012

        def list(self, kind, *_, **__):
            return Event("LISTED", self.jobs.pop(0) if kind == "Job" else [], "1")

    answers = Terminating()

    assert [2.0] == submitted(answers)
    assert "delete" not in [call[0] for call in answers.calls]


@pytest.mark.parametrize(("seconds", "pods"), [(500, 0), (None, 0), (None, 1)])
def test_the_finalizer_of_another_program_is_waited_for_but_not_forever(seconds, pods):
    """A Job with a finalizer stays after its deletion, and its name is taken."""
    cluster = Cluster()
    labels = {"mlgen.dev/job": "mnist"}
    cluster.put("Job", "mnist-worker", metadata={"labels": labels}, spec={"completions": 0})
    cluster.hold("Job", "mnist-worker", seconds or 9999)
    owned = {"labels": labels, "ownerReferences": [{"kind": "Job", "uid": "j"}]}
    for number in range(pods):  # a pod that takes an hour to end
        name = f"p-{number}"
        cluster.put("Pod", name, metadata=owned, spec={}, status={"phase": "Running"})
        cluster.after(3600, cluster.objects.pop, ("Pod", name))

    if seconds:
        submission(cluster).submit(MANIFESTS)
    else:
        problem = (
            "Job mnist-worker with the finalizer acme.example/keep has been deleted, but remains"
            " until another program removes its finalizer; remove it with kubectl edit"
        )
        with pytest.raises(Impossible, match=problem):
            submission(cluster).submit(MANIFESTS)

    assert 0 <= cluster.now - EPOCH - pods * 3600 - (seconds or 600) < 20


# The program


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Function that runs the program; returns its exit code and its outputs for Argo."""
    worker = {"kind": "Job", "name": "mnist-worker", "role": "worker", "replicas": 2}
    workloads = [worker | {"retryable": "any"}]
    job_plan = {"job": "mnist", "deciding": ["mnist-worker"], "workloads": workloads}
    (tmp_path / "plan.json").write_text(json.dumps(job_plan))
    (tmp_path / "manifests.yaml").write_text(MANIFESTS)

    def run(cluster, *arguments, **changes):
        class Bell:
            wait = staticmethod(cluster.sleep)

            def clear(self):
                """Do not sleep. Time passes only in the model."""

        monkeypatch.setattr(api, "in_cluster", lambda *_: Client(cluster))
        monkeypatch.setattr(step, "TERMINATION_LOG", tmp_path / "log")
        monkeypatch.setattr(supervise, "start", lambda *_: None)
        monkeypatch.setattr(threading, "Event", Bell)
        monkeypatch.setattr(time, "sleep", cluster.sleep)
        env = {
            "MLGEN_PLAN": str(tmp_path / "plan.json"),
            "WORKFLOW": "mnist-x",
            "WORKFLOW_UID": UID,
            "NODE": NODE,
            "RETRIES": "0",
            "BACKOFF_LIMIT": "0",
            "BACKOFF_SECONDS": "10",
            "KUBERNETES_SERVICE_HOST": "h",
            "KUBERNETES_SERVICE_PORT": "443",
            "ARGO_PROGRESS_FILE": str(tmp_path / "progress"),
        }
        code = step.main(arguments, env | changes)
        log = tmp_path / "log"
        return code, log.read_text() if log.exists() else ""

    return run


def test_the_program_tells_argo_the_end_and_the_progress(program, tmp_path, quiet):
    assert (0, "") == program(Cluster())
    assert "2/2\n" == (tmp_path / "progress").read_text()
    step.write_progress("", SMALL, seen())  # an executor without progress

    for limit, verdict in (("0", "permanent"), ("1", "retryable")):
        text = f"training {verdict}: mnist-worker-0-"
        code, told = program(Cluster(42), BACKOFF_LIMIT=limit)
        assert (42, text) == (code, told[: len(text)])
        assert quiet[-1] == told


def test_a_second_call_for_the_same_job_trains_again(program):
    cluster = Cluster()
    for node in ("w[0].first", "w[1].second"):
        program(cluster, NODE=node, RETRIES="1")
        run = json.loads(cluster.data()["state"])["run"]
        assert re.fullmatch(f"{UID}-[0-9a-f]{{8}}", run)
        program(cluster, "Succeeded", NODE=node)

    assert 4 == sum(name.startswith("mnist-worker-") for name in cluster.created)


def test_the_exit_hook_of_another_call_does_not_report_the_end_of_the_first(program):
    """The second step could not start."""
    cluster = Cluster()
    program(cluster)
    program(cluster, "Succeeded")

    program(cluster, "Failed", NODE="w[1].second")

    assert "JobStopped" in cluster.data()["Failed"]
    assert "Succeeded" not in cluster.data()


def test_the_program_reports_a_failed_submission(program):
    class Refusing(Cluster):
        def list(self, *_, **__):
            raise ApiError("no", 403)

    cluster = Refusing()

    assert (1, "training permanent: 403: no") == program(cluster)
    assert (1, "training permanent: 403: no") == program(cluster, "Failed")


def test_the_program_fails_by_itself_when_the_rights_go(program, monkeypatch):
    cluster = Cluster()
    monkeypatch.setattr(supervise, "run", lambda *_: 200)

    assert (200, "") == program(cluster)


def test_the_exit_hook_cleans_up(program):
    cluster = Cluster()
    program(cluster)

    assert (0, "") == program(cluster, "Succeeded")
    assert "JobSucceeded" in cluster.data()["Succeeded"]


def test_the_exit_hook_fails_with_the_step_so_that_argo_retry_repeats_it(program):
    cluster = Cluster(42)
    program(cluster)

    code, told = program(cluster, "Failed")

    assert (
        1,
        "cleaned up; exiting with 1 because the step failed, so that argo retry repeats it",
    ) == (code, told)
