"""Each Python that mlgen supports, and that is found here, renders the goldens byte for byte."""

import os
import subprocess
from pathlib import Path

import pytest
from support import FIXTURES, ROOT

GOLDENS = ROOT / "tests/__snapshots__/test_golden"


def interpreter(version):
    """A Python of this version that runs: on the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in [f"python{version}", *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]:
        try:
            subprocess.run([found, "--version"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return found
    return None


@pytest.mark.pythons
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_same_bytes_on_every_python(version, tmp_path):
    found = interpreter(version)
    if not found:
        pytest.skip(f"there is no Python {version} here")
    subprocess.run([found, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", ROOT], check=True)

    for fixture in FIXTURES:
        done = subprocess.run(
            [python, "-m", "mlgen", "render", fixture],
            check=True,
            capture_output=True,
            cwd=tmp_path,
        )
        golden = GOLDENS / f"test_manifests[{fixture.stem}].yaml"

        assert done.stdout == golden.read_bytes()
