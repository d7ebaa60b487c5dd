"""The growth of time and memory with the size of a text, for every command and many shapes.

Each row is a command on one of the shapes in shapes.py, at n, 2n and 4n. The first columns are the
exponents of the growth from 2n to 4n: 1 is linear, 2 quadratic, and less than 1 means that a
constant part dominates. Each run is a fork of one process that has imported all modules, so imports
are not counted. Memory is counted in addition to that process.
"""

import os
import resource
import sys
import tempfile
import time
from contextlib import contextmanager
from math import log2
from pathlib import Path
from typing import NamedTuple

from measure import Cost, arguments, number, script, table
from shapes import COMMANDS, SHAPES, resource_list

FACTORS = (1, 2, 4)

SMALL = 100
"""The factor by which a test reduces the sizes of the shapes."""

LIMITS = {resource.RLIMIT_AS: 4 << 30, resource.RLIMIT_CPU: 120}
"""Limits of a run in bytes and seconds, for shapes that grow too fast."""

WORDS = {
    "argocd": ("argocd", "generate"),
    "convert": ("convert", "job.yaml"),
    "diff": ("diff", "old.yaml", "new.yaml"),
    "helm": ("helm-post-render",),
    "krm": ("krm",),
    "verify": ("verify", "old.yaml"),
}
"""The words of each command that has another form than `mlgen COMMAND job.yaml`."""

ALSO = {"verify": ("old",), "diff": ("old", "new")}
"""The manifests that a command reads: as rendered, or with another image."""


def import_all():
    """Import the modules of all commands, so that forks share them."""
    import click  # noqa: F401
    import jinja2  # noqa: F401
    import jsonschema  # noqa: F401
    import yaml  # noqa: F401

    from mlgen import cli, dialects, frameworks

    for name in cli.COMMANDS:
        cli.main.get_command(None, name)
    for name in frameworks.names():
        frameworks.get(name)
    for name in dialects.names():
        dialects.get(name)


class Run(NamedTuple):
    """A command line: its words after `mlgen`, the folder in which it runs, and its stdin."""

    words: tuple[str, ...]
    folder: Path
    stdin: Path


@contextmanager
def run_of(shape, count, command):
    """Yield the Run of a command on a shape of some size. Its files exist only in the context."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = shape.text(count)
        file = folder / "job.yaml"
        file.write_text(resource_list(text) if command == "krm" and shape.wrapped else text)
        stdin = file if command in ("helm", "krm") else Path(os.devnull)
        if command in ALSO:
            old = folder / "old.yaml"
            os.waitpid(call(Run(("render", "job.yaml", "-o", "old.yaml"), folder, stdin)), 0)
            manifests = old.read_text() if old.exists() else "---\n"
            (folder / "new.yaml").write_text(manifests.replace("example/big:1", "example/big:2"))
        yield Run(WORDS.get(command, (command, "job.yaml")), folder, stdin)


def call(run, *, limited=True):
    """Start a Run in a fork, within `LIMITS` or not, and return its process id."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.chdir(run.folder)
        for target, path, flags in ((0, run.stdin, os.O_RDONLY), (1, os.devnull, os.O_WRONLY)):
            os.dup2(os.open(path, flags), target)
        os.dup2(1, 2)
        for limit, value in LIMITS.items() if limited else ():
            resource.setrlimit(limit, (value, value))
        from mlgen.__main__ import main

        sys.argv = ["mlgen", *run.words]
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        os._exit(status)


def measured(run):
    """Return the Cost of a Run, and True unless it crashed or exceeded a limit."""
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    _, status, usage = os.wait4(call(run), 0)
    elapsed = time.perf_counter() - started
    unit = 1024**2 if sys.platform == "darwin" else 1024
    peak = max(usage.ru_maxrss - base, 0) / unit
    cost = Cost(usage.ru_utime + usage.ru_stime, elapsed, peak)
    return cost, os.waitstatus_to_exitcode(status) in (0, 1, 3)


def exponent(values, least):
    """Return the exponent of the growth of the last two values; "-" if they are too small."""
    before, last = values[-2:]
    return f"{log2(last / before):.1f}" if before > least else "-"


def row(shape, command, sizes):
    """Return a row of the table."""
    costs = []
    for size in sizes:
        with run_of(shape, size, command) as run:
            cost, has_ended = measured(run)
        costs.append(cost)
        if not has_ended:
            return [f"{command}, {shape.name}", "failed", "", f"{size:,}", *["-"] * len(sizes)]
    seconds, peaks = ([getattr(cost, name) for cost in costs] for name in ("cpu", "peak"))
    growth = [exponent(seconds, 0.05), exponent(peaks, 5)]
    cells = [f"{number(cost.cpu, 2)} s, {cost.peak:.0f} MB" for cost in costs]
    return [f"{command}, {shape.name}", *growth, f"{sizes[-1]:,}", *cells]


def main(argv):
    wanted = [word for word in argv if not word.startswith("-")]
    small = arguments(__doc__, [word for word in argv if word not in wanted]).small
    import_all()
    for command in (*COMMANDS, "convert"):
        shapes = [shape for shape in SHAPES if command in shape.commands]
        if small:
            shapes = shapes[-1:]
        sizes = {
            s: [max(s.size // (SMALL if small else 1), 1) * f for f in FACTORS] for s in shapes
        }
        rows = [
            row(shape, command, sizes[shape])
            for shape in shapes
            if not wanted or any(word in f"{command}, {shape.name}" for word in wanted)
        ]
        if rows:
            table(["", "time", "memory", "4n", "n", "2n", "4n"], *rows)


if __name__ == "__main__":
    script(main)
