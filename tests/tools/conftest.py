"""What the tests with real programs of other projects share."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def environment():
    """An environment in which these programs find mlgen."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}
