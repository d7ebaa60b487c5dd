"""Paths of programs of other projects: built by `../shared/parts/build`, or on the PATH."""

import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SHARED = ROOT.parent / "shared"
CONTROL_PLANE = SHARED / "parts" / "control-plane"
HOME = Path(os.environ.get("MLGEN_PARTS_HOME") or Path.home() / ".cache/mlgen-parts")
CLUSTER = Path(os.environ.get("MLGEN_CLUSTER_HOME") or Path.home() / ".cache/mlgen-cluster")
KUBERNETES = {"1.34": CLUSTER / "bin", "1.37": HOME / "bin/kube-1.37"}
"""Folders with the programs of a control plane, by version."""


class MissingError(Exception):
    """A program is missing. The text names it, in one line."""


def program(name, hint):
    """Return the path of a program: in MLGEN_TOOLS, in the built parts, or on the PATH.

    Raises:
        MissingError: there is none; the hint describes how to get it.
    """
    folders = (os.environ.get("MLGEN_TOOLS"), HOME / "bin", CLUSTER / "bin", None)
    for folder in folders:
        found = shutil.which(name, path=folder and str(folder))
        if found:
            return found
    raise MissingError(f"there is no {name}; {hint}")


def part(name, part=None):
    """Return the path of a program that `../shared/parts/build PART` makes."""
    return program(name, f"`../shared/parts/build {part or name}` builds it")


def kubernetes(version):
    """Return the folder with a control plane's programs for a version, such as "1.37"."""
    folder = KUBERNETES[version]
    if not (folder / "kube-apiserver").exists():
        build = "cluster/up" if version == "1.34" else f"parts/build kubernetes-{version}"
        raise MissingError(f"there is no Kubernetes {version}; `../shared/{build}` builds it")
    return folder


def module(name):
    """Return the folder of a Go module, such as `sigs.k8s.io/kwok@v0.8.0`."""
    command = [program("go", "install Go"), "mod", "download", "-json", name]
    try:
        done = subprocess.run(command, check=True, capture_output=True, cwd="/")
    except subprocess.CalledProcessError as error:
        raise MissingError(f"{name} cannot be had: {error.stderr[-200:]}") from error
    return Path(json.loads(done.stdout)["Dir"])
