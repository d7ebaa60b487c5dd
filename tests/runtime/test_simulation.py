"""Thousands of random histories; `MLGEN_HISTORIES=20000 MLGEN_SEED=7` plays more, and others."""

import os

from runtime.history import History

HISTORIES = int(os.environ.get("MLGEN_HISTORIES", "300"))
SEED = int(os.environ.get("MLGEN_SEED", "0"))


def test_every_history_ends_as_the_model_says():
    broken = {}
    for seed in range(SEED, SEED + HISTORIES):
        problems = History(seed).run()
        if problems:
            broken[seed] = problems

    assert {} == broken
