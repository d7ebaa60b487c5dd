"""Thousands of random histories; `MLGEN_HISTORIES=20000 MLGEN_SEED=7` plays more, and others.

`pytest -s` prints what was injected.
"""

import os
from collections import Counter

from runtime import rights
from runtime.history import History

HISTORIES = int(os.environ.get("MLGEN_HISTORIES", "300"))
SEED = int(os.environ.get("MLGEN_SEED", "0"))


def test_every_history_ends_as_the_model_says():
    broken, counts, ends = {}, Counter(), Counter()
    unused = {}
    for seed in range(SEED, SEED + HISTORIES):
        history = History(seed)
        problems = history.run()
        if problems:
            broken[seed] = problems
        counts += history.world.faults
        rules = frozenset(right[:2] for right in rights.granted(history.plan))
        left = rights.unused(history.requests(), history.plan)
        unused[rules] = unused.get(rules, left) & left
        last = history.state()
        ends["restarts of a gang that count"] += last.get("restarts", 0)
        ends["restarts of a gang after disruptions"] += last.get("disruptions", 0)
        ends[f"ended: {last.get('reason')}"] += 1

    report(counts, ends, broken)
    assert {} == broken
    # Six kinds of Roles: with a StatefulSet or without; the set is kept, deleted or owned.
    assert [set()] * 6 == list(unused.values())


def report(counts, ends, broken):
    """Print what has happened in all histories."""
    lines = [("histories", HISTORIES), ("seeds", f"{SEED} to {SEED + HISTORIES - 1}")]
    lines += [("faults injected", counts.total()), *sorted(counts.items())]
    lines += [*sorted(ends.items()), ("invariants broken", len(broken))]
    print()
    for name, count in lines:
        print(f"| {name:70} | {count:>14} |")
