"""Random histories. `MLGEN_HISTORIES=5000 MLGEN_SEED=7 pytest -m slow` plays more and others.

`pytest -s` prints each fault, the number of histories with it, and the number of these in which an
invariant of `history` was broken.
"""

import os
from collections import Counter

import pytest
from runtime import rights
from runtime.history import DAY, HOUR, Calm, History
from runtime.world import EPOCH

ENOUGH = 300
"""The number of histories that together use every right."""

HISTORIES = int(os.environ.get("MLGEN_HISTORIES", ENOUGH))
SEED = int(os.environ.get("MLGEN_SEED", "0"))
ROLES = 9
"""Kinds of Roles: without a StatefulSet, or with one, whose pods it may delete or not; the objects
are kept, deleted or owned."""


def play(seeds):
    """Return the problems of histories by seed, and by kind of Role, the rights without a use."""
    broken, histories, unused = {}, [], {}
    for seed in seeds:
        history = History(seed)
        problems = history.run()
        if problems:
            broken[seed] = problems
        last = history.state()
        ends = Counter({f"ended: {last.get('reason')}": 1})
        ends["restarts that count"] = last.get("restarts", 0)
        ends["restarts after disruptions"] = last.get("disruptions", 0)
        histories.append((+history.world.faults, +ends, bool(problems)))
        rules = frozenset(right[:2] for right in rights.granted(history.plan))
        left = rights.unused(history.requests(), history.plan)
        unused[rules] = unused.get(rules, left) & left

    report(histories, seeds)
    return broken, list(unused.values())


@pytest.fixture(scope="module")
def played():
    return play(range(SEED, SEED + HISTORIES))


@pytest.mark.slow
def test_histories_end_as_documented(played):
    broken, _ = played

    assert {} == broken


@pytest.mark.slow
@pytest.mark.skipif(HISTORIES < ENOUGH, reason=f"needs {ENOUGH} histories")
def test_histories_use_every_right_of_every_role(played):
    _, unused = played

    assert [set()] * ROLES == unused


def report(histories, seeds):
    """Print a table of the faults, with their histories."""
    print(f"\n{len(histories)} histories, seeds {seeds[0]} to {seeds[-1]}\n")
    print("| what | times | histories | broken |\n|---|---|---|---|")
    for part in (0, 1):
        for name in sorted(set().union(*(each[part] for each in histories))):
            with_it = [each for each in histories if each[part][name]]
            times = sum(each[part][name] for each in with_it)
            print(f"| {name} | {times} | {len(with_it)} | {sum(each[2] for each in with_it)} |")
    broken = sum(each[2] for each in histories)
    print(
        f"| **all** | {sum(each[0].total() for each in histories)} | {len(histories)} | {broken} |"
    )


MONTHS = Calm(pace=(7 * DAY, 9 * DAY), failures=11, limit=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_trains_for_months_outlasts_more_faults_than_its_backoff_limit(seed):
    history = History(seed, MONTHS)

    assert [] == history.run()

    last = history.state()
    assert "JobSucceeded" == last["reason"]
    assert last["ended"] - EPOCH > 70 * DAY
    # One or two of the eleven faults do not stop the gang, such as a node that returns in time.
    assert last["restarts"] + last["disruptions"] > 2 * MONTHS.limit


ALWAYS = {
    "within a minute": (Calm(pace=(1, 20), failures=9, limit=5, code=1), ("StartFailed", 2)),
    "killed": (Calm(pace=(1, 20), failures=9, limit=5, code=137), ("StartFailed", 2)),
    "later": (Calm(pace=(70, 90), failures=9, limit=5, code=1), ("BackoffLimitExceeded", 5)),
    "never": (Calm(pace=(1, 20), failures=0, limit=5), ("JobSucceeded", 0)),
}


@pytest.mark.parametrize("case", ALWAYS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_a_program_that_always_fails_ends_the_job(case, seed):
    calm, expected = ALWAYS[case]
    history = History(seed, calm)
    history.plan = history.ledger.plan = history.plan._replace(start_failures=3)

    assert [] == history.run()

    last, (reason, restarts) = history.state(), expected
    # The kubelet overwrites exit codes when it restarts a pod in place.
    most = calm.limit if history.plan.in_place else restarts
    assert reason == last["reason"]
    assert restarts <= last.get("restarts", 0) <= most


def answer(seconds):
    """Return the fault that one answer has the time of another clock."""

    def hear(history):
        for each in history.supervisors:
            each["client"].clock.hear(history.world.date() + seconds)

    return hear


def for_good(seconds):
    return lambda history: setattr(history.world, "ahead", seconds)


def servers(*seconds):
    return lambda history: setattr(history.world, "servers", seconds)


CLOCKS = {
    "one answer an hour ahead": answer(HOUR),
    "one answer an hour behind": answer(-HOUR),
    "one answer a day ahead": answer(DAY),
    "one answer a day behind": answer(-DAY),
    "an hour ahead for good": for_good(HOUR),
    "an hour behind for good": for_good(-HOUR),
    "a server that is an hour ahead": servers(0.0, 0.0, HOUR),
    "a server that is an hour behind": servers(0.0, 0.0, -HOUR),
}
CLOCKED = Calm(pace=(100, 200), failures=3, limit=5, code=1)
LIMIT = 4 * 200 + 10 + 20 + 40 + 4 * 60 + 3 * 60
"""The longest time in seconds: the training, the delays, what the pods need to start and to end,
and a minute for each restart."""


@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CLOCKS)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 7))]
)
def test_no_clock_ends_or_delays_a_job(case, seed, dies):
    history = History(seed, CLOCKED)
    history.plan = history.ledger.plan = history.plan._replace(deadline_seconds=LIMIT)
    at = 1 + 47 * seed
    history.world.after(at, CLOCKS[case], history)
    if dies:
        for each in history.supervisors:
            history.world.after(at + 30, vars(each["client"]).update, {"doomed": True})

    assert [] == history.run()

    assert "JobSucceeded" == history.state()["reason"]
    assert history.state()["restarts"] in (2, 3)  # some failures do not stop the gang
    assert history.over_at < EPOCH + LIMIT
