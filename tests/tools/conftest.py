"""Fixtures for tests that run the real Helm, kustomize and kubectl."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def environment():
    """Environment variables with mlgen on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}
