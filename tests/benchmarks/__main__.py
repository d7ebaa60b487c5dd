"""Run all benchmarks, or some: `python tests/benchmarks [--small] [NAME...]`.

Prints Markdown tables, ratios first, with the machine and the versions. `--small` runs small sizes
once, as a test does, and omits benchmarks that need a cluster.
"""

import importlib
import sys
from pathlib import Path

from measure import MissingError, machine

CLUSTER = ("first_step", "nodes", "restarts")
"""Benchmarks that run last, because they need a cluster and take minutes."""

FOLDER = Path(__file__).parent


def names():
    """Return the names of the modules with `main(argv)`, in the order in which they run."""
    files = [file for file in FOLDER.glob("[!_]*.py") if "\ndef main(argv)" in file.read_text()]
    return sorted((file.stem for file in files), key=lambda name: (name in CLUSTER, name))


def main(argv):
    options = [word for word in argv if word.startswith("-")]
    everywhere = [name for name in names() if not (options and name in CLUSTER)]
    wanted = [word for word in argv if word not in options] or everywhere
    if {*options} - {"--small"} or {*wanted} - {*names()}:
        sys.exit(f"{__doc__}\nNAME: {', '.join(names())}")
    print(machine(), end="\n\n", flush=True)
    for name in wanted:
        benchmark = importlib.import_module(name)
        print(f"{name}: {benchmark.__doc__.partition(chr(10))[0]}", end="\n\n", flush=True)
        try:
            benchmark.main(options)
        except MissingError as missing:
            print(f"skipped: {missing}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
