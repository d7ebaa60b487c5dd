"""Every command renders or rejects the hostile files, within limits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "hostile.py"


@pytest.mark.slow
def test_every_command_bears_every_hostile_file(message):
    """The golden contains the output of each command. Check a new file there."""
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["flaws"] == []
    assert said["messages"] == message
