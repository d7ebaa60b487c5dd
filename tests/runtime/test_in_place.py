"""Restarts in place: the gate, the exit codes that the kubelet overwrites, and the decisions."""

from dataclasses import replace
from http import HTTPStatus

import pytest
from runtime.test_decide import GANG, NOW, RUNNING, job, pod

from mlgen.runtime.answers import Event
from mlgen.runtime.clock import Clock
from mlgen.runtime.cluster import RESTARTING, SIDECAR, Seen
from mlgen.runtime.decide import decide
from mlgen.runtime.gate import Gate
from mlgen.runtime.memory import Pods
from mlgen.runtime.status import load

PLAN = GANG._replace(workloads=GANG.workloads[:1], in_place=True, avoid_nodes="Preferred")
FAILED = pod("w-0", code=139, restarts=1)
OTHER = pod("w-1", node="m")
STOPPING = replace(RUNNING, phase="Stopping", in_place=True, until=NOW + 60)
BACKING_OFF = replace(STOPPING, phase="BackingOff", restarts=1, until=NOW - 1)
STARTING = replace(BACKING_OFF, phase="Starting", until=0.0)


def waits(name="w-0"):
    """Return a pod whose containers have been removed, and whose sidecar waits."""
    found = pod(name, phase="Pending", waiting="PodInitializing", last=137, restarts=1)
    (container,) = found["status"]["containerStatuses"]
    container["lastState"]["terminated"]["reason"] = RESTARTING
    return found


def seen(*pods, state=RUNNING, waiting=(), worker=None):
    found = {"mnist-worker": job(**(worker or {}))}
    return Seen(found, list(pods), {"state": state.text()}, waiting=dict(waiting))


def after(plan, observed, now=NOW):
    """Return the state that the next decision stores; None without a change."""
    changes = decide(plan, observed, now).status
    return load({**observed.status, **changes}, "r") if changes else None


# The decisions


def test_a_failed_container_stops_the_gang_in_its_pods():
    observed = seen(FAILED, OTHER)

    state = after(PLAN, observed)

    assert (state.phase, state.in_place, state.cause.code) == ("Stopping", True, 139)
    stopping = replace(observed, status={**observed.status, "state": state.text()})
    assert decide(PLAN, replace(stopping, pods=[waits(), OTHER]), NOW).actions == ()


@pytest.mark.parametrize(
    ("plan", "observed"),
    [
        (PLAN, seen(FAILED)),  # the other pod does not exist
        (PLAN, seen(FAILED, pod("w-1", deleted=0))),
        (PLAN, seen(FAILED, pod("w-1", conditions={"DisruptionTarget": "True"}))),
        (PLAN, seen(FAILED, pod("w-1", phase="Failed", code=1))),
        (PLAN, seen(FAILED, OTHER, worker={"succeeded": 1})),
        (PLAN, seen(FAILED, OTHER, state=replace(RUNNING, failed="n"))),  # again on this node
        (PLAN, seen(OTHER, pod("w-2"), pod("w-0", phase="Failed", code=139))),  # replaced already
    ],
)
def test_a_gang_that_cannot_restart_in_place_gets_new_pods(plan, observed):
    state = after(plan, observed)

    assert state.phase != "Running"
    assert not state.in_place


def test_new_pods_may_restart_in_place_on_a_node_that_failed_before():
    stopped = {"suspend": True, "conditions": ["Suspended"], "active": 0, "ready": 0}
    waiting = replace(BACKING_OFF, in_place=False, failed="n")

    state = replace(after(PLAN, seen(state=waiting, worker=stopped)), phase="Running", old=())

    assert after(PLAN, seen(FAILED, OTHER, state=state)).in_place


def test_without_avoided_nodes_a_node_may_fail_again():
    plan = PLAN._replace(avoid_nodes="")

    assert after(plan, seen(FAILED, OTHER, state=replace(RUNNING, failed="n"))).in_place


def test_a_pod_that_has_returned_has_failed_even_if_its_exit_code_is_lost():
    state = after(PLAN, seen(waits(), OTHER, waiting={"w-0": 0}))

    assert (state.phase, state.in_place) == ("Stopping", True)
    assert (state.cause.code, state.cause.reason, state.cause.retryable) == (137, RESTARTING, True)


def test_a_sidecar_that_restarts_alone_is_no_failure():
    state = after(PLAN, seen(pod("w-0"), OTHER, waiting={"w-0": 0}))

    assert state is None or state.phase == "Running"


def test_a_pod_whose_sidecar_restarts_alone_has_not_stopped():
    observed = seen(pod("w-0"), waits("w-1"), state=STOPPING, waiting={"w-0": 0, "w-1": 0})

    state = after(PLAN, observed)

    assert state is None or state.phase == "Stopping"


def test_a_pod_that_waits_for_the_attempt_that_starts_has_not_failed():
    observed = seen(waits("w-0"), waits("w-1"), state=STARTING, waiting={"w-0": 0, "w-1": 0})

    state = after(PLAN, observed)

    assert state is None or (state.phase, state.in_place) == ("Starting", True)


def test_the_gang_is_judged_when_all_of_its_pods_wait():
    one = seen(waits("w-0"), OTHER, state=STOPPING, waiting={"w-0": 0})
    both = seen(waits("w-0"), waits("w-1"), state=STOPPING, waiting={"w-0": 0, "w-1": 0})

    assert after(PLAN, one) is None or after(PLAN, one).phase == "Stopping"
    state = after(PLAN, replace(both, status={"state": replace(STOPPING, cause=None).text()}))
    assert (state.phase, state.in_place) == ("BackingOff", True)


def test_it_does_not_wait_for_a_new_pod_whose_program_waits_for_its_peers():
    observed = seen(waits("w-0"), OTHER, state=BACKING_OFF, waiting={"w-0": 0})

    state = after(PLAN, observed)

    assert (state.phase, state.in_place) == ("Starting", True)


def test_it_starts_after_the_delay():
    observed = seen(waits("w-0"), waits("w-1"), state=BACKING_OFF, waiting={"w-0": 0, "w-1": 0})

    assert after(PLAN, observed, NOW - 5) is None or after(PLAN, observed, NOW - 5).until
    state = after(PLAN, observed)
    assert (state.phase, state.in_place, state.old) == ("Starting", True, ())


def test_it_runs_when_no_pod_waits():
    state = after(PLAN, seen(pod("w-0"), pod("w-1"), state=STARTING))

    assert (state.phase, state.in_place, state.running) == ("Running", False, NOW)


def test_a_pod_that_restarts_before_its_failure_is_known_still_belongs_to_the_gang():
    """A gang that has run for long may fail more often (backoffResetSeconds)."""
    start = replace(RUNNING, members=("w-0", "w-1"), running=NOW - 7200)
    observed = seen(waits(), pod("w-1"), state=start)

    state = after(PLAN, observed) or start

    assert (state.phase, state.running, state.members) == ("Running", NOW - 7200, ("w-0", "w-1"))


def test_two_supervisors_do_not_undo_what_the_other_has_seen():
    """Only one of them has seen the exit code, which the kubelet then overwrites."""
    observed = seen(pod("w-0", code=1), OTHER)
    state = after(PLAN, observed)
    assert state.settled == NOW + 5

    unaware = seen(pod("w-0"), OTHER, state=state)

    assert after(PLAN, unaware, NOW + 6).settled == NOW + 5
    assert after(PLAN, unaware, NOW + 11).settled == 0.0


@pytest.mark.parametrize("state", [STOPPING, BACKING_OFF])
def test_a_pod_that_is_lost_while_it_stops_leads_to_new_pods(state):
    observed = seen(waits("w-0"), state=state, waiting={"w-0": 0})

    assert not after(PLAN, observed).in_place


def test_a_gang_that_does_not_stop_in_time_gets_new_pods():
    observed = seen(waits("w-0"), OTHER, state=STOPPING, waiting={"w-0": 0})
    changes = decide(PLAN, observed, NOW).status
    stored = replace(observed, status={**observed.status, **changes})
    assert decide(PLAN, stored, NOW).wake == STOPPING.until

    changes = decide(PLAN, stored, STOPPING.until).status
    stored = replace(stored, status={**stored.status, **changes})
    state = load(stored.status, "r")
    assert (state.phase, state.in_place) == ("Stopping", False)
    (action,) = decide(PLAN, stored, NOW).actions
    assert action.patch["spec"]["suspend"]


@pytest.mark.parametrize("state", [STOPPING, BACKING_OFF, STARTING])
def test_a_gang_that_a_queue_suspends_is_not_resumed(state):
    stopped = {"suspend": True, "conditions": ["Suspended"], "active": 0, "ready": 0}
    observed = seen(state=state, worker=stopped)

    found = after(PLAN, observed)

    assert (found.phase, found.in_place) == ("Running", False)
    assert not decide(PLAN, replace(observed, status={"state": found.text()}), NOW).actions


# The exit codes


class Client:
    clock = Clock()

    def __init__(self, *pods):
        self.pods = pods

    def list(self, *_, **__):
        return Event("LISTED", [*self.pods], "1")


@pytest.mark.parametrize("is_listed", [True, False])
def test_an_exit_code_is_kept_when_the_kubelet_overwrites_it(is_listed):
    client = Client(pod("w-0", code=3))
    pods = Pods(client, "mnist")
    pods.hear(Event("LISTED", [], "1"))
    pods.listed()
    client.pods = [waits()]

    pods.listed() if is_listed else pods.hear(Event("MODIFIED", [waits()], "2"))
    pods.hear(Event("MODIFIED", [waits()], "3"))

    (found,) = pods.told()
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3


# The gate


@pytest.fixture
def board():
    """A gate that records what it calls."""
    found = Gate()
    found.calls = []
    found.ring = lambda: found.calls.append("ring")
    found.wake = lambda: found.calls.append("wake")
    return found


def test_it_answers_nothing_before_the_status_is_known(board):
    assert board.answer(pod(), "attempt=") is None


@pytest.mark.parametrize(
    ("state", "query", "answer"),
    [
        (RUNNING, "attempt=", "is 0"),
        (RUNNING, "after=", "is 0"),
        (RUNNING, "attempt=0", None),
        (RUNNING, "after=0", None),
        (STOPPING, "attempt=0", "restart"),
        (STOPPING, "after=0", None),
        (replace(STOPPING, in_place=False), "attempt=0", None),
        (BACKING_OFF, "after=0", None),
        (STARTING, "after=0", "start 1"),
        (STARTING, "after=1", None),  # it has failed in this attempt
        (replace(STARTING, phase="Running"), "after=0", "start 1"),
        (RUNNING, "after=" + "9" * 5000, None),  # the status was lost
        (STARTING, "after=3", "start 1"),  # likewise
        (RUNNING, "", "is 0"),
        (RUNNING, "after=x&attempt=y", "is 0"),
    ],
)
def test_answers(board, state, query, answer):
    board.update(state)
    board.answer(pod(), query)
    board.update(state)

    found = board.answer(pod(), query)

    assert found == (answer and (HTTPStatus.OK, f"{answer}\n"))


@pytest.mark.parametrize(
    ("known", "read", "query", "answer"),
    [
        (RUNNING, STARTING, "attempt=", "is 1"),
        (STOPPING, STARTING, "attempt=1", None),
        (STARTING, replace(STARTING, restarts=2), "after=0", "start 2"),
    ],
)
def test_an_answer_depends_on_the_status_after_the_request(board, known, read, query, answer):
    """Another supervisor may have started the next attempt."""
    board.update(known)

    assert board.answer(pod(), query) is None
    assert board.calls[-1] == "ring"
    board.update(read)
    assert board.calls[-1] == "wake"

    assert board.answer(pod(), query) == (answer and (HTTPStatus.OK, f"{answer}\n"))


def test_a_sidecar_that_restarts_alone_stops_its_pod(board):
    alone = pod()
    alone["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = "2026-01-01"
    sidecar = {"name": SIDECAR, "state": {"running": {"startedAt": "2026-01-02"}}}
    alone["status"]["initContainerStatuses"] = [sidecar]

    for answer in (None, (HTTPStatus.OK, "restart\n"), None):  # once: it takes a moment
        board.update(STOPPING)
        assert board.answer(alone, "after=0") == answer


def test_pods_that_wait_are_known_until_they_start(board):
    board.update(RUNNING)
    board.answer(pod(), "after=0")
    board.answer(pod(), "after=0")
    assert board.waiting == {"w-0": 0}
    assert set(board.calls[1:]) == {"ring"}

    board.update(STARTING)
    board.answer(pod(), "after=0")

    assert (board.waiting, board.calls[-1]) == ({}, "wake")


def test_requests_make_the_supervisor_look_seldom_whatever_they_contain():
    now, rung = [0.0], []
    board = Gate(lambda: now[0])
    board.ring = lambda: rung.append(now[0])
    board.update(RUNNING)
    looks = [0.0]
    for at in range(1000):
        now[0] = 100 + at / 100
        board.answer(pod(f"w-{at % 7}"), f"attempt=0&{at}")
        if rung[-1] > looks[-1] or board.pause() == 0 or now[0] >= looks[-1] + 2:
            looks.append(now[0])
            board.update(RUNNING)

    assert [100.0, 102.0, 104.0, 106.0, 108.0] == looks[1:]
    assert 0 < board.pause() <= 2  # no request is forgotten
    now[0] += 2
    board.update(RUNNING)
    now[0] += 2
    assert board.pause() == float("inf")


def test_pods_that_are_gone_do_not_wait(board):
    board.update(RUNNING)
    board.answer(pod("w-0"), "after=0")
    board.answer(pod("w-1"), "after=0")

    assert board.of([pod("w-1")]) == {"w-1": 0}
    assert board.waiting == {"w-1": 0}
