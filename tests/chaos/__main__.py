"""Break a cluster while jobs train, and compare the results with docs/how/supervisor.md.

Each round runs a small job, next to a second job that must stay untouched. It kills the supervisor
or a part of the cluster at a moment that the seed chooses: while the job starts, trains, restarts
or ends. The part starts again some seconds later. Then the job must end as that page documents,
with all its steps, within the bound.

In the last rounds (`--lost`), a second node is lost forever with the whole job.

Run it in its own cluster:

    python tests/parts/private.py -- python tests/chaos

Prints a line for each round, the history of each round that deviates or is late, and a table.
`--only 7 12` plays these rounds again. With `--in-place`, the gangs restart in their pods, which
needs `--kubernetes 1.37`.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cluster import Cluster
from faults import FAULTS
from jobs import ENDS, GANGS, JOBS, RESTARTS, STARTS, TRAINS
from nodes import LostNode
from parts.private import PRIVATE
from play import Play
from rounds import calm, drawn, lost

MOMENTS = (STARTS, TRAINS, RESTARTS, ENDS)


def main():
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lost", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--in-place", action="store_true")
    wanted = parser.parse_args()
    if not os.environ.get("MLGEN_CLUSTER_HOME", "").startswith(str(PRIVATE)):
        sys.exit("breaks its cluster: run it by `python tests/parts/private.py`")
    cluster = Cluster(Path(os.environ["MLGEN_CLUSTER_HOME"]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cluster.mend()
    turns = drawn(wanted.rounds, wanted.seed, GANGS if wanted.in_place else JOBS)
    turns += [lost(wanted.rounds + each, wanted.seed) for each in range(1, wanted.lost + 1)]
    turns = [turn for turn in turns if not wanted.only or turn.number in wanted.only]
    times = {}
    for job in dict.fromkeys(turn.job for turn in turns):
        undisturbed = calm(job, wanted.seed)
        undisturbed.in_place = wanted.in_place
        play(cluster, undisturbed)
        if undisturbed.problems:
            sys.exit("a job does not even end as documented when nothing is broken")
        times[job] = undisturbed.seconds
    for turn in turns:
        turn.calm, turn.in_place = times[turn.job], wanted.in_place
        play(cluster, turn)
    print("", *table(turns), sep="\n")
    sys.exit(any(turn.problems for turn in turns))


def play(cluster, turn):
    """Play a round, and print its result."""
    print(f"round {turn.number}: {turn.title}: ", end="", flush=True)
    Play(cluster, turn).run()
    print(result(turn), flush=True)


def result(turn):
    """Return the result of a round as a line of text."""
    late = f", {turn.delay:.0f} of {turn.bound} s late" if turn.faults else ""
    times = f"{turn.seconds:.0f} s, {turn.broken:.0f} s broken{late}, {turn.memory} MB"
    lines = [f"as documented, {times}"]
    if turn.problems:
        lines = [f"DEVIATES (seed {turn.seed}), {times}", *turn.problems]
    is_late = turn.faults and turn.delay > turn.bound / 2
    return "\n    ".join([*lines, *(turn.history if turn.problems or is_late else [])])


def table(turns):
    """Yield the rows of a Markdown table: the results by fault and moment."""
    yield f"| fault | {' | '.join(MOMENTS)} | latest | MB |"
    yield "| --- |" + " --- |" * (len(MOMENTS) + 2)
    for fault in (*FAULTS, LostNode):
        hit = [turn for turn in turns if fault in turn.faults]
        if hit:
            cells = [cell([turn for turn in hit if turn.moment == each]) for each in MOMENTS]
            latest = max(hit, key=lambda turn: turn.delay / turn.bound)
            cells.append(f"{latest.delay:.0f} of {latest.bound} s")
            yield f"| {fault.name} | {' | '.join(cells)} | {max(turn.memory for turn in hit)} |"
    good = sum(not turn.problems for turn in turns)
    yield f"\n{good} of {len(turns)} rounds as documented"


def cell(turns):
    good = sum(not turn.problems for turn in turns)
    return f"{good} of {len(turns)}" if turns else ""


if __name__ == "__main__":
    main()
