"""Reports of progress: what is accepted, what is kept of them, and what the status contains."""

import json
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from runtime.test_decide import GANG, NOW, pod, seen
from runtime.test_server import served, talk

from mlgen.runtime import cluster, progress
from mlgen.runtime.answers import Event
from mlgen.runtime.memory import Pods
from mlgen.runtime.plan import Workload
from mlgen.runtime.progress import Progress, stored_text
from mlgen.runtime.reports import Reports
from mlgen.runtime.server import Request
from mlgen.runtime.status import metrics
from mlgen.runtime.supervise import answer
from mlgen.runtime.times import stamp

PLAN = GANG._replace(progress=True, port=1)
LIMITED = PLAN._replace(stalled_seconds=600)
LOSS = {"name": "loss", "value": "0.23"}
TRAINER = {
    "trainerStatus": {
        "progressPercentage": 45,
        "estimatedRemainingSeconds": 3600,
        "metrics": [LOSS],
        "lastUpdatedTime": "2026-11-26T12:00:00Z",
    }
}
PODS = [pod(f"w-{index}", index=index) for index in range(3)]
PS = pod("ps-0", "mnist-ps")


def request(body=b"", **fields):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    made = Request("POST", "/progress", "", data, "", "10.0.0.1", len(data))
    return made._replace(**fields)


def at(name, *addresses, host="", created=0, **fields):
    """Return a pod with addresses."""
    found = pod(name, age=-created, **fields)
    found["status"].update(podIPs=[{"ip": each} for each in addresses], hostIP=host)
    return found


def listed(*pods):
    """Return the pods of the workloads mnist-worker and mnist-ps, after a list."""
    client = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
    client.list = lambda *_, **__: Event("LISTED", list(pods), "1")
    found = Pods(client, "mnist")
    found.owners = frozenset({"mnist-worker", "mnist-ps"})
    found.listed()
    return found


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def found(clock):
    found = Reports(clock)
    found.tick()
    return found


def send(found, sender, body=b"", **fields):
    return found.receive(sender, request(body, **fields))[0]


def summary(found, *pods, plan=PLAN):
    return found.progress(plan, seen(*(pods or PODS)))


def test_a_report_of_trainer_is_accepted_and_shown(found):
    assert 200 == send(found, PODS[1], TRAINER)

    assert Progress(NOW, 0, NOW, 0.0, 45, 3600, (("loss", "0.23"),), "worker-1", 1) == summary(
        found
    )


def status(**fields):
    return {"trainerStatus": fields}


DEEP = b"[" * 30_000
HOSTILE = {
    "not JSON": (b"{", 400),
    "not UTF-8": (b'{"a": "\xff"}', 400),
    "a list": (b"[]", 400),
    "a number": (b"1", 400),
    "deep": (DEEP, 400),
    "deep in the status": (b'{"trainerStatus": ' + DEEP, 400),
    "a status that is a list": ({"trainerStatus": []}, 400),
    "no status": ({"trainerStatus": None}, 400),
    "a percentage of 10^9": (status(progressPercentage=10**9), 400),
    "a negative percentage": (status(progressPercentage=-1), 400),
    "NaN": (b'{"trainerStatus": {"progressPercentage": NaN}}', 400),
    "infinity": (b'{"trainerStatus": {"progressPercentage": 1e999}}', 400),
    "a percentage of true": (status(progressPercentage=True), 400),
    "a percentage in quotes": (status(progressPercentage="45"), 400),
    "a long number": (b'{"trainerStatus": {"progressPercentage": ' + b"9" * 30_000 + b"}}", 400),
    "a negative time": (status(estimatedRemainingSeconds=-1), 400),
    "a quiet day too much": ({"quietSeconds": 86401}, 400),
    "a mapping of metrics": (status(metrics={"loss": 1}), 400),
    "a metric without a name": (status(metrics=[{"value": "1"}]), 400),
    "a metric without a value": (status(metrics=[{"name": "loss"}]), 400),
    "a metric that is a list": (status(metrics=[["loss", 1]]), 400),
    "a value that is a list": (status(metrics=[{"name": "loss", "value": []}]), 400),
    "too large": (b" " * 32_769, 413),
}


@pytest.mark.parametrize(("body", "code"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_reports_are_rejected_and_counted_but_show_that_the_program_lives(body, code):
    pods = listed(pod("w-0"))
    supervisor = SimpleNamespace(pods=pods, reports=Reports(time.time), data={})
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = b"POST /progress HTTP/1.1\r\nAuthorization: Bearer w-0\r\nContent-Length: %d\r\n\r\n"

    with served(partial(answer, PLAN, supervisor), tick=supervisor.reports.tick) as (_, port):
        sent = head % len(data) + (data if code == 400 else b"")
        assert talk(port, sent).startswith(b"HTTP/1.1 %d " % code)
        assert talk(port, head % 2 + b"{}").startswith(b"HTTP/1.1 200 ")
    found = supervisor.reports.progress(PLAN, seen(PODS[0]))
    assert 1 == sum(count for _, count in found.rejected)
    assert (None, None, ()) == (found.percent, found.remaining, found.metrics)
    assert found.last


def test_strangers_are_rejected_and_are_no_sign_of_life(found):
    assert 403 == send(found, None, TRAINER)

    assert Progress(NOW, rejected=(("unknown sender", 1),)) == summary(found)


@pytest.mark.parametrize(
    ("method", "path", "plan", "code"),
    [
        ("POST", "/progress", PLAN, 403),
        ("PUT", "/progress", PLAN, 403),
        ("GET", "/progress", PLAN, 405),
        ("POST", "/progress", GANG, 404),
        ("POST", "/metrics", PLAN, 404),
        ("GET", "/metrics", PLAN, 200),
    ],
)
def test_routes(found, method, path, plan, code):
    reports = found if plan.progress else None
    supervisor = SimpleNamespace(pods=Pods(None, "mnist"), reports=reports, gate=None, data={})

    assert code == answer(plan, supervisor, request(method=method, path=path))[0]


def test_the_reports_of_a_pod_are_limited(found, clock):
    codes = [send(found, PODS[0], TRAINER) for _ in range(30)]
    clock.now += 1

    assert [200] * 20 + [429] * 10 == codes
    assert [200] * 5 + [429] == [send(found, PODS[0], TRAINER) for _ in range(6)]
    assert 200 == send(found, PODS[1])
    assert (("too many", 11),) == summary(found).rejected
    assert clock.now == summary(found).last  # a rejected report is a sign of life


def test_names_and_values_of_metrics_are_cleaned(found):
    names = ["a\nb", "c\x1b[31m", "\u202ed", "\ud800", "e" * 99, *map(str, range(90))]
    told = [{"name": name, "value": f"{name}\r\n"} for name in names]

    assert 200 == send(found, PODS[0], status(metrics=told))
    kept = summary(found).metrics
    assert ("a b", "a b  ") == kept[0]
    assert ["a b", "c [31m", " d", " ", "e" * 64] == [name for name, _ in kept[:5]]
    assert 16 == len(kept)
    assert "\n" not in stored_text(summary(found), NOW)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"progressPercentage": 12.3456}, (12.35, None)),
        ({"progressPercentage": 0, "estimatedRemainingSeconds": 1.5}, (0, 2)),
        ({"progressPercentage": 100, "estimatedRemainingSeconds": 1e12}, (100, None)),
        ({"progressPercentage": None, "metrics": None}, (None, None)),
        ({"metrics": [{"name": "loss", "value": 0.5}]}, (None, None)),
    ],
)
@pytest.mark.parametrize("is_nested", [True, False])
def test_values_that_are_accepted(found, values, expected, is_nested):
    assert 200 == send(found, PODS[0], {"trainerStatus": values} if is_nested else values)

    assert expected == (summary(found).percent, summary(found).remaining)


@pytest.mark.parametrize("body", [b"", {}, {"quietSeconds": 60}, {"other": 1}])
def test_a_heartbeat_keeps_the_progress(found, clock, body):
    send(found, PODS[0], TRAINER)
    clock.now += 7

    assert 200 == send(found, PODS[0], body)
    assert (45, NOW + 7) == (summary(found).percent, summary(found).last)


def test_a_report_replaces_the_last_one(found):
    send(found, PODS[0], TRAINER)
    send(found, PODS[0], status(progressPercentage=46))

    assert (46, None, ()) == (
        summary(found).percent, summary(found).remaining, summary(found).metrics,
    )  # fmt: skip


def test_a_program_announces_that_it_does_not_report(found, clock):
    send(found, PODS[0], {"quietSeconds": 600})
    send(found, PODS[1])
    assert NOW + 600 == summary(found).quiet

    clock.now += 60
    send(found, PODS[0], {"quietSeconds": 0})
    assert NOW + 60 == summary(found).quiet


def test_the_deciding_role_and_the_lowest_index_lead(found, clock):
    send(found, PS, status(progressPercentage=1))
    assert "ps-0" == summary(found, *PODS, PS).replica

    send(found, PODS[2], status(progressPercentage=2))
    clock.now += 1
    send(found, PODS[1], status(metrics=[LOSS]))
    send(found, PODS[0])
    led = summary(found, *PODS, PS)
    assert ("worker-2", 2, 4) == (led.replica, led.percent, led.reporting)
    assert ("worker-2", NOW) == (led.slowest, led.slowest_at)

    send(found, PODS[1], status(progressPercentage=1.5))
    assert "worker-1" == summary(found, *PODS, PS).replica


def test_a_job_for_each_replica_numbers_them():
    item = Workload("Job", "a-b-worker-3", "worker")

    assert "worker-3" == cluster.replica("a-b", item, pod())
    assert "worker-0" == cluster.replica("a-b", item._replace(name="a-b-worker"), pod())
    assert "worker-7" == cluster.replica("a-b", item._replace(name="a-b-worker"), pod(index=7))


def test_reports_of_other_attempts_and_of_pods_that_are_gone_do_not_count(found, clock):
    for each in PODS:
        send(found, each, TRAINER)
    assert 2 == summary(found, *PODS[:2]).reporting
    assert 3 == summary(found).reporting  # the watch may be late

    clock.now += 31
    assert 2 == summary(found, *PODS[:2]).reporting
    assert 2 == summary(found).reporting

    found.follow(0, stops=False)
    assert 2 == summary(found).reporting
    found.follow(0, stops=True)
    assert 0 == summary(found).reporting
    send(found, PODS[0])
    found.follow(1, stops=False)
    assert (0, 1) == (summary(found).reporting, summary(found).attempt)


def test_the_supervisor_is_woken_by_news_and_else_every_ten_seconds(found, clock):
    rung = []
    found.ring = lambda: rung.append(clock.now - NOW)
    for at in range(0, 30, 3):
        clock.now = NOW + at
        send(found, PODS[0], status(progressPercentage=at))
    clock.now += 1
    send(found, PODS[0], status(progressPercentage=100))
    send(found, PODS[0], status(progressPercentage=100))

    assert [0, 12, 24, 28] == rung


def test_reports_wake_the_supervisor_seldom_whatever_they_contain(found, clock):
    rung = []
    found.ring = lambda: rung.append(clock.now - NOW)
    for at in range(200):
        clock.now = NOW + at / 10
        send(found, PODS[at % 3], status(progressPercentage=100 * (at % 2)))
        found.follow(0, stops=at % 5 == 0)
        send(found, None)

    assert 2 < len(rung) <= 10


def test_strangers_do_not_wake_the_supervisor(found, clock):
    found.ring = lambda: pytest.fail("woken")
    for _ in range(30):
        clock.now += 7
        send(found, None)
        found.tick()


def test_the_supervisor_is_woken_by_a_last_report(found, clock):
    rung = []
    found.ring = lambda: rung.append(clock.now - NOW)
    for at in (0, 7):
        clock.now = NOW + at
        send(found, PODS[0])
    for at in (9, 14, 19, 24, 29):
        clock.now = NOW + at
        found.tick()
        if at == 19:
            summary(found)

    assert [0, 14] == rung


def test_silence_is_measured_again_after_a_pause_of_the_server(found, clock):
    clock.now += 29
    found.tick()
    assert NOW == summary(found).since

    clock.now += 31  # a node that was frozen; the supervisor may be faster than the server
    assert 0 == summary(found).since
    found.tick()
    assert clock.now == summary(found).since
    clock.now -= 600  # the clock of the API server is known
    found.tick()
    assert clock.now == summary(found).since
    assert 0 == Reports(clock).progress(PLAN, seen()).since


def test_silence_does_not_count_while_the_server_does_not_run(found, clock):
    send(found, PODS[0])
    for _ in range(40):  # the supervisor itself runs
        clock.now += 10
        since = summary(found).since
    assert 0 == since


def test_silence_is_measured_again_after_the_server_could_not_listen(found, clock):
    clock.now += 5
    found.tick(1)
    assert clock.now == summary(found).since
    clock.now += 5
    found.tick(1)
    assert clock.now - 5 == summary(found).since


# The senders


@pytest.mark.parametrize(
    ("pods", "token", "address", "name"),
    [
        ([at("w-0", "10.0.0.1")], "w-0", "10.9.9.9", "w-0"),
        ([at("w-0", "10.0.0.1", "fd00::1")], "", "fd00::1", "w-0"),
        ([at("w-0", "10.0.0.1")], "10.0.0.1", "10.9.9.9", None),  # an address is no token
        ([at("w-0", "10.0.0.1", host="10.0.0.1")], "", "10.0.0.1", None),
        ([at("w-0", "10.0.0.1", host="10.0.0.1")], "w-0", "10.0.0.1", "w-0"),
        ([at("w-0", "")], "", "", None),
        ([at("w-0", "10.0.0.1", phase="Succeeded")], "", "10.0.0.1", None),
        ([at("w-0", "10.0.0.1", phase="Failed")], "w-0", "10.0.0.1", None),
        ([at("w-0", "10.0.0.1", deleted=0)], "", "10.0.0.1", "w-0"),  # it ends now
        ([at("w-0", "10.0.0.1", owner="other")], "w-0", "10.0.0.1", None),
        ([at("b", "10.0.0.1", created=9), at("a", "10.0.0.1")], "", "10.0.0.1", "b"),
        (
            [at("b", "10.0.0.1", created=9, phase="Failed"), at("a", "10.0.0.1")],
            "",
            "10.0.0.1",
            "a",
        ),
    ],
)
def test_the_sender_is_a_live_pod_of_the_job(pods, token, address, name):
    found = listed(*pods).sender(token, address)

    assert name == (found and found["metadata"]["name"])


def test_the_pods_at_an_address_change():
    pods = listed(at("a", "10.0.0.1"), at("b", "10.0.0.1", host="10.0.0.1"), at("c", "10.0.0.2"))
    assert (2, 1, 0) == tuple(pods.at(f"10.0.0.{last}") for last in (1, 2, 3))

    pods.hear(Event("MODIFIED", [at("a", "10.0.0.3")], "2"))
    pods.hear(Event("DELETED", [at("c", "10.0.0.2")], "3"))
    assert (1, 0, 1) == tuple(pods.at(f"10.0.0.{last}") for last in (1, 2, 3))
    assert pods.sender("", "10.0.0.3")


# What is announced


DONE = status(progressPercentage=100)
HALF = status(progressPercentage=50)
DAY, HOUR = {"quietSeconds": 86400}, 3600


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([(0, DAY)], 86400),
        ([(0, DONE)], 86400),
        ([(0, DAY), (1, {})], HOUR),  # the others may wait for replica 0
        ([(0, DONE), (1, HALF)], HOUR),
        ([(0, {"quietSeconds": 60}), (1, {})], 60),
        ([(0, {}), (1, DAY)], 0),
        ([(0, HALF), (1, DONE)], 0),
        ([(0, {}), (1, {**HALF, **DAY})], HOUR),  # replica 1 leads
        ([(0, DAY), (1, {"quietSeconds": 7200})], 7200),
        ([(0, DONE), (1, DONE)], 86400),
        ([(0, HALF), ("ps", DONE)], 0),
        ([(0, {}), ("ps", {**DONE, **DAY})], 0),
        ([("ps", DONE)], 86400),
        ([(0, DAY), ("ps", {})], 86400),  # it does not decide
    ],
)
def test_an_announcement_of_one_replica_does_not_silence_the_others(found, sent, expected):
    for index, body in sent:
        assert 200 == send(found, PS if index == "ps" else PODS[index], body)

    assert expected == max(summary(found, *PODS, PS, plan=LIMITED).quiet - NOW, 0)


def test_replicas_that_reported_only_at_the_start_do_not_count(found, clock):
    send(found, PODS[1])
    clock.now += 601
    send(found, PODS[0], DAY)

    assert clock.now + 86400 == summary(found, plan=LIMITED).quiet


# What is stored


def heard(**fields):
    return Progress(NOW - 999, 0, **{"last": NOW, **fields})


def test_the_progress_is_stored_with_the_names_of_trainer():
    found = heard(
        percent=45, remaining=60, metrics=(("loss", "1"),), replica="worker-0", reporting=2,
        slowest="worker-1", slowest_at=NOW - 7, quiet=NOW + 60, rejected=(("malformed", 2),),
    )  # fmt: skip

    assert {
        "progressPercentage": 45,
        "estimatedRemainingSeconds": 60,
        "metrics": [{"name": "loss", "value": "1"}],
        "lastUpdatedTime": stamp(NOW + 1),
        "lastReportTime": stamp(NOW),
        "attempt": 0,
        "replica": "worker-0",
        "reporting": 2,
        "slowest": {"replica": "worker-1", "lastReportTime": stamp(NOW - 7)},
        "quietUntil": stamp(NOW + 60),
        "rejected": {"malformed": 2},
    } == json.loads(stored_text(found, NOW + 1))
    assert replace(found, since=0.0) == progress.load(stored_text(found, NOW))


@pytest.mark.parametrize(
    ("before", "after", "at", "is_stored"),
    [
        (None, Progress(), 0, False),
        (None, heard(), 0, True),
        (None, Progress(rejected=(("malformed", 1),)), 0, True),
        (heard(), heard(last=NOW + 9), 9, False),
        (heard(), heard(last=NOW + 9), 10, True),
        (heard(), heard(), 99, False),
        (heard(), heard(last=NOW + 0.5), 99, False),
        (heard(), heard(last=NOW + 1, percent=100), 1, True),
        (heard(percent=100), heard(last=NOW + 1, percent=100, remaining=0), 1, False),
        (Progress(rejected=(("malformed", 1),)), heard(), 1, True),
        (heard(), replace(heard(last=NOW + 1), attempt=1), 1, True),
        (heard(), None, 99, False),
        (heard(percent=7), replace(heard(last=0.0), rejected=(("malformed", 1),)), 99, True),
    ],
)
def test_the_status_changes_seldom(before, after, at, is_stored):
    data = {"progress": stored_text(before, NOW)} if before else {}
    attempt = after.attempt if after else 0

    text, due = progress.updated(after, data, attempt, NOW + at)

    assert is_stored == (text != data.get("progress", ""))
    assert due in (None, NOW + 10)
    if due and not is_stored:
        assert progress.updated(after, data, attempt, due)[0] != text


def test_a_restarted_supervisor_continues_with_the_stored_progress():
    before = heard(percent=100, metrics=(("loss", "1"),), replica="worker-0", quiet=NOW + 60)
    data = {"progress": stored_text(before, NOW)}

    started = progress.current(Progress(NOW + 5), data, 0)
    assert (100, NOW, NOW + 60, NOW + 5) == (
        started.percent, started.last, started.quiet, started.since,
    )  # fmt: skip
    first = progress.current(Progress(NOW + 5, last=NOW + 9, replica="worker-1"), data, 0)
    assert (100, NOW + 9, NOW + 60, "worker-0") == (
        first.percent, first.last, first.quiet, first.replica,
    )  # fmt: skip
    assert Progress(attempt=1) == progress.current(None, data, 1)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "null", "1", "[" * 99_999, '{"slowest": 1}', '{"rejected": {"a": "b"}}',
     '{"attempt": -1}', '{"metrics": 1}', '{"reporting": "x"}', '{"progressPercentage": 101}'],
)  # fmt: skip
def test_a_stored_progress_that_was_tampered_with_is_ignored(text):
    assert progress.load(text) is None
    assert progress.updated(heard(), {"progress": text}, 0, NOW)[0] == stored_text(heard(), NOW)


def test_a_written_time_in_the_future_does_not_stop_the_updates():
    later = stored_text(heard(), NOW + 999_999)

    assert progress.updated(heard(last=NOW + 1), {"progress": later}, 0, NOW + 1)[0] != later


def test_the_progress_as_metrics():
    told = (("loss", "0.25"), ("lr", "1e-05"), ("a b", "1"), ("loss_2", "nan"), ("x", "1e999"))
    found = heard(percent=45, remaining=60, metrics=told)
    counts = {"accepted": 3, "malformed": 1}

    lines = metrics(PLAN, {"progress": stored_text(found, NOW)}, counts).splitlines()

    assert [
        'mlgen_job_reports_total{job="mnist",result="accepted"} 3',
        'mlgen_job_reports_total{job="mnist",result="malformed"} 1',
        'mlgen_job_progress_ratio{job="mnist"} 0.45',
        'mlgen_job_remaining_seconds{job="mnist"} 60',
        f'mlgen_job_last_report_time_seconds{{job="mnist"}} {NOW:.0f}',
        'mlgen_job_reported{job="mnist",name="loss"} 0.25',
        'mlgen_job_reported{job="mnist",name="lr"} 1e-05',
    ] == lines[-7:]


def test_the_counts_of_reports_begin_at_zero(found):
    send(found, None)

    assert {"accepted": 0, "unknown sender": 1, "too many": 0, "too large": 0, "malformed": 0} == (
        found.counts
    )


def test_the_memory_of_a_pod_is_bounded(found):
    told = [{"name": "n" * 99, "value": "v" * 999} for _ in range(20)]

    assert 200 == send(found, PODS[0], status(metrics=told))
    assert 16 * 2 * 64 == sum(len(text) for pair in summary(found).metrics for text in pair)
