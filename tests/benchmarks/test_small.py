"""Each benchmark runs in a small size. No test asserts a time."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CLUSTER = ("first_step", "nodes", "restarts")
OTHERS = (
    "__main__",
    "chart",
    "installed",
    "measure",
    "shapes",
    "training_operator",
    Path(__file__).stem,
    *CLUSTER,
)
NAMES = sorted({file.stem for file in FOLDER.glob("*.py")} - {*OTHERS})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_a_table(name):
    command = [sys.executable, str(FOLDER), "--small", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    machine, title, *_ = filter(None, done.stdout.splitlines())
    assert machine.startswith("mlgen, version ")
    assert title.startswith(f"{name}: ")
    assert "\n| " in done.stdout or "\nskipped: " in done.stdout


def test_an_unknown_benchmark_is_rejected():
    command = [sys.executable, str(FOLDER), "coldd"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "NAME: " in done.stderr
