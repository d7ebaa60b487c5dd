"""The step of an Argo workflow: its judgement, case by case, and attempts in a model cluster."""

import json
import threading
import time
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import yaml
from runtime import rights
from runtime.world import EPOCH, Killed, World
from support import ROOT

from mlgen.runtime import api, status, step, supervise
from mlgen.runtime.api import ApiError
from mlgen.runtime.cluster import Seen
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.status import State, stamp
from mlgen.runtime.step import Impossible, Step, attempt, last
from mlgen.runtime.supervise import Supervisor

NOW = 1_800_000_000.0
UID = "uid-1"
PLAN = Plan(
    job="mnist",
    run=UID,
    deciding=("mnist-worker",),
    workloads=(
        Workload("Job", "mnist-worker", "worker", replicas=2, retryable=">=128"),
        Workload("StatefulSet", "mnist-ps", "ps", retryable=">=128"),
        Workload("Job", "mnist-evaluator", "evaluator", retryable=">=128"),
    ),
    clean_pod_policy="Running",
    objects=(("Service", "mnist"),),
    crashes=5,
)
RUNNING = State(UID, uid="mnist-worker", first=NOW - 60, started=NOW - 60)


# The judgement of an attempt


def job(name="mnist-worker", *, end="", reason="BackoffLimitExceeded", suspend=False, **counts):
    conditions = [{"type": end, "status": "True", "reason": reason, "message": "why"}]
    return {
        "kind": "Job",
        "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
        "spec": {"completions": 2, "parallelism": 2, "suspend": suspend},
        "status": {"active": 2, "ready": 2, **counts, "conditions": conditions if end else []},
    }


def server(replicas=1):
    metadata = {"name": "mnist-ps", "uid": "mnist-ps", "resourceVersion": "8", "generation": 1}
    status = {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}
    return {
        "kind": "StatefulSet", "metadata": metadata, "spec": {"replicas": replicas},
        "status": status,
    }  # fmt: skip


def pod(name, code=None, at=0, phase="Failed", owner="mnist-worker", **more):
    state = {"running": {}}
    if code is not None:
        ended = {"exitCode": code, "finishedAt": stamp(NOW + at)}
        state = {"terminated": {**ended, "reason": more.get("reason", "Error")}}
    container = {"name": "main", "image": "i", "restartCount": 0, "state": state}
    if "restarted" in more:
        end = {"exitCode": more["restarted"], "finishedAt": stamp(NOW + at), "reason": "Error"}
        container |= {"lastState": {"terminated": end}, "restartCount": 2}
    kind = "initContainerStatuses" if more.get("init") else "containerStatuses"
    conditions = [{"type": c, "status": "True"} for c in more.get("conditions", ())]
    return {
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": stamp(NOW - 60),
            "ownerReferences": [{"kind": "Job", "uid": owner}],
        },
        "spec": {},
        "status": {"phase": phase, kind: [container], "conditions": conditions},
    }  # fmt: skip


FAILED = job(end="Failed", active=0, ready=0)


def seen(*pods, worker=None, evaluator=None, state=RUNNING):
    workloads = {
        "mnist-worker": worker or FAILED,
        "mnist-ps": server(),
        "mnist-evaluator": evaluator or job("mnist-evaluator"),
    }
    return Seen(workloads, list(pods), {"state": state.text()})


def judged(what, job=PLAN, now=NOW):
    """Return the verdict of an attempt, its exit code, reason and message."""
    decision = attempt(job, what, now)
    state = status.load(decision.status, UID)
    return state.phase, state.code, state.reason, state.message


AGAIN, OVER = "BackingOff", "Ended"
CASES = {
    "permanent": ([pod("w-1", 42)], (OVER, 42, "JobFailed", "w-1 exited with 42")),
    "retryable": ([pod("w-1", 138)], (AGAIN, 138, "JobFailed", "w-1 exited with 138")),
    "the first counts": (
        [pod("w-0", 1, at=2), pod("w-1", 143, at=1)],
        (AGAIN, 143, "JobFailed", "w-1 exited with 143"),
    ),
    "on a tie, the higher code": (
        [pod("w-0", 1), pod("w-1", 137, reason="OOMKilled"), pod("w-2", 1)],
        (OVER, 137, "OOMKilled", "w-1 exited with 137, OOMKilled"),
    ),
    "a helper container": ([pod("w-1", 75, init=True)], (AGAIN, 75, "JobFailed", "75")),
    "no pod is left": ([], (AGAIN, 143, "JobDisrupted", "a pod of mnist-worker was deleted")),
    "drained": (
        [pod("w-1", 1, conditions=["DisruptionTarget"]), pod("w-0", 1)],
        (AGAIN, 143, "JobDisrupted", "drained or preempted"),
    ),
    "a success": ([pod("w-1", 0, phase="Succeeded")], (AGAIN, 143, "JobDisrupted", "mnist-worker")),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_failure_decides_whether_the_attempt_is_repeated(case):
    pods, (phase, code, reason, text) = CASES[case]

    found = judged(seen(*pods))

    assert (phase, code, reason) == found[:3]
    assert text in found[3]


@pytest.mark.parametrize(("code", "phase"), [(3, AGAIN), (138, OVER)])
def test_a_job_can_list_retryable_exit_codes(code, phase):
    workloads = tuple(replace(item, retryable=(3,)) for item in PLAN.workloads)

    assert phase == judged(seen(pod("w-1", code)), replace(PLAN, workloads=workloads))[0]


def test_oom_can_be_retried():
    what = seen(pod("w-1", 137, reason="OOMKilled"))

    assert AGAIN == judged(what, replace(PLAN, retry_oom=True))[0]


def test_an_exceeded_deadline_and_a_job_deleted_by_hand_are_permanent():
    late = seen(pod("w-1", 143), worker=job(end="Failed", reason="DeadlineExceeded"))
    gone = seen(worker=job())
    gone.workloads["mnist-worker"] = None

    assert (OVER, 124, "DeadlineExceeded") == judged(late)[:3]
    assert (OVER, 1, "JobDeleted", "mnist-worker was deleted by hand") == judged(gone)


def test_a_failure_in_another_role_ends_the_attempt():
    what = seen(
        pod("e-0", 42, owner="mnist-evaluator"),
        pod("w-0", phase="Running"),
        worker=job(),
        evaluator=job("mnist-evaluator", end="Failed"),
    )

    assert ("Running", 0) == judged(what)[:2]
    assert (OVER, 42, "JobFailed", "e-0 exited with 42") == judged(later(what))


def later(what, *pods, **workloads):
    """Return what is observed after a decision was stored."""
    decision = attempt(PLAN, what, NOW)
    found = replace(what, status=decision.status, pods=what.pods + list(pods))
    found.workloads.update({f"mnist-{name}": value for name, value in workloads.items()})
    waits = replace(status.load(found.status, UID), settled=NOW)
    return replace(found, status={**found.status, "state": waits.text()})


def test_a_slower_kubelet_may_report_an_earlier_failure():
    """The chief exits with 1 because a worker was killed, which is reported a moment later."""
    what = seen(pod("w-0", 1, at=1), pod("e-0", phase="Running", owner="mnist-evaluator"))

    decision = attempt(PLAN, what, NOW)
    waits = replace(what, status=decision.status)
    end = job("mnist-evaluator", end="FailureTarget")
    earlier = later(what, pod("e-1", 137, at=0, owner="mnist-evaluator"), evaluator=end)

    assert "Failed" not in decision.status
    assert NOW + 5 == attempt(PLAN, waits, NOW + 1).wake
    assert (AGAIN, 137, "JobFailed", "e-1 exited with 137") == judged(earlier)


def test_a_disruption_is_remembered_while_peers_fail():
    what = seen(pod("e-0", phase="Running", owner="mnist-evaluator"))
    end = job("mnist-evaluator", end="Failed")

    found = judged(later(what, pod("e-1", 1, owner="mnist-evaluator"), evaluator=end))

    assert (AGAIN, 143, "JobDisrupted") == found[:3]


def test_the_last_restart_in_place_is_remembered_when_its_pod_is_deleted():
    running = seen(pod("w-1", phase="Running", restarted=42), worker=job())

    decision = attempt(PLAN, running, NOW)
    found = judged(replace(seen(), status=decision.status))

    assert (OVER, 42, "JobFailed", "w-1 exited with 42") == found


def test_what_is_judged_is_not_judged_again():
    for phase, code in ((AGAIN, 143), (OVER, 42)):
        state = replace(RUNNING, phase=phase, code=code)

        assert code == attempt(PLAN, seen(state=state), NOW).finish


def test_a_retryable_failure_is_no_failure_of_the_job():
    decision = attempt(PLAN, seen(pod("w-1", 138)), NOW)

    assert "w-1 exited with 138" in decision.status["Restarting"]
    assert "Failed" not in decision.status


def test_a_job_that_ends_before_it_is_seen_running_was_running():
    data = attempt(PLAN, seen(worker=job(end="Complete", active=0, succeeded=2)), NOW).status

    assert ["False", "True"] == [data[name].split()[0] for name in ("Running", "Succeeded")]


# The exit hook


def ended(phase, policy="Running", outcome="Failed", worker=None, **fields):
    """Return the conditions and actions of the exit hook after an attempt with this state."""
    what = seen(worker=worker or job(), state=replace(RUNNING, phase=phase, **fields))
    job_plan, actions = replace(PLAN, clean_pod_policy=policy), []
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


def test_the_hook_reports_the_last_attempt_when_none_are_left():
    data, _ = ended(AGAIN, worker=FAILED, code=143, reason="JobFailed", message="w-1 exited")

    assert data["Failed"].endswith("JobFailed: no attempts left; w-1 exited")
    assert data["completionTime"] == stamp(NOW)


@pytest.mark.parametrize("policy", ["None", "Running"])
def test_a_stopped_job_stops_running(policy):
    data, actions = ended("Running", policy)

    assert "JobStopped: the step ended (Failed) before training finished" in data["Failed"]
    assert [("mnist-worker", {"activeDeadlineSeconds": 1}), *FREED] == actions
    assert data["replicas.worker"].startswith("active 0,")


def test_a_suspended_job_that_is_stopped_stays_suspended():
    """Kueue would suspend it again, for ever."""
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
SMALL = replace(PLAN, workloads=PLAN.workloads[:2])


class Cluster(World):
    """A model of a cluster in which workers fail as often as `failures` says."""

    def __init__(self, *codes):
        super().__init__(Random(3))
        self.codes = list(codes)
        self.on_pod_created = self.pod_created
        self.on_pod_running = self.pod_running
        self.generations = []
        self.requests = 0
        self.dies_at = None

    def apply(self, version, kind, name, text):
        body = yaml.safe_load(text)
        assert (version, kind, name) == (body["apiVersion"], body["kind"], body["metadata"]["name"])
        if (kind, name) not in self.objects:
            self.put(kind, name, metadata=body["metadata"], spec=body["spec"])

    def pod_created(self, pod):
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
        return self.objects["ConfigMap", "mnist-status"].get("data", {})

    def state(self):
        return status.load(self.data(), UID)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Collect what is logged."""
    lines = []
    monkeypatch.setattr(step, "log_line", lines.append)
    return lines


def submission(cluster, run=UID):
    return Step(replace(SMALL, run=run), cluster, "mnist-x", cluster.sleep, lambda: cluster.now)


def supervise_until_end(cluster, decision):
    supervisor = Supervisor(SMALL, cluster, lambda: cluster.now, lambda _: None, decision)
    while supervisor.exit_code is None:
        delay = supervisor.step()
        cluster.advance(cluster.now + min(delay, 5.0))
        assert cluster.now < EPOCH + 3600
    return status.load(supervisor.data, UID)


def one_attempt(cluster):
    submission(cluster).submit(MANIFESTS)
    return supervise_until_end(cluster, attempt)


def test_an_attempt_submits_the_job_and_supervises_it():
    cluster = Cluster()

    state = one_attempt(cluster)

    assert ("Ended", 0) == (state.phase, state.code)
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
    owner |= {"name": "mnist-x", "uid": UID}
    names = [("Service", "mnist"), ("StatefulSet", "mnist-ps"), ("Job", "mnist-worker")]
    for kind, name in [*names, ("ConfigMap", "mnist-status")]:
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

    assert [("BackingOff", 138), ("Ended", 0)] == [(s.phase, s.code) for s in (first, second)]
    assert not before & cluster.workers()
    assert (1, 0) == (second.restarts, second.disruptions)
    assert cluster.data()["Restarting"].startswith("False ")


def test_the_restart_after_a_disruption_is_counted_apart():
    cluster = Cluster()
    state = State(UID, phase="BackingOff", code=143, restarts=1, disruptions=1)
    cluster.put("ConfigMap", "mnist-status", data={"state": state.text()})

    state = one_attempt(cluster)

    assert (1, 2) == (state.restarts, state.disruptions)


def test_a_new_workflow_discards_the_status_of_an_earlier_one():
    cluster = Cluster()
    earlier = State("uid-0", phase="Ended", code=1, first=1.0)
    data = {"state": earlier.text(), "Failed": "True 2026-01-01T00:00:00Z JobFailed: x"}
    cluster.put("ConfigMap", "mnist-status", data=data)

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


@pytest.mark.parametrize("at", range(1, 100, 4))
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


class Recorder:
    """A cluster that records which rights are used."""

    namespace = "team"

    def __init__(self, cluster):
        self.cluster, self.used = cluster, set()

    def __getattr__(self, name):
        def call(*arguments, **selectors):
            if name == "apply":  # which creates what does not exist
                self.used |= {(verb, rights.resource(arguments[1])) for verb in ("create", "patch")}
            else:
                self.used.add(rights.request(name, *arguments)[:2])
            return getattr(self.cluster, name)(*arguments, **selectors)

        return call


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_the_role_of_the_step_has_what_it_uses_and_no_more(policy):
    objects = (("Service", "mnist"), ("ConfigMap", "mnist-files")) if policy == "All" else ()
    job_plan = replace(SMALL, clean_pod_policy=policy, objects=objects)
    cluster = Cluster(138)
    recorder = Recorder(cluster)
    recorder.used |= {right[:2] for right in rights.watched(job_plan)}
    argo = Step(job_plan, recorder, "mnist-x", cluster.sleep, lambda: cluster.now)
    for decision in (attempt, attempt, partial(last, outcome="Succeeded")):
        if decision is attempt:
            argo.submit(MANIFESTS + MORE)
        supervisor = Supervisor(job_plan, recorder, lambda: cluster.now, lambda _: None, decision)
        while supervisor.exit_code is None:
            supervisor.step()
            cluster.sleep(1.0)

    files = yaml.safe_load_all((ROOT / "argo/rbac.yaml").read_text())
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

    def __getattr__(self, name):
        def call(*arguments, **_):
            self.calls.append((name, *arguments[:3]))
            if name == self.method and self.errors:
                raise self.errors.pop(0)
            if name == "get":
                raise ApiError("no such object", 404)
            return [] if name == "list" else {}

        return call


def submitted(answers, manifests=MANIFESTS):
    waits = []
    Step(SMALL, answers, "mnist-x", waits.append, lambda: NOW).submit(manifests)
    return waits


@pytest.mark.parametrize("method", ["patch", "list", "get", "apply"])
def test_the_attempt_waits_for_an_unavailable_api_server(method):
    errors = [ApiError("refused"), ApiError("busy", 429, "7"), ApiError("exceeded quota: x", 403)]

    assert [1.0, 7.0, 4.0] == submitted(Answers(*errors, method=method))


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
    [({"mlgen.dev/job": "mnist-a"}, "the job mnist-a"), ({}, "no job of mlgen")],
)
def test_an_object_of_somebody_else_is_not_applied_over(labels, owner):
    cluster = Cluster()
    theirs = cluster.put("StatefulSet", "mnist-ps", metadata={"labels": labels}, spec="theirs")

    with pytest.raises(Impossible, match=f"StatefulSet mnist-ps exists, and belongs to {owner}"):
        submission(cluster).submit(MANIFESTS)

    assert theirs["spec"] == "theirs"


def test_a_volume_of_another_job_is_no_status():
    cluster = Cluster()
    labels = {"labels": {"mlgen.dev/job": "m"}}
    cluster.put("ConfigMap", "mnist-status", metadata=labels, data={"a": "b"})

    with pytest.raises(Impossible, match="mnist-status is a volume of the job m; rename one"):
        submission(cluster).submit(MANIFESTS)
    assert cluster.data() == {"a": "b"}


def test_a_manifest_that_mlgen_has_not_written_is_refused():
    with pytest.raises(Impossible, match="expected a manifest of mlgen, got '"):
        submitted(Answers(), "---\n{}\n")


def test_an_unexpected_answer_to_the_status_is_raised():
    with pytest.raises(Impossible, match="no"):
        submitted(Answers(ApiError("no", 403), method="get"))


def test_a_failed_submission_is_recorded_if_the_rights_allow():
    cluster = Cluster()

    state = submission(cluster).fail("403: no")
    submission(Answers(*[ApiError("no", 403)] * 9, method="get")).fail("403: no")

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

    assert cluster.now < EPOCH + 5


def test_a_workload_that_is_being_deleted_is_waited_for():
    gone = {"metadata": {"name": "mnist-worker", "deletionTimestamp": stamp(NOW)}}

    class Terminating(Answers):
        jobs = [[gone], []]  # noqa: RUF012

        def list(self, kind, *_, **__):
            return self.jobs.pop(0) if kind == "Job" else []

    answers = Terminating()

    assert [2.0] == submitted(answers)
    assert "delete" not in [call[0] for call in answers.calls]


# The program


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Function that runs the program; returns its exit code, and what it tells Argo."""
    job_plan = {
        "job": "mnist",
        "deciding": ["mnist-worker"],
        "workloads": [{"kind": "Job", "name": "mnist-worker", "role": "worker", "replicas": 2}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(job_plan))
    (tmp_path / "manifests.yaml").write_text(MANIFESTS)

    def run(cluster, *arguments):
        class Bell:
            wait = staticmethod(cluster.sleep)

            def clear(self):
                """Do nothing: time passes in the model only."""

        monkeypatch.setattr(api, "in_cluster", lambda *_: cluster)
        monkeypatch.setattr(step, "TERMINATION_LOG", tmp_path / "log")
        monkeypatch.setattr(supervise, "start", lambda *_: None)
        monkeypatch.setattr(threading, "Event", Bell)
        monkeypatch.setattr(time, "sleep", cluster.sleep)
        monkeypatch.setattr(time, "time", lambda: cluster.now)
        env = {
            "MLGEN_PLAN": str(tmp_path / "plan.json"),
            "WORKFLOW": "mnist-x",
            "WORKFLOW_UID": UID,
            "KUBERNETES_SERVICE_HOST": "h",
            "KUBERNETES_SERVICE_PORT": "443",
            "ARGO_PROGRESS_FILE": str(tmp_path / "progress"),
        }
        code = step.main(arguments, env)
        log = tmp_path / "log"
        return code, log.read_text() if log.exists() else ""

    return run


def test_the_program_tells_argo_the_end_and_the_progress(program, tmp_path, quiet):
    assert (0, "") == program(Cluster())
    assert "2/2\n" == (tmp_path / "progress").read_text()
    step.write_progress("", SMALL, seen())  # an executor without progress

    text = "training permanent: mnist-worker-0-"
    code, told = program(Cluster(42))
    assert (42, text) == (code, told[: len(text)])
    assert quiet[-1] == told


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

    assert 0 == program(cluster, "Succeeded")[0]
    assert "JobSucceeded" in cluster.data()["Succeeded"]
