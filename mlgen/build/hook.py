"""A build hook of hatchling that adds `mlgen/prepared/` to a wheel."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Prepared(BuildHookInterface[Any]):
    """Generates the prepared modules from the source tree, in a temporary folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the modules to a wheel, but not to an editable install, where they would be stale."""
        if version != "standard":
            return
        self._folder = TemporaryDirectory()
        _write(self.root, self._folder.name)
        build_data["force_include"][self._folder.name] = "mlgen/prepared"

    def finalize(
        self,
        version: str,
        build_data: dict[str, Any],  # noqa: ARG002 - hatchling's signature
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """Remove the temporary folder."""
        if version == "standard":
            self._folder.cleanup()


def _write(root: str, folder: str) -> None:
    """Write the modules for the source tree `root` to a folder, without bytecode in the tree."""
    sys.path.insert(0, root)
    keeps_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        from mlgen.build import write

        write(Path(folder))
    finally:
        sys.dont_write_bytecode = keeps_bytecode
        sys.path.remove(root)
