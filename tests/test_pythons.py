"""Each supported Python renders the same bytes as the one of the tests, which has goldens."""

import os
import subprocess
from pathlib import Path

import pytest
from support import FIXTURES, ROOT, missing, rendered

RENDER = """
import pathlib, sys
from mlgen.cli import main
for file in sys.argv[2:]:
    output = pathlib.Path(sys.argv[1], pathlib.Path(file).name)
    main(["render", file, "-o", str(output)], standalone_mode=False)
"""
"""A program that renders files into a folder, in one process."""


def interpreter(version):
    """Return a working Python of this version, from the PATH or pyenv, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for program in [f"python{version}", *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]:
        try:
            subprocess.run([program, "--version"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return program
    return None


@pytest.mark.pythons
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_python_version_renders_the_same_bytes(version, tmp_path):
    program = interpreter(version)
    if not program:
        missing(f"there is no Python {version} here")
    subprocess.run([program, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q"]
    pins = ROOT / ".ci/pins/build.txt"
    subprocess.run([*install, "--no-deps", "--require-hashes", "-r", pins], check=True)
    subprocess.run([*install, "--no-index", "--no-build-isolation", ROOT], check=True)

    command = [python, "-c", RENDER, tmp_path, *FIXTURES]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    for fixture in FIXTURES:
        assert (tmp_path / fixture.name).read_text() == rendered(fixture)

    (tmp_path / "mlgen.toml").write_text('namespace = "training"\n')  # Python 3.10 cannot read TOML
    command = [python, "-m", "mlgen", "render", FIXTURES[0]]
    result = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert b"namespace: training\n" in result.stdout
