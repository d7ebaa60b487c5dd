"""Helpers of the benchmarks: pairs of processes, ratios, tables, and a line about the machine.

Elapsed time depends on the load of a machine, so processes are compared by CPU time, in turns
(A B A B …), and by their medians. Ratios are more portable than times, so tables start with ratios.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path[1:1] = [str(Path(__file__).parent.parent)]

from parts.programs import ROOT, MissingError, program  # noqa: E402, F401 - for all benchmarks

MLGEN = [str(Path(sys.executable).with_name("mlgen"))]
"""The command `mlgen` of this Python's environment."""


class Cost(NamedTuple):
    """CPU time, elapsed time and memory of a process."""

    cpu: float
    """Seconds of user and system time, of the process and its children."""
    elapsed: float
    """Seconds."""
    peak: float
    """The largest resident set of one process, in MB."""


def cost(command, stdin=None, **options):
    """Return the Cost of a command, which must succeed. Discards its output.

    `stdin` is a path or None. The options are passed to `subprocess.Popen`.
    """
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
    with open(stdin or os.devnull, "rb") as source:  # noqa: PTH123 - None is no path
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=source, **options)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss / unit)


def compared(runs, **candidates):
    """Map the names of candidates that run in turns to their median Costs.

    A candidate is a function without arguments that returns a Cost. Each runs once before, so that
    files are in the page cache.
    """
    for candidate in candidates.values():
        candidate()
    turns = [{name: run() for name, run in candidates.items()} for _ in range(runs)]
    return {
        name: Cost(*map(median, zip(*(turn[name] for turn in turns), strict=True)))
        for name in candidates
    }


def ratio(value, base):
    """Return `value / base` as text, with a digit after the point below 10."""
    quotient = value / base
    return f"{quotient:.0f}x" if quotient >= 10 else f"{quotient:.1f}x"


def number(value, digits=3):
    """Return a number as text, with significant digits and thousands separators: 0.0123, 12,300."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.{digits}g}"


def table(columns, *rows):
    """Print a Markdown table. The first column is text, and the others are aligned right."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for first, *others in (cells[0], rule, *cells[1:]):
        aligned = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("|", " | ".join([first.ljust(widths[0]), *aligned]), "|")
    print(flush=True)


def machine():
    """Return the machine and the versions that the figures depend on, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    version = subprocess.run([*MLGEN, "--version"], check=True, stdout=subprocess.PIPE, text=True)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    cpu = (models or [platform.machine()])[0]
    return ", ".join([version.stdout.strip(), python, platform.system(), f"{cores} x {cpu}"])


def tool(name, hint="`.ci/tools DIR` builds it, MLGEN_TOOLS=DIR names it"):
    """Return the path of another project's program."""
    return program(name, hint)


def arguments(text, argv):
    """Return the parsed arguments; `small` selects a quick run."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="run small sizes once, as a test does")
    return parser.parse_args(argv)


def script(main):
    """Run the `main(argv)` of a benchmark as a program."""
    print(machine(), end="\n\n", flush=True)
    try:
        main(sys.argv[1:])
    except MissingError as missing:
        sys.exit(f"skipped: {missing}")
