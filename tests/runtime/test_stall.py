"""Training that hangs: no replica reports its progress for too long."""

from dataclasses import replace

import pytest
from runtime.test_decide import (
    EVALUATOR,
    GANG,
    NOW,
    REPLICA,
    RUNNING,
    STOPPED,
    job,
    pod,
    seen,
    server,
    settled,
)

from mlgen.runtime.decide import advance, decide
from mlgen.runtime.failures import STALL
from mlgen.runtime.plan import Order
from mlgen.runtime.progress import Progress, stored_text
from mlgen.runtime.status import events, is_stalled, load, stamp

LIMITS = {"progress": True, "first_report_seconds": 600, "stalled_seconds": 100}
PLAN = GANG._replace(**LIMITS)
RESTART = PLAN._replace(restart_stalled=True)
ALONE = REPLICA._replace(**LIMITS)

SINCE = replace(RUNNING, running=NOW - 1000)
PODS = (pod("w-0"), pod("w-1"), pod("ps-0", "mnist-ps"))
HEARD = Progress(NOW - 900, last=NOW - 100, replica="worker-0", reporting=1)


def at(progress=HEARD, state=SINCE, pods=PODS, **more):
    return replace(seen(*pods, state=state, **more), progress=progress)


def after(plan, what, now=NOW):
    return advance(plan, what, load(what.status, "r"), now)


STALLS = {
    "no report for too long": (PLAN, at(), True),
    "a report in time": (PLAN, at(replace(HEARD, last=NOW - 99)), False),
    "no limit": (PLAN._replace(stalled_seconds=0), at(), False),
    "no progress": (PLAN._replace(progress=False), at(), False),
    "never a report": (PLAN, at(Progress(NOW - 600)), True),
    "never a report, but soon enough": (PLAN, at(Progress(NOW - 599)), False),
    "never a report, and no limit": (
        PLAN._replace(first_report_seconds=0), at(Progress(NOW - 900)), False,
    ),
    "all replicas run only now": (
        PLAN, at(replace(HEARD, last=NOW - 300), replace(SINCE, running=NOW - 99)), False,
    ),
    "the supervisor listens only now": (PLAN, at(replace(HEARD, since=NOW - 99)), False),
    "the supervisor does not listen yet": (PLAN, at(replace(HEARD, since=0.0)), False),
    "the supervisor observes no reports": (PLAN, at(None), False),
    "a checkpoint is announced": (PLAN, at(replace(HEARD, quiet=NOW - 99)), False),
    "an announced checkpoint takes too long": (PLAN, at(replace(HEARD, quiet=NOW - 100)), True),
    "a report of an earlier attempt": (
        PLAN, at(HEARD, replace(SINCE, restarts=1, running=NOW - 599)), False,
    ),
    "a replica does not run": (PLAN, at(pods=PODS[1:]), False),
    "a replica has not started": (PLAN, at(pods=(*PODS[1:], pod("w-0", phase="Pending"))), False),
    "a replica has succeeded": (
        PLAN, at(worker={"succeeded": 1}, pods=(*PODS[1:], pod("w-0", phase="Succeeded"))), False,
    ),
    "the user has suspended the job": (PLAN, at(worker=STOPPED, pods=()), False),
    "a Job that others wait for has succeeded": (
        PLAN._replace(workloads=(*PLAN.workloads, EVALUATOR),
            restart_scope=("worker", "ps"),
            order=(Order("worker", "Complete", "evaluator"),),
        ),
        at(evaluator=job("mnist-evaluator", conditions=["Complete"], succeeded=2)),
        True,
    ),
    "a Job that others wait for has a replica that has succeeded": (
        PLAN._replace(workloads=(*PLAN.workloads, EVALUATOR),
            restart_scope=("worker", "ps"),
            order=(Order("worker", "Complete", "evaluator"),),
        ),
        at(evaluator=job("mnist-evaluator", active=1, succeeded=1)),
        False,
    ),
    "another Job has succeeded": (
        PLAN._replace(workloads=(*PLAN.workloads, EVALUATOR), restart_scope=("worker", "ps")),
        at(evaluator=job("mnist-evaluator", conditions=["Complete"], succeeded=2)),
        False,
    ),
    "without a gang": (ALONE, at(), True),
    "without a gang, a replica that is not ready": (ALONE, at(ps=server(ready=0)), False),
    "without a gang, all replicas run only now": (ALONE, at(state=RUNNING), False),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "what", "expected"), STALLS.values(), ids=STALLS)
def test_training_is_stalled_if_all_replicas_run_and_none_reports(plan, what, expected):
    state = after(plan, what)

    assert expected == bool(state.stalled)
    assert "Running" == state.phase
    assert expected == is_stalled(settled(what, plan).status)


def test_a_stalled_job_has_a_condition_and_an_event_until_a_report_arrives():
    heard = replace(HEARD, slowest="worker-1", slowest_at=NOW - 180)
    stalled = settled(at(heard), PLAN)
    text = f"no report for 100 s, since {stamp(NOW - 100)} (runPolicy.progress.stalledSeconds)"
    text += f"; the oldest report is from worker-1, at {stamp(NOW - 180)}"

    assert f"True {stamp(NOW)} JobStalled: {text}" == stalled.status["Stalled"]
    assert stalled.status["Running"].startswith("True ")
    assert ["Warning"] == [
        each["type"] for each in events(PLAN, stalled, "team") if each["reason"] == "JobStalled"
    ]

    # It lasts, also for a new supervisor, which has received no report.
    for progress in (heard, Progress(NOW + 5), Progress()):
        later = replace(stalled, progress=progress)
        assert None is decide(PLAN, later, NOW + 60).status

    again = replace(stalled, progress=replace(heard, last=NOW + 70))
    assert 0 == after(PLAN, again, NOW + 70).stalled
    assert settled(again, PLAN, NOW + 70).status["Stalled"].startswith("False ")


def test_the_condition_ends_with_the_job():
    stalled = settled(at(), PLAN)
    over = replace(
        stalled, workloads={**stalled.workloads, "mnist-worker": job(conditions=["Complete"])}
    )

    assert settled(over, PLAN).status["Stalled"].startswith("False ")


def test_the_gang_restarts_if_the_user_wants_it():
    state = after(RESTART, at(replace(HEARD, slowest="worker-1", slowest_at=NOW - 200)))

    assert ("Stopping", 0) == (state.phase, state.stalled)
    assert (STALL, True, "", False) == (
        state.cause.kind, state.cause.retryable, state.cause.node, state.mute,
    )  # fmt: skip
    status = settled(at(), RESTART).status
    assert "JobRestarting: training is stalled: no report for 100 s" in status["Restarting"]


def stopped(state):
    gone = at(state=state, worker=STOPPED, pods=(), ps=server(replicas=0, ready=0))
    return after(RESTART, gone)


def test_a_restart_counts_and_avoids_no_node():
    state = after(RESTART, at())
    state = stopped(state)
    assert ("BackingOff", 1, 1, "") == (state.phase, state.restarts, state.spent, state.avoid)

    state = after(RESTART, at(replace(HEARD, attempt=1), replace(SINCE, restarts=1, spent=1)))
    state = stopped(state)
    assert ("Ended", "BackoffLimitExceeded", 143) == (state.phase, state.reason, state.code)
    assert state.message.startswith("training is stalled: no report for 100 s")


def test_silence_is_not_healthy_running():
    plan = RESTART._replace(backoff_reset_seconds=950)
    before = replace(SINCE, spent=1, running=NOW - 1000)

    assert 1 == after(plan, at(state=before)).spent  # healthy for 900 s
    assert 0 == after(plan, at(state=replace(before, running=NOW - 1050))).spent


def test_a_program_that_never_reports_is_restarted_once():
    silent = Progress(NOW - 900)
    first = after(RESTART, at(silent))
    assert ("Stopping", True) == (first.phase, first.mute)

    second = replace(SINCE, restarts=1, spent=1, mute=True)
    what = at(replace(silent, attempt=1), second)
    assert ("Running", NOW) == (after(RESTART, what).phase, after(RESTART, what).stalled)
    assert (
        settled(what, RESTART)
        .status["Stalled"]
        .endswith(
            "no report within 600 s from the start of all replicas"
            " (runPolicy.progress.startSeconds)"
            "; a restart did not help, so the job is not restarted for this reason again"
        )
    )

    for earlier, phase in (
        (HEARD, "Stopping"),
        (Progress(rejected=(("malformed", 1),)), "Running"),
    ):
        stored = replace(what, status={**what.status, "progress": stored_text(earlier, NOW)})
        assert phase == after(RESTART, stored).phase


def test_rejected_reports_are_named():
    what = at(Progress(NOW - 900, rejected=(("malformed", 2), ("unknown sender", 1))))

    status = settled(what, PLAN).status["Stalled"]

    assert status.endswith("; rejected: 2 malformed, 1 unknown sender")


def test_a_gang_that_cannot_restart_is_only_stalled():
    what = at(worker={"labels": ["kueue.x-k8s.io/queue-name"]})

    assert ("Running", NOW) == (after(RESTART, what).phase, after(RESTART, what).stalled)


@pytest.mark.parametrize(("spent", "in_place"), [(0, True), (1, False)])
def test_a_second_stall_gets_new_pods(spent, in_place):
    plan = RESTART._replace(in_place=True, backoff_limit=9)
    state = after(plan, at(state=replace(SINCE, spent=spent)))

    assert ("Stopping", STALL, in_place) == (state.phase, state.cause.kind, state.in_place)


def test_a_failure_explains_a_stall():
    killed = pod("w-0", code=137, phase="Failed")
    lost = pod("w-0", conditions={"DisruptionTarget": "True"})

    for failed, kind in ((killed, "exit"), (lost, "disruption")):
        assert kind == after(RESTART, at(pods=(failed, *PODS[1:]))).cause.kind


def test_a_lost_node_explains_a_stall():
    state = after(RESTART, at())
    cut = pod("w-0", conditions={"Ready": "False", "ContainersReady": "True"}, deleted=1)

    state = after(RESTART, at(state=state, pods=(cut, *PODS[1:]), worker=STOPPED))

    assert "disruption" == state.cause.kind


def test_the_next_look_is_when_training_would_be_stalled():
    what = settled(at(replace(HEARD, last=NOW - 60)), PLAN)
    newer = replace(what, progress=replace(HEARD, last=NOW - 2))

    assert NOW + 40 == decide(PLAN, what, NOW).wake
    assert NOW + 10 == decide(PLAN, newer, NOW).wake  # to store the report
    assert None is decide(PLAN, settled(at(), PLAN), NOW).wake


def test_an_event_of_each_quarter():
    found = [
        event["reason"] + event["metadata"]["name"][-3:]
        for percent in (0, 24.9, 25, 49, 50, 75, 99, 100)
        for event in events(PLAN, settled(at(replace(HEARD, last=NOW, percent=percent)), PLAN), "a")
        if event["reason"] == "JobProgress"
    ]

    assert ["-25", "-25", "-50", "-75", "-75", "100"] == [each[-3:] for each in found]
