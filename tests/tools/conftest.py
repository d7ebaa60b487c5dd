"""The real programs of other projects, which `.ci/tools` builds from their Go modules."""

import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("MLGEN_TOOLS")


@pytest.fixture(scope="session")
def tool():
    """Find a program: in the folder MLGEN_TOOLS, where it then must be, or else on the PATH."""

    def tool(name):
        found = shutil.which(name, path=FOLDER)
        if found is None and FOLDER:
            pytest.fail(f"{FOLDER} has no {name}")
        if found is None:
            pytest.skip(f"there is no {name}; `.ci/tools DIR` builds it, MLGEN_TOOLS=DIR names it")
        return found

    return tool


@pytest.fixture(scope="session")
def environment():
    """An environment in which these programs find mlgen."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}
