"""The loop: cases that the simulation does not cover."""

import ast
import json
import re
import signal
import sys
import threading
from dataclasses import replace
from functools import cached_property
from random import Random
from types import SimpleNamespace

import pytest
from runtime.test_decide import pod, seen
from runtime.world import World
from support import ROOT

from mlgen.runtime import api, plan, server, status, supervise
from mlgen.runtime.answers import PREFERRED, ApiError, Event, shaped
from mlgen.runtime.clock import Clock
from mlgen.runtime.decide import Action, Decision
from mlgen.runtime.server import Request
from mlgen.runtime.supervise import Supervisor

PLAN = {
    "job": "mnist",
    "deciding": ["mnist-worker"],
    "workloads": [
        {"kind": "Job", "name": "mnist-worker", "role": "worker", "retryable": [137, 143]},
        {"kind": "StatefulSet", "name": "mnist-ps", "role": "ps", "toleratesFailure": True},
    ],
    "objects": [["Service", "mnist"]],
    "cleanPodPolicy": "All",
    "restartScope": ["worker"],
    "backoffLimit": 3,
    "order": [{"role": "worker", "until": "Ready", "of": "ps"}],
    "pendingSeconds": 60,
    "startFailures": 0,
}


def test_the_plan_is_read():
    job = plan.load(json.dumps(PLAN), "uid")

    assert ("uid", ("mnist-worker",), 60, 0) == (
        job.run, job.deciding, job.pending_seconds, job.start_failures,
    )  # fmt: skip
    assert [item.tolerates_failure for item in job.workloads] == [False, True]
    assert [True, False] == [job.workloads[0].is_retryable(code) for code in (143, 1)]
    assert [True, False] == [job.workloads[1].is_retryable(code) for code in (143, 139)]
    assert job.order[0].of == "ps"
    assert ["mnist-worker"] == [item.name for item in job.gang]


def test_an_unknown_name_in_the_plan_is_an_error():
    with pytest.raises(TypeError, match="colour"):
        plan.load(json.dumps({**PLAN, "colour": 1}), "uid")


def test_jobs_are_watched_by_name_and_pods_by_label():
    assert [
        ("Job", {"fieldSelector": "metadata.name=mnist-worker"}),
        ("Pod", {"labelSelector": "mlgen.dev/job=mnist"}),
    ] == supervise.watches(plan.load(json.dumps(PLAN), "uid"))


METRICS = Request("GET", "/metrics", "", b"", "", "10.0.0.1")


class Broken:
    namespace = "team"

    def __init__(self, problem, *, answered=True):
        self.problem, self.answered = problem, answered

    clock = Clock()

    def get(self, *_):
        raise self.problem


class At:
    """The API server of a world, with its clock."""

    answered = True

    def __init__(self, world):
        self.world = world

    @cached_property
    def clock(self):
        return Clock(lambda: self.world.now, lambda: self.world.now)

    def __getattr__(self, name):
        return getattr(self.world, name)


def test_a_refusal_that_stays_ends_the_supervisor():
    lines = []
    supervisor = Supervisor(
        plan.load(json.dumps(PLAN), "r"), Broken(ApiError("no", 403)), log=lines.append
    )
    delays = [supervisor.step() for _ in range(29)]

    assert delays[:3] == [0.4, 0.8, 1.6]
    assert max(delays) == 30
    assert lines[0] == "retrying: 403: no"
    with pytest.raises(SystemExit, match="200"):
        supervisor.step()


def test_a_supervisor_that_never_reaches_the_api_server_says_so_and_ends():
    lines = []
    problem = ApiError("certificate verify failed")
    client = Broken(problem, answered=False)
    supervisor = Supervisor(plan.load(json.dumps(PLAN), "r"), client, log=lines.append)
    delays = [supervisor.step() for _ in range(29)]

    assert 500 < sum(delays) < 1000
    with pytest.raises(SystemExit, match="201"):
        supervisor.step()
    assert lines[-1] == "giving up: the API server cannot be reached"
    client.answered = True
    assert supervisor.step() == 30


def test_the_end_of_the_namespace_is_that_of_the_supervisor():
    text = "unable to create new content in namespace a because it is being terminated"
    problem = ApiError(text, 403)
    supervisor = Supervisor(plan.load(json.dumps(PLAN), "r"), Broken(problem), log=lambda _: None)

    with pytest.raises(SystemExit, match="200"):
        supervisor.step()


def test_a_lost_api_server_is_waited_for():
    supervisor = Supervisor(
        plan.load(json.dumps(PLAN), "r"),
        Broken(ApiError("busy", 429, 30.0)),
        log=lambda _: None,
    )

    assert {30.0} == {supervisor.step() for _ in range(99)}
    assert supervisor.exit_code is None


@pytest.fixture
def world():
    world = World(Random(1))
    complete(world)
    return world


def complete(world):
    world.put("Job", "mnist-worker", spec={"completions": 1, "parallelism": 1})
    world.objects["Job", "mnist-worker"]["status"] = {
        "conditions": [{"type": "Complete", "status": "True"}]
    }


def test_a_status_that_is_missing_is_created(world):
    job = plan.load(json.dumps({**PLAN, "workloads": PLAN["workloads"][:1], "order": []}), "r")
    supervisor = Supervisor(job, At(world), log=lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert "JobSucceeded" in world.get("ConfigMap", "mnist.status")["data"]["Succeeded"]
    assert ("Job", "mnist-worker") not in world.objects


def test_a_job_of_another_set_does_not_exist(world):
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": [], "set": "b"}
    supervisor = Supervisor(plan.load(json.dumps(document), "r"), At(world), lambda _: None)
    found = world.objects["Job", "mnist-worker"]
    for value, phase in (("a", "Running"), ("b", "Ended")):
        found["spec"]["template"] = {"metadata": {"labels": {"mlgen.dev/set": value}}}
        supervisor.step()
        state = json.loads(world.get("ConfigMap", "mnist.status")["data"]["state"])
        assert phase == state.get("phase", "Running")


def test_a_workload_of_another_job_ends_the_job_and_is_not_touched():
    world, lines = World(Random(1)), []
    labels = {"labels": {"mlgen.dev/job": "mnist-a"}}
    world.put("Job", "mnist-worker", metadata=labels, spec={"completions": 1, "parallelism": 1})
    world.put("StatefulSet", "mnist-ps", spec={"replicas": 1})
    before = world.get("Job", "mnist-worker")
    supervisor = Supervisor(plan.load(json.dumps(PLAN), "r"), At(world), lines.append)
    while supervisor.exit_code is None:
        supervisor.step()

    text = "NameCollision: mnist-worker exists, and belongs to the job mnist-a; choose another name"
    assert world.get("ConfigMap", "mnist.status")["data"]["Failed"].endswith(text)
    assert ("StatefulSet", "mnist-ps") not in world.objects
    assert before == world.get("Job", "mnist-worker")


def running():
    """Return a world with a gang of one replica, and its supervisor."""
    world = World(Random(1))
    labels = {"labels": {"mlgen.dev/job": "mnist"}}
    spec = {"completions": 1, "parallelism": 1, "backoffLimit": 9}
    world.put("ConfigMap", "mnist.status")
    world.put("Job", "mnist-worker", metadata=labels, spec=spec)
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": [], "cleanPodPolicy": "None"}
    world.lines = []
    job = plan.load(json.dumps(document), "r")
    return world, Supervisor(job, At(world), world.lines.append), job


def play(world, supervisor, until):
    """Run a supervisor until a condition of the stored state holds."""
    for _ in range(2000):
        delay = supervisor.step()
        world.advance(world.now + max(delay, 0.1))
        state = status.load(world.get("ConfigMap", "mnist.status").get("data") or {}, "r")
        if until(state):
            return state
    raise AssertionError(state)


def restarted(world, supervisor):
    """Let the replica fail once, and wait until it has started again."""
    play(world, supervisor, lambda state: state.members)
    (pod,) = world.all("Pod")
    world.end_pod(pod, 137)
    return play(world, supervisor, lambda state: state.restarts and state.members)


def test_a_supervisor_lists_the_pods_again_after_another_has_restarted_the_gang():
    world, supervisor, _ = running()
    supervisor.pods.hear(world.list("Pod", labelSelector="mlgen.dev/job=mnist"))
    before = play(world, supervisor, lambda state: state.members)
    supervisor.step()
    # Its watch tells nothing of the end of the pod.
    (pod,) = world.all("Pod")
    del world.objects["Pod", pod["metadata"]["name"]]
    text = replace(before, restarts=1, members=(), running=0.0).text()
    world.patch("ConfigMap", "mnist.status", {"data": {"state": text}})

    state = play(world, supervisor, lambda state: state.restarts)

    assert (state.restarts, state.disruptions, state.members) == (1, 0, ())


def test_two_supervisors_that_know_different_clocks_do_not_write_again_and_again():
    world, first, job = running()
    play(world, first, lambda state: state.members)
    server = At(world)
    second = Supervisor(job, server, world.lines.append)
    second.step()
    server.clock.ahead = 3600.0  # the API server that it reaches has another clock
    for _ in range(9):
        first.step()
        second.step()

    before = world.get("ConfigMap", "mnist.status")
    delays = [each.step() for each in (first, second, first, second)]

    assert before == world.get("ConfigMap", "mnist.status")
    assert min(delays) > 1


def test_times_go_on_although_the_clocks_of_several_api_servers_never_agree():
    clock = Clock(lambda: 0.0, lambda: 10_000.0)
    clock.resume(ahead=3600.0, recorded=6300.0)
    for date in (10_000, 10_000, 6400) * 9:
        clock.hear(date)
        assert not clock.is_ready

    clock.hear(10_000)

    assert clock.is_ready
    assert 6300 <= clock.now() <= 6500


def test_a_status_that_has_lost_its_data_is_restored():
    world, supervisor, _ = running()
    before = restarted(world, supervisor)
    world.objects["ConfigMap", "mnist.status"].pop("data")

    after = play(world, supervisor, lambda state: state.restarts)

    assert "mnist.status has lost its data; restoring it" in world.lines
    assert (after.restarts, after.uid, after.old) == (1, before.uid, before.old)


@pytest.mark.parametrize("phase", ["Running", "Stopping"])
def test_a_status_that_was_lost_with_its_supervisor_is_restored_from_the_jobs(phase):
    world, supervisor, job = running()
    restarted(world, supervisor)
    if phase == "Stopping":
        (pod,) = [each for each in world.all("Pod") if world.is_running(each)]
        world.end_pod(pod, 143)
        play(world, supervisor, lambda state: state.phase == "BackingOff")
    world.objects["ConfigMap", "mnist.status"].pop("data")

    other = Supervisor(job, At(world), world.lines.append)
    after = play(world, other, lambda state: state.members)

    assert (after.restarts, after.disruptions) == ((1, 0) if phase == "Running" else (2, 0))


def test_a_status_that_was_deleted_and_may_not_be_created_is_kept_in_memory():
    world, supervisor, _ = running()
    restarted(world, supervisor)
    del world.objects["ConfigMap", "mnist.status"]

    def create(kind, body):
        if kind == "ConfigMap":
            raise ApiError("forbidden", 403)
        return World.create(world, kind, body)

    world.create = create
    (pod,) = [each for each in world.all("Pod") if world.is_running(each)]
    world.end_pod(pod, 137)
    for _ in range(100):
        world.advance(world.now + max(supervisor.step(), 0.1))

    assert status.load(supervisor.data, "r").restarts == 2
    assert [each for each in world.all("Pod") if world.is_running(each)]


def test_a_client_that_resumes_what_is_suspended_ends_the_job():
    world, supervisor, _ = running()
    play(world, supervisor, lambda state: state.members)
    patch = world.patch

    def resumed(kind, name, body, subresource=""):
        found = patch(kind, name, body, subresource)
        if kind == "Job" and body["spec"].get("suspend"):
            world.after(0.5, patch, kind, name, {"spec": {"suspend": False}})
        return found

    world.patch = resumed
    world.end_pod(world.all("Pod")[0], 137)
    state = play(world, supervisor, lambda state: state.phase == "Ended")

    assert world.lines.count("suspending Job mnist-worker") == 6
    assert (state.reason, state.code) == ("ChangeRefused", 1)
    assert state.message.endswith(
        "mnist-worker cannot be changed: another client keeps reverting the change"
        " (with kubectl apply, use --server-side)"
    )
    play(world, supervisor, lambda _: supervisor.exit_code is not None)
    assert world.objects["Job", "mnist-worker"]["spec"]["activeDeadlineSeconds"] == 1


def test_a_policy_that_refuses_each_change_ends_the_job():
    world, supervisor, _ = running()
    play(world, supervisor, lambda state: state.members)
    patch, events = world.patch, []

    def refused(kind, name, body, subresource=""):
        if kind == "Job":
            raise ApiError("admission webhook denied the request", 403)
        return patch(kind, name, body, subresource)

    world.patch = refused
    world.end_pod(world.all("Pod")[0], 137)
    state = play(world, supervisor, lambda state: state.phase == "Ended")
    play(world, supervisor, lambda _: supervisor.exit_code is not None)
    events = [each["message"] for each in world.all("Event") if each["reason"] == "ChangeRefused"]

    assert state.message.endswith("denied the request")
    assert events == [state.message]
    assert sum(line.startswith("suspending") for line in world.lines) == 6


def test_a_hundred_jobs_are_listed_and_watched_together():
    names = [f"mnist-worker-{index}" for index in range(100)]
    items = [{"kind": "Job", "name": name, "role": "worker"} for name in names]
    document = {"job": "mnist", "deciding": names[:1], "workloads": items}
    world = World(Random(1))
    for name in names[:99]:
        metadata = {"labels": {"mlgen.dev/job": "mnist"}}
        spec = {"completions": 1, "parallelism": 1}
        world.put("Job", name, metadata=metadata, spec=spec, status={"active": 1})
    job = plan.load(json.dumps(document), "r")
    gets = []
    client = At(world)
    client.get = lambda kind, name, version="": gets.append(kind) or world.get(kind, name, version)
    supervisor = Supervisor(job, client, lambda _: None)
    supervisor.step()

    assert ["Job", "Pod"] == [kind for kind, _ in supervise.watches(job)]
    assert "active 99," in world.get("ConfigMap", "mnist.status")["data"]["replicas.worker"]
    assert "Job" not in gets


AFFINITY = {"nodeAffinity": {PREFERRED: [{"weight": 100}]}}
MOVED = Action("Job", "mnist-worker", {"spec": {"suspend": False}}, more={"template": AFFINITY})


class Frozen(World):
    """An API server that rejects changes of a Job's template with a status."""

    status = 422

    def patch(self, kind, name, body, subresource=""):
        if "template" in body.get("spec", {}):
            raise ApiError("spec.template: field is immutable", self.status)
        return super().patch(kind, name, body, subresource)


def resumed(world):
    """Resume a Job with a changed template; return its spec and the log."""
    suspended = {"active": 0, "conditions": [{"type": "Suspended", "status": "True"}]}
    world.put("Job", "mnist-worker", spec={"suspend": True}, status=suspended)
    lines = []
    decision = Decision(actions=(MOVED,))
    supervisor = Supervisor(
        plan.load(json.dumps(PLAN), "r"),
        At(world),
        lines.append,
        lambda *_: decision,
    )
    supervisor.step()
    return world.objects["Job", "mnist-worker"]["spec"], lines


def test_a_job_is_resumed_with_another_template():
    spec, lines = resumed(World(Random(1)))

    assert spec == {"suspend": False, "template": AFFINITY}
    assert 1 == len(lines)


def test_a_job_is_resumed_as_it_is_if_the_api_server_refuses_another_template():
    spec, lines = resumed(Frozen(Random(1)))

    assert spec == {"suspend": False}
    assert lines[1] == "skipped: 422: spec.template: field is immutable"


def test_a_busy_api_server_is_asked_again_for_another_template():
    world = Frozen(Random(1))
    world.status = 500

    spec, lines = resumed(world)

    assert spec == {"suspend": True}
    assert lines[1] == "retrying: 500: spec.template: field is immutable"


class Counting(World):
    """An API server that counts how often pods are listed."""

    lists = 0

    def list(self, *arguments, **selectors):
        self.lists += 1
        return super().list(*arguments, **selectors)


def event(change, pod, world):
    """Return an event that is newer than all objects."""
    return Event(change, [shaped("Pod", pod)], str(world.version + 1))


def uids(pods):
    return [pod["metadata"]["uid"] for pod in pods]


@pytest.fixture
def told():
    """The supervisor of a job with one running replica, which a watch has reported, and the pod."""
    world = Counting(Random(1))
    labels = {"labels": {"mlgen.dev/job": "mnist"}}
    spec = {"completions": 1, "parallelism": 1, "backoffLimit": 9}
    world.put("Job", "mnist-worker", metadata=labels, spec=spec)
    world.advance(world.now + 10)
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": []}
    job = plan.load(json.dumps(document), "r")
    supervisor = Supervisor(job, At(world), log=lambda _: None)
    supervisor.step()
    (pod,) = world.all("Pod")
    supervisor.pods.hear(event("LISTED", pod, world))
    world.lists = 0
    return supervisor, world, pod


def phase(world):
    state = json.loads(world.get("ConfigMap", "mnist.status")["data"]["state"])
    return state.get("phase", "Running"), state.get("members", "").split()


def test_pods_are_listed_again_only_before_the_job_goes_on(told):
    supervisor, world, pod = told
    for _ in range(4):
        supervisor.step()
        world.advance(world.now + 5)
    assert (0, ("Running", [pod["metadata"]["uid"]])) == (world.lists, phase(world))

    world.end_pod(pod, 137)
    world.advance(world.now + 5)
    supervisor.step()
    assert 0 == world.lists
    supervisor.pods.hear(event("MODIFIED", pod, world))
    supervisor.step()
    assert (1, ("Stopping", [])) == (world.lists, phase(world))


def test_a_watch_that_is_behind_does_not_let_the_job_go_on(told):
    supervisor, world, pod = told
    supervisor.step()
    supervisor.pods.hear(event("DELETED", pod, world))
    supervisor.step()

    assert (1, ("Running", [pod["metadata"]["uid"]])) == (world.lists, phase(world))
    assert [pod["metadata"]["uid"]] == uids(supervisor.pods.told())


def test_what_a_watch_tells_during_a_list_is_not_lost(told):
    supervisor, world, pod = told
    list_pods = world.list

    def slow(*arguments, **selectors):
        found = list_pods(*arguments, **selectors)
        supervisor.pods.hear(event("DELETED", pod, world))
        return found

    world.list = slow

    assert [pod["metadata"]["uid"]] == uids(supervisor.pods.listed())
    assert [] == supervisor.pods.told()


def test_pods_are_listed_after_a_while_even_if_the_watch_tells_nothing(told):
    supervisor, world, _ = told
    supervisor.step()
    world.advance(world.now + 60)
    supervisor.step()

    assert 1 == world.lists


def test_members_are_short_and_an_earlier_version_wrote_whole_uids():
    uids = ("2f1c8a9e-0000-4000-8000-000000000000", "77aa0b1c-0000-4000-8000-000000000000")
    state = status.State("r", members=tuple(each[:8] for each in uids))
    earlier = json.dumps({"run": "r", "members": uids})

    assert '"2f1c8a9e 77aa0b1c"' in state.text()
    assert state == status.load({"state": state.text()}, "r")
    assert state == status.load({"state": earlier}, "r")


CAUSE = {"time": "", "code": 1, "reason": "", "pod": "p", "retryable": True}


@pytest.mark.parametrize(
    "values",
    [
        {"run": "r", "restarts": 2},
        {"run": "r", "members": "a b"},
        {"run": "r", "members": ["a"]},
        {"run": "r", "started": 1, "cause": CAUSE},
    ],
)
def test_a_state_is_read_as_it_was_written(values):
    assert values == status.stored({"state": json.dumps(values)})


@pytest.mark.parametrize(
    "text",
    [
        "d", "2", "[]", "null", "[" * 100_000, "1" * 5000,
        '{"run": 3}',
        '{"run": "r", "restarts": "x"}',
        '{"run": "r", "started": NaN}',
        '{"run": "r", "quick": -1}',
        f'{{"run": "r", "restarts": {10**300}}}',
        '{"run": "r", "started": 1e300}',
        '{"run": "r", "members": [1]}',
        '{"run": "r", "cause": {"pod": "p"}}',
        json.dumps({"run": "r", "cause": {**CAUSE, "code": "x"}}),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_what_somebody_else_writes_into_the_status_is_no_state(world, text):
    data = {"state": text, "Created": "True", "Running": "True x", "Failed": "True never A: b"}
    world.put("ConfigMap", "mnist.status", data=data)
    job = plan.load(json.dumps({**PLAN, "workloads": PLAN["workloads"][:1], "order": []}), "r")
    supervisor = Supervisor(job, At(world), lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert "JobSucceeded" in world.get("ConfigMap", "mnist.status")["data"]["Succeeded"]


def test_spoilt_conditions_of_a_good_state_are_written_again(world):
    spoilt = {"Created": "True", "Running": "True x", "Failed": "True never A: b"}
    data = {"state": json.dumps({"run": "r"}), **spoilt}
    world.put("ConfigMap", "mnist.status", data=data)
    job = plan.load(json.dumps({**PLAN, "workloads": PLAN["workloads"][:1], "order": []}), "r")
    supervisor = Supervisor(job, At(world), lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert (
        "JobCreated: mnist is created" in world.get("ConfigMap", "mnist.status")["data"]["Created"]
    )


class Forbidding(World):
    """An API server that allows no deletion."""

    def delete(self, *_):
        raise ApiError("no", 403)


def test_what_cannot_be_cleaned_up_does_not_change_the_end():
    world, lines = Forbidding(Random(1)), []
    complete(world)
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": []}
    supervisor = Supervisor(plan.load(json.dumps(document), "r"), At(world), log=lines.append)
    while supervisor.exit_code is None:
        supervisor.step()

    assert supervisor.exit_code == 0
    assert "skipped: 403: no" in lines


@pytest.mark.parametrize(("exits", "code", "expected"), [("", 7, 0), ("1", 200, 1), ("1", 0, 0)])
def test_main(monkeypatch, tmp_path, capsys, exits, code, expected):  # noqa: PLR0913, PLR0917
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "port": int(exits or 0)}))
    served = []
    rung = threading.Event()

    class Fake:
        clock = Clock()

        def watch(self, *_, **__):
            rung.set()
            yield "LISTED", []

    class Fast(Supervisor):
        def step(self):
            assert rung.wait(5)
            self._log("step")
            if self._problems:
                self.exit_code = code
            self._problems += 1
            return 0.01

    class Server:
        def __init__(self, answer, limit, tick, pods_at):
            self.answer, self.limit, self.wake = answer, limit, lambda: None
            tick(pods_at("10.0.0.1"))

        def run(self, port):
            served.append((port, self.limit, self.answer(METRICS)))

    monkeypatch.setattr(api, "in_cluster", lambda *_: Fake())
    monkeypatch.setattr(supervise, "Supervisor", Fast)
    monkeypatch.setattr(supervise, "GAP", 0.0)
    monkeypatch.setattr(server, "Server", Server)
    monkeypatch.setattr(signal, "signal", lambda *each: handlers.append(each[1]))
    handlers = []
    env = {
        "MLGEN_PLAN": str(tmp_path / "plan.json"),
        "MLGEN_RUN": "uid",
        "MLGEN_EXIT": exits,
        "KUBERNETES_SERVICE_HOST": "h",
        "KUBERNETES_SERVICE_PORT": "443",
    }

    assert expected == supervise.main(env)
    assert capsys.readouterr().out == "step\nstep\n"
    assert [(1, 128)] * bool(exits) == [(port, limit) for port, limit, _ in served]
    for _, _, (http_status, text) in served:
        assert http_status == 200
        assert text.startswith('mlgen_job_condition{job="mnist",condition="Created"} 0\n')
    with pytest.raises(SystemExit, match="143"):
        handlers[0](15, None)


def test_the_end_of_the_pod_may_be_that_of_the_namespace(monkeypatch, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "workloads": []}))
    env = {"MLGEN_PLAN": str(tmp_path / "plan.json"), "MLGEN_RUN": "uid"}
    env.update(KUBERNETES_SERVICE_HOST="h", KUBERNETES_SERVICE_PORT="443")
    left = []
    client = SimpleNamespace(watch=lambda *_, **__: (), clock=Clock())
    monkeypatch.setattr(api, "in_cluster", lambda *_: client)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(supervise, "run", lambda *_: sys.exit(143))
    monkeypatch.setattr(Supervisor, "leave", lambda self: left.append(self))  # noqa: PLW0108

    with pytest.raises(SystemExit, match="143"):
        supervise.main(env)
    assert 1 == len(left)


def test_what_is_not_expected_is_a_failure_of_the_supervisor(capsys):
    assert supervise.guarded(lambda _: 1 // 0) == 200
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert supervise.guarded(lambda _: 7) == 7


def test_reports_are_stored_and_forgotten_when_the_gang_stops(world):
    world.objects["Job", "mnist-worker"]["status"] = {}
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": [], "progress": True}
    job = plan.load(json.dumps(document), "r")
    supervisor = Supervisor(job, At(world), lambda _: None)
    owner = world.get("Job", "mnist-worker")["metadata"]["uid"]
    world.put("Pod", "w-0", metadata={"uid": "w-0", "ownerReferences": [{"uid": owner}]}, spec={})
    supervisor.step()
    supervisor.reports.tick()
    report = METRICS._replace(method="POST", path="/progress", body=b'{"progressPercentage": 7}')
    asked = report._replace(token="w-0")

    assert 200 == supervise.answer(job, supervisor, asked)[0]
    assert 403 == supervise.answer(job, supervisor, report)[0]
    supervisor.step()
    found = json.loads(world.get("ConfigMap", "mnist.status")["data"]["progress"])
    assert (7, {"unknown sender": 1}) == (found["progressPercentage"], found["rejected"])

    assert 1 == supervisor.reports.progress(job, seen(pod())).reporting

    data = world.get("ConfigMap", "mnist.status")["data"]
    data["state"] = json.dumps({**json.loads(data["state"]), "restarts": 1})
    world.patch("ConfigMap", "mnist.status", {"data": data})
    supervisor.step()
    assert 0 == supervisor.reports.progress(job, seen(pod())).reporting


def test_a_supervisor_leaves_the_next_run_of_the_job_alone(world):
    world.objects["Job", "mnist-worker"]["status"] = {}
    document = {**PLAN, "workloads": PLAN["workloads"][:1], "order": []}
    jobs = [plan.load(json.dumps(document), run) for run in ("first", "second")]
    old, new = (Supervisor(job, At(world), lambda _: None) for job in jobs)
    old.step()
    old.step()
    new.step()
    world.writes.clear()

    with pytest.raises(SystemExit, match="200"):
        old.step()
    assert [] == world.writes


class Terminating(World):
    """A namespace that is being deleted, in which another client writes at the same time."""

    text = "unable to create new content in namespace a because it is being terminated"
    conflicts = 1

    def create(self, *_):
        raise ApiError(self.text, 403)

    def patch(self, *arguments):
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError("changed", 409)
        return super().patch(*arguments)


@pytest.mark.parametrize(
    ("text", "conflicts", "expected"),
    [(Terminating.text, 1, [1]), (Terminating.text, 99, []), ("forbidden", 0, [])],
)
def test_jobs_end_with_their_namespace(monkeypatch, text, conflicts, expected):
    slept = []
    monkeypatch.setattr(supervise.time, "sleep", slept.append)
    world = Terminating(Random(1))
    world.text, world.conflicts = text, conflicts
    world.put("Job", "mnist-worker", spec={"completions": 1, "parallelism": 1})
    supervisor = Supervisor(plan.load(json.dumps(PLAN), "r"), At(world), log=lambda _: None)

    supervisor.leave()

    assert expected == [body["spec"]["activeDeadlineSeconds"] for _, _, _, body in world.writes]
    assert min(conflicts, 10) == len(slept)


def test_jobs_do_not_end_with_the_pod_of_their_supervisor(world):
    world.objects["Job", "mnist-worker"]["status"] = {}
    Supervisor(plan.load(json.dumps(PLAN), "r"), At(world), log=lambda _: None).leave()

    assert ["create"] == [verb for verb, *_ in world.writes]


def test_an_event_that_cannot_be_created_because_the_namespace_ends():
    world = Terminating(Random(1))
    complete(world)
    world.put("ConfigMap", "mnist.status", data={"Created": "True 2026-01-01T00:00:00Z A: b"})
    supervisor = Supervisor(plan.load(json.dumps(PLAN), "r"), At(world), log=lambda _: None)

    with pytest.raises(SystemExit, match="200"):
        supervisor.step()


class Events(World):
    """An API server that answers a request to create an Event with an error."""

    problem = None
    tries = 0

    def create(self, kind, body):
        if kind == "Event":
            self.tries += 1
            if self.problem:
                raise self.problem
        return super().create(kind, body)


@pytest.mark.parametrize(
    ("problem", "tries", "created"),
    [(None, 2, 2), (ApiError("busy"), 2, 0), (ApiError("", 403), 1, 0)],
)
def test_events_hold_up_nothing(problem, tries, created):
    world = Events(Random(1))
    complete(world)
    world.problem = problem
    job = plan.load(json.dumps({**PLAN, "workloads": PLAN["workloads"][:1], "order": []}), "r")
    supervisor = Supervisor(job, At(world), log=lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert (tries, created) == (world.tries, len(world.all("Event")))
    for event in world.all("Event"):
        assert "Job" == event["involvedObject"]["kind"]
        assert ("mnist-worker", "team") == (
            event["involvedObject"]["name"], event["involvedObject"]["namespace"],
        )  # fmt: skip


@pytest.mark.parametrize("text", ["x", "-1", "", "1" * 5000, "1 2", "٣", "active 1, active 2" * 9])
@pytest.mark.parametrize(
    "key", ["restarts", "disruptions", "replicas.ps", "startTime", "Failed", "progress"]
)
def test_a_status_that_was_tampered_with_is_served_as_valid_metrics(key, text):
    job = plan.load(json.dumps(PLAN), "uid")

    lines = status.metrics(job, {key: text}).splitlines()

    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    for line in lines:
        assert re.fullmatch(r'mlgen_job_\w+{job="mnist"(,\w+="\w+")*} -?[0-9]{1,11}', line)


def test_a_long_status_is_served_in_time_that_does_not_depend_on_it():
    job = plan.load(json.dumps(PLAN), "uid")

    assert "ps" not in status.metrics(job, {"replicas.ps": "a" * 1_000_000})


def test_the_api_server_of_the_cluster_is_reached_by_https(monkeypatch, tmp_path):
    (tmp_path / "namespace").write_text("team")
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(api, "ACCOUNT", tmp_path)
    monkeypatch.setattr(
        api.ssl,
        "create_default_context",
        lambda **_: api.ssl.SSLContext(api.ssl.PROTOCOL_TLS_CLIENT),
    )

    with pytest.raises(ApiError, match="refused"):
        api.in_cluster("127.0.0.1", "1").get("Job", "a")


FILES = sorted((ROOT / "mlgen/runtime").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_code_needs_python_3_9_and_its_standard_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {getattr(node, "module", None) or node.names[0].name for node in imports}

    assert all(
        name.split(".")[0] in sys.stdlib_module_names
        or name.startswith("mlgen.runtime")
        or name == "mlgen.runtime"
        for name in names
    )
