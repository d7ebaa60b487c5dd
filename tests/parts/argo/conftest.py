"""A private cluster for each version of Argo Workflows that `build` makes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from parts.private import private
from parts.programs import CLUSTER, HOME, SHARED, MissingError
from parts.skips import available

VERSIONS = ("3.6.7", "3.7.18")

CONTROLLER = """#!/bin/sh
until kubectl get workflows -A >/dev/null 2>&1; do sleep 1; done
exec {programs}/workflow-controller "$@" --executor-image {image}
"""
"""It exits if its resources are not served yet. The last `--executor-image` takes effect."""

IMPORT = f"""
python3 {SHARED}/cluster/image.py "$1" --tag "$2" --entrypoint argoexec |
  ctr -a /run/mlgen-cluster/containerd.sock -n k8s.io images import -
"""


@pytest.fixture(scope="session", params=VERSIONS)
def programs(request):
    """The folder with workflow-controller, argoexec and argo of a version."""

    def find():
        folder = HOME / f"bin/argo-{request.param}"
        if not (folder / "argo").exists():
            builds = f"{Path(__file__).parent}/build {request.param}"
            raise MissingError(f"there is no Argo {request.param}; {builds} builds it")
        return folder

    return available(find)


@pytest.fixture(scope="session")
def cluster(programs, started, tmp_path_factory):
    """A cluster with this version of the controller, the executor and the command `argo`."""
    folder = tmp_path_factory.mktemp("argo")
    controller, root = folder / "workflow-controller", folder / "root"
    image = f"mlgen.test/argoexec:{programs.name.removeprefix('argo-')}"
    controller.write_text(CONTROLLER.format(programs=programs, image=image))
    controller.chmod(0o755)
    shutil.copytree(CLUSTER / "images/argoexec", root, symlinks=True)
    shutil.copy(programs / "argoexec", root / "bin/argoexec")
    own = {"workflow-controller": controller, "argo": programs / "argo"}
    created = started(private(programs=own))
    created.run("sh", "-c", IMPORT, "import", root, image, stdout=subprocess.DEVNULL)
    return created
