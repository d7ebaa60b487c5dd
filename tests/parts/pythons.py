"""Folders with an old Python and old packages, for pods to mount. No image contains them.

Each is a copy of a Python of pyenv, in ~/.cache/mlgen-parts/pythons.
"""

import json
import shutil
import subprocess

from parts.programs import HOME, MissingError
from test_pythons import interpreter

MOUNTED = "/python"
VARIABLES = {"PATH": f"{MOUNTED}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{MOUNTED}/lib"}


def settings(python, folders=()):
    """Return arguments of mlgen with which all pods of a job run a Python.

    Args:
        python: its folder.
        folders: other folders or files of this machine by path in the pods.
    """
    paths = {MOUNTED: python, **dict(folders)}
    mounts = {
        f"folder-{number}": {"mountPath": path, "hostPath": str(folder)}
        for number, (path, folder) in enumerate(paths.items())
    }
    values = {"spec.volumes": mounts, "spec.env": VARIABLES}
    return [
        word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")
    ]


def installed(name, version, *packages):
    """Return the folder of a Python with packages. The first call takes minutes.

    Args:
        name: the name of the folder.
        version: the version of Python, such as "3.6".
        packages: requirements with compatible versions.

    Raises:
        MissingError: the Python or a package is not available.
    """
    folder = HOME / "pythons" / name
    if folder.exists():
        return folder
    program = interpreter(version)
    if not program:
        raise MissingError(f"there is no Python {version}; pyenv builds it")
    prefix = subprocess.run(
        [program, "-c", "import sys; print(sys.base_prefix)"], check=True, capture_output=True
    )
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    without = shutil.ignore_patterns("test", "__pycache__", "*.a")
    shutil.copytree(prefix.stdout.decode().strip(), new, symlinks=True, ignore=without)
    # The pip of Python 3.6 does not support newer wheels, and pip 22 does not support Python 3.6.
    for words in (["--upgrade", "pip<22"], packages):
        command = ["nice", new / "bin/python3", "-m", "pip", "install", "-q"]
        done = subprocess.run([*command, *words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise MissingError(f"{words[-1]} cannot be had: {done.stderr[-500:]}")
    new.rename(folder)
    return folder
