"""The last lines of the container that failed first: which log is read, and what is kept of it."""

from dataclasses import replace

import pytest
from runtime.test_decide import GANG, NOW, REPLICA, RUNNING, STOPPED, STOPPING, pod, seen
from runtime.test_supervise import play, running

from mlgen.runtime.answers import ApiError
from mlgen.runtime.decide import decide
from mlgen.runtime.last_log import LINES, SIZE, LastLog, text
from mlgen.runtime.status import load, stamp

FAILED = {"phase": "Failed", "code": 139, "at": -9, "index": 1}
LOG = LastLog("w-1", "main", previous=False, title="worker-1, w-1, exit code 1")


def log_of(*pods, plan=GANG, state=RUNNING, **objects):
    return decide(plan, seen(*pods, state=state, **objects), NOW).log


def test_the_log_of_the_replica_that_failed_first_is_kept_with_its_restart():
    peer = pod("w-0", phase="Failed", code=1, at=-8, index=0)
    log = log_of(peer, pod("w-1", **FAILED), state=replace(RUNNING, restarts=2, disruptions=1))

    title = f"worker-1, w-1, exit code 139, after 3 restarts, {stamp(NOW - 9)}"
    assert log == LastLog("w-1", "main", previous=False, title=title)
    assert "previous" not in log.query


@pytest.mark.parametrize(
    ("state", "previous"),
    [
        ({"last": 139}, True),  # it runs again
        ({"last": 139, "waiting": "CrashLoopBackOff"}, True),
        ({"last": 1, "phase": "Failed", "code": 139, "at": -9}, False),
    ],
)
def test_a_container_that_has_restarted_is_read_before_its_restart(state, previous):
    log = log_of(pod("ps-0", "mnist-ps", restarts=1, **state))

    assert (log.pod, log.previous) == ("ps-0", previous)
    assert log.query.get("previous") == ("true" if previous else None)


def test_an_init_container_that_failed_has_the_log():
    log = log_of(pod("w-1", phase="Failed", code=3, init=True, index=1))

    assert (log.pod, log.container) == ("w-1", "fetch")
    assert "worker-1, init container fetch of w-1, exit code 3, " in log.title


@pytest.mark.parametrize(
    ("plan", "failed", "state"),
    [
        (GANG, {"deleted": -1}, RUNNING),
        (GANG, {"devices": {"g": "Unhealthy"}}, RUNNING),
        (GANG, {"phase": "Failed", "rejected": "OutOfcpu", "empty": True}, RUNNING),
        (GANG._replace(keep_last_log=False), FAILED, RUNNING),
        (GANG, FAILED, replace(RUNNING, phase="Ended", ended=NOW, code=1)),
    ],
    ids=["disrupted", "device", "rejected", "off", "ended"],
)
def test_other_failures_have_no_log(plan, failed, state):
    assert log_of(pod("w-1", **failed), plan=plan, state=state) is None


def test_a_log_is_read_again_only_if_another_failure_turns_out_to_be_the_first():
    first = decide(GANG, seen(pod("w-1", **FAILED)), NOW)
    state = load(first.status, "r")
    assert (state.phase, first.log.pod) == ("Stopping", "w-1")
    others = pod("w-0", phase="Failed", code=1, at=-8), pod("w-1", **FAILED)

    assert log_of(*others, state=state) is None
    earlier = pod("w-0", phase="Failed", code=134, at=-20, index=0), pod("w-1", **FAILED)
    assert log_of(*earlier, state=state).pod == "w-0"


def test_the_end_of_a_stopped_gang_does_not_read_the_log_again():
    cause = load(decide(GANG, seen(pod("w-1", **FAILED)), NOW).status, "r").cause
    state = replace(STOPPING, cause=cause, spent=1, restarts=1)
    found = decide(GANG, seen(state=state, worker=STOPPED, ps=None), NOW)

    assert "Failed" in found.status
    assert found.log is None


@pytest.mark.parametrize("plan", [REPLICA, REPLICA._replace(keep_last_log=False)])
def test_the_log_is_kept_when_a_job_ends_without_a_gang(plan):
    failed = pod("w-1", phase="Failed", code=3, index=1)
    log = log_of(failed, plan=plan, worker={"conditions": ["Failed"]})

    assert (log and log.pod) == ("w-1" if plan.keep_last_log else None)
    assert log_of(failed, plan=plan, worker={"conditions": ["Complete"]}) is None


def test_a_role_that_may_fail_has_not_ended_the_job():
    worker, server = REPLICA.workloads
    plan = REPLICA._replace(workloads=(worker, server._replace(tolerates_failure=True)))
    crashed = pod("ps-0", "mnist-ps", last=1)
    failed = pod("w-1", phase="Failed", code=3, index=1)

    assert log_of(crashed, failed, plan=plan, worker={"conditions": ["Failed"]}).pod == "w-1"


# The text


def kept(answer):
    title, *lines = text(LOG, answer).split("\n")
    assert title == LOG.title
    return lines


def test_the_last_lines_are_kept():
    answer = "".join(f"line {number}\n" for number in range(99)).encode()

    assert kept(answer + b"\n \n") == [f"line {number}" for number in range(99 - LINES, 99)]
    assert kept(b"") == [""]


def test_long_lines_are_cut_and_the_last_ones_are_kept():
    lines = kept(b"".join(b"%d %s\n" % (number, "漢".encode() * 5000) for number in range(9)))

    assert {len(each) for each in lines} == {1000}
    assert [each[:3] for each in lines] == ["7 漢", "8 漢"]
    assert lines[-1].endswith("漢…")
    assert len("\n".join(lines).encode()) <= SIZE


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m \x1b[2K", "red"),
        (b" 10%\r 20%\r 30%", " 30%"),
        (b"at the end \r", "at the end"),
        (b"a\tb\t", "a   b"),
        (b"\xff \x00 \x1b]0;title\x07 \xe2\x80\xae", "� � �]0;title� �"),
        (b"\xe2\x80\xa8next", "�next"),
    ],
)
def test_a_line_is_text_as_a_terminal_shows_it(line, shown):
    assert kept(line + b"\nend") == [shown, "end"]


# The request


def failing(answers):
    """Return a gang in which the training fails, and the answers to requests of logs."""
    world, supervisor, _ = running()
    world.asked = []

    def log(pod, **query):
        world.asked.append((pod, query))
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    world.log = log
    return world, supervisor


def fail(world, supervisor, restarts):
    play(world, supervisor, lambda state: state.members and state.restarts == restarts - 1)
    (each,) = [each for each in world.all("Pod") if world.is_running(each)]
    world.end_pod(each, 137)
    play(world, supervisor, lambda state: state.restarts == restarts)
    return each["metadata"]["name"]


def status_of(world):
    return world.get("ConfigMap", "mnist.status")["data"]


def test_the_status_has_the_last_lines_of_the_latest_failure():
    world, supervisor = failing([b"first\n", b"second\n"])
    writes = []
    world.on_write = lambda _, kind, __, body: writes.append((kind, body))
    pods = []
    for number, line in enumerate(("first", "second")):
        pods.append(fail(world, supervisor, number + 1))
        title, *lines = status_of(world)["lastLog"].split("\n")
        assert title.startswith(f"worker-0, {pods[-1]}, exit code 137, after {number} restarts, ")
        assert lines == [line]

    query = {"container": "main", "tailLines": "40", "limitBytes": "1048576"}
    assert world.asked == [(name, query) for name in pods]
    assert sum("lastLog" in body.get("data", {}) for _, body in writes) == 2
    changes = [body for kind, body in writes if kind in ("Job", "ConfigMap")]
    first = next(i for i, body in enumerate(changes) if "lastLog" in body.get("data", {}))
    assert [body for body in changes[:first] if body.get("spec", {}).get("suspend")] == []


def test_a_log_that_cannot_be_read_neither_prevents_a_restart_nor_is_read_again():
    answers = [ApiError("pods is forbidden", 403), ApiError("timed out"), b"third\n"]
    world, supervisor = failing(answers)
    name = fail(world, supervisor, 1)
    fail(world, supervisor, 2)
    assert "lastLog" not in status_of(world)

    fail(world, supervisor, 3)

    assert status_of(world)["lastLog"].endswith("\nthird")
    said = [line for line in world.lines if "last lines" in line]
    assert said == [f"cannot keep the last lines of {name}: 403: pods is forbidden"]


@pytest.mark.parametrize("found", [b"once\n", ApiError("timed out")])
def test_a_conflict_of_the_status_does_not_read_the_log_again(found):
    world, supervisor = failing([found])
    patch, conflicts = world.patch, [ApiError("changed", 409)] * 3

    def conflicting(kind, name, body, *rest):
        if "Stopping" in body.get("data", {}).get("state", "") and conflicts:
            raise conflicts.pop()
        patch(kind, name, body, *rest)

    world.patch = conflicting
    fail(world, supervisor, 1)

    assert conflicts == []
    assert len(world.asked) == 1
    assert ("lastLog" in status_of(world)) == isinstance(found, bytes)


def test_the_api_server_of_the_model_answers_as_a_real_one():
    """Compared with Kubernetes 1.34: the codes and the messages."""
    world, supervisor, _ = running()
    play(world, supervisor, lambda state: state.members)
    (found,) = world.all("Pod")
    name, limits = found["metadata"]["name"], {"tailLines": "2", "limitBytes": "20"}
    assert world.log(name, container="main", **limits) == f"{name} run 0 line 98\n".encode()[:20]

    wrong = {
        ("none", "main", ""): (404, 'pods "none" not found'),
        (name, "none", ""): (400, f"container none is not valid for pod {name}"),
        (name, "main", "true"): (
            400, f'previous terminated container "main" in pod "{name}" not found'
        ),
    }  # fmt: skip
    for (each, container, previous), (code, message) in wrong.items():
        with pytest.raises(ApiError, match=f"^{code}: {message}"):
            world.log(each, container=container, previous=previous, **limits)
