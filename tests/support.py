"""Where the project's files are, for tests that walk over them."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "fixtures").glob("*.yaml"))
"""Job files."""

RESOURCES = sorted((ROOT / "fixtures/resources").glob("*.yaml"))
"""Custom resources of the operators: `<dialect>-<kind>-<version>.yaml`, or `…-<what>.yaml`."""
