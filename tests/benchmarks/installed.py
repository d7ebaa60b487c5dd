"""mlgen as users install it: from a wheel, with the parts that the build prepares."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from measure import ROOT


def installed(folder):
    """Install this checkout from a wheel into a new virtual environment in a folder.

    It uses the dependencies of the running Python, and downloads no packages. Returns the path of
    its Python. The command `mlgen` is in the same folder.
    """
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir"]
    subprocess.run([*build, folder, ROOT], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv")
    python = folder / "venv/bin/python"
    paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    packages = Path(sysconfig.get_path("purelib", vars=paths))
    dependencies = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    options = ["--quiet", "--no-deps", "--no-index", "--force-reinstall"]
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    subprocess.run([*pip, "install", *options, wheel], check=True, env=environment)
    return python
