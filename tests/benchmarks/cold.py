"""CPU time and memory of whole mlgen calls, compared with `helm template` and with Python's start.

mlgen is installed from a wheel. It renders a TensorFlow job with parameter servers; Helm renders a
chart with objects of the same kinds (`chart.py`). Calls that print little are compared with
`python -c pass`. The last table lists how the import time of a render is spent.
"""

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import chart
from installed import installed
from measure import (
    ROOT,
    MissingError,
    arguments,
    compared,
    cost,
    number,
    ratio,
    script,
    table,
    tool,
)

from mlgen.objects.supervisor import archive
from mlgen.runtime.plan import Plan

JOB = ROOT / "fixtures/tensorflow-ps.yaml"
RESOURCE = ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml"

TARGETS = {"mlgen render": 2.5, "mlgen --help": 4}
"""The targets, as ratios to the first row of the table."""


def measured(runs, commands):
    """Print a table that compares commands, each with its environment, with the first one."""
    base, *_ = commands
    costs = compared(
        runs,
        **{
            name: lambda words=words, more=more: cost(words, env={**os.environ, **more})
            for name, (words, more) in commands.items()
        },
    )
    rows = []
    for name, one in costs.items():
        target = f"{TARGETS[name]}x" if name in TARGETS else ""
        figures = [number(1000 * one.cpu), number(1000 * one.elapsed), number(one.peak)]
        rows.append([name, ratio(one.cpu, costs[base].cpu), target, *figures])
    table(["", "ratio", "target", "CPU ms", "ms", "MB"], *rows)


def imports(python, runs):
    """Print the milliseconds that a render takes to import each package."""
    command = [python, "-X", "importtime", python.with_name("mlgen"), "render", JOB]
    least, count = {}, Counter()
    for _ in range(runs):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for line in done.stderr.splitlines()[1:]:
            own, _, name = line.removeprefix("import time:").split("|")
            least[name.strip()] = min(int(own), least.get(name.strip(), int(own)))
    groups = Counter()
    for name, microseconds in least.items():
        first, _, rest = name.partition(".")
        group = f"mlgen.{rest.partition('.')[0]}" if first == "mlgen" else "Python's own"
        groups[group] += microseconds
        count[group] += 1
    whole = sum(groups.values())
    rows = [
        [name, f"{microseconds / whole:.0%}", number(microseconds / 1000), count[name]]
        for name, microseconds in groups.most_common(12)
    ]
    table(["imported", "share", "ms", "modules"], *rows)


def main(argv):
    small = arguments(__doc__, argv).small
    runs = 1 if small else 25
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = installed(folder)
        mlgen = python.with_name("mlgen")
        chart.write(folder / "chart", archive(Plan("job", ("worker",))))
        nothing = {"python -c pass": ([python, "-c", "pass"], {})}
        renders = {
            "mlgen render": ([mlgen, "render", JOB], {}),
            "of a TFJob": ([mlgen, "render", RESOURCE], {}),
            "with --quiet": ([mlgen, "render", JOB, "--quiet"], {}),
        }
        words = {"COMP_WORDS": "mlgen render --", "COMP_CWORD": "2"}
        others = {
            "mlgen --help": ([mlgen, "--help"], {}),
            "mlgen render --help": ([mlgen, "render", "--help"], {}),
            "completion": ([mlgen], {"_MLGEN_COMPLETE": "bash_complete", **words}),
            "mlgen frameworks": ([mlgen, "frameworks"], {}),
        }
        try:
            helm = {"helm template": ([tool("helm3"), "template", "mnist", folder / "chart"], {})}
        except MissingError as missing:
            print(f"{missing}\n")
            helm = nothing
        measured(runs, helm | renders)
        measured(runs, nothing | others)
        imports(python, runs)


if __name__ == "__main__":
    script(main)
