"""A private cluster with the Argo Workflows that `build` makes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from parts.private import private
from parts.programs import CLUSTER, HOME, SHARED, MissingError
from parts.skips import available

PROGRAMS = HOME / "bin/argo-3.7.18"
IMAGE = "mlgen.test/argoexec:3.7.18"

CONTROLLER = f"""#!/bin/sh
until kubectl get workflows -A >/dev/null 2>&1; do sleep 1; done
exec {PROGRAMS}/workflow-controller "$@" --executor-image {IMAGE}
"""
"""It exits if its resources are not served yet. The last `--executor-image` takes effect."""

IMPORT = f"""
python3 {SHARED}/cluster/image.py "$1" --tag {IMAGE} --entrypoint argoexec |
  ctr -a /run/mlgen-cluster/containerd.sock -n k8s.io images import -
"""


@pytest.fixture(scope="session")
def programs():
    """The folder with workflow-controller, argoexec and argo."""

    def find():
        if not (PROGRAMS / "argo").exists():
            raise MissingError(f"there is no Argo 3.7.18; {Path(__file__).parent}/build builds it")
        return PROGRAMS

    return available(find)


@pytest.fixture(scope="session")
def cluster(programs, started, tmp_path_factory):
    """A cluster with this version of the controller, the executor and the command `argo`."""
    folder = tmp_path_factory.mktemp("argo")
    controller, root = folder / "workflow-controller", folder / "root"
    controller.write_text(CONTROLLER)
    controller.chmod(0o755)
    shutil.copytree(CLUSTER / "images/argoexec", root, symlinks=True)
    shutil.copy(programs / "argoexec", root / "bin/argoexec")
    own = {"workflow-controller": controller, "argo": programs / "argo"}
    created = started(private(programs=own))
    created.run("sh", "-c", IMPORT, "import", root, stdout=subprocess.DEVNULL)
    return created
