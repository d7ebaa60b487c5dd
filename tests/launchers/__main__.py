"""Kill jobs in many ways under every launcher, and compare their ends with the documentation.

    python tests/launchers

It needs the cluster of KUBECONFIG on this machine, and its images. `--only torchrun "pod deleted"`
runs the rows and columns with these names. The loss of a node needs a private cluster of two nodes:

    python tests/parts/private.py --kubernetes 1.37 --nodes 2 -- python tests/launchers --nodes

With `--in-place`, the jobs restart in their pods, which needs Kubernetes 1.36.

Each job must end as documented, with all its steps and the correct number of restarts. Prints a
line for each job, and a Markdown table: restarts/disruptions, and the seconds from the death until
all ranks train again.
"""

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from launchers.commands import LAUNCHERS
from launchers.deaths import DEATHS
from launchers.nodes import SecondNode
from launchers.play import Play, prepare, tools
from namespaces import temporary_namespace


def main():
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--in-place", action="store_true")
    wanted = parser.parse_args()
    rows = chosen(LAUNCHERS, wanted.only)
    columns = [each for each in chosen(DEATHS, wanted.only) if each.nodes == 1 + wanted.nodes]
    results = {}
    with (
        tempfile.TemporaryDirectory() as name,
        temporary_namespace(dict(os.environ)) as namespace,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        prepare(namespace)
        volumes = {row: tools(folder, row) for row in rows if row.library}
        plays = {
            (row, column): Play(
                namespace, folder / f"{row.name}-{column.name}", row, column, volumes.get(row)
            )
            for column in columns
            for row in rows
        }
        for play in plays.values() if wanted.in_place else ():
            play.restart_in_place()
        # A node is lost for all jobs at once.
        for batch in [[each] for each in columns] if wanted.nodes else [columns]:
            chosen_plays = {key: play for key, play in plays.items() if key[1] in batch}
            node = wanted.nodes and SecondNode(os.environ["MLGEN_CLUSTER_HOME"], len(chosen_plays))
            for play in chosen_plays.values():
                play.node = node
            with ThreadPoolExecutor(len(rows) if node else wanted.at_once) as pool:
                results |= zip(chosen_plays, pool.map(played, chosen_plays.values()), strict=True)
            if node:
                node.back.join()
    print("", *table(rows, columns, results), sep="\n")
    sys.exit(any(result.problems for result in results.values()))


def chosen(items, names):
    """Return the items with these names; all items if no name matches."""
    return [item for item in items if item.name in names] or [*items]


def played(play):
    try:
        result = play.run()
    except AssertionError as error:
        result = play.result()
        result.problems.append(str(error))
    title = f"{play.launcher.name}, {play.death.name}"
    text = "\n".join(["DEVIATES", *result.problems]) if result.problems else "as documented"
    print(f"{title}: {cell(result)}, {result.took:.0f} s in all: {text}", flush=True)
    if not result.problems:
        play.namespace.kubectl(
            "delete", "jobs,statefulsets", "-l", f"mlgen.dev/job={play.job}", "--wait=false"
        )
    return result


def table(rows, columns, results):
    """Yield the lines of a Markdown table."""
    yield f"| launcher | {' | '.join(column.name for column in columns)} |"
    yield "| --- |" + " --- |" * len(columns)
    for row in rows:
        cells = [cell(results[row, column]) for column in columns]
        yield f"| {row.name} | {' | '.join(cells)} |"


def cell(result):
    bad = "**!** " if result.problems else ""
    seconds = f", {result.seconds:.0f} s" if result.seconds is not None else ""
    return f"{bad}{result.end} {result.restarts}/{result.disruptions}{seconds}"


if __name__ == "__main__":
    main()
