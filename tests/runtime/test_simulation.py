"""Random histories. `MLGEN_HISTORIES=5000 MLGEN_SEED=7 pytest -m slow` plays more and others.

`pytest -s` prints each fault, the number of histories with it, and the number of these in which an
invariant of `history` was broken.
"""

import os
from collections import Counter
from dataclasses import replace

import pytest
from runtime import rights
from runtime.history import DAY, Calm, History
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
    history.plan = history.ledger.plan = replace(history.plan, start_failures=3)

    assert [] == history.run()

    last = history.state()
    assert expected == (last["reason"], last.get("restarts", 0))
