"""Starts the program in the archive of a job: `python3 supervisor.pyz`.

The archive has this file and `source`: the modules of the program, each after a form feed and its
path. The first one is started. `unzip -p supervisor.pyz source` prints them. They have no comments
and docstrings, but the line numbers of mlgen's own files.
"""

from __future__ import annotations

import runpy
import sys
import zipfile
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

PACKAGES = ("mlgen", "mlgen.runtime")


class Source(MetaPathFinder, InspectLoader):
    """Imports the modules of a source.

    Args:
        text: the source.
    """

    def __init__(self, text: str) -> None:
        parts = [part.partition("\n") for part in text.split("\f")[1:]]
        self.paths = {path[: -len(".py")].replace("/", "."): path for path, _, _ in parts}
        self.texts = {path: module for path, _, module in parts}
        self.paths["__main__"] = next(iter(self.texts))  # for tracebacks

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """Return how to import a module; None if it is not in the source."""
        is_package = fullname in PACKAGES
        known = is_package or fullname in self.paths
        return ModuleSpec(fullname, self, is_package=is_package) if known else None

    def is_package(self, fullname: str) -> bool:
        """Return whether a name is that of a package."""
        return fullname in PACKAGES

    def get_source(self, fullname: str) -> str:
        """Return the text of a module. Tracebacks show its lines."""
        return self.texts.get(self.paths.get(fullname, ""), "")

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of a module."""
        path = self.paths.get(fullname, fullname)
        return compile(self.get_source(fullname), path, "exec", dont_inherit=True)


if __name__ == "__main__":  # pragma: no cover - tested in a process of its own
    with zipfile.ZipFile(Path(__file__).parent) as archive:
        found = Source(archive.read("source").decode())
    sys.meta_path.insert(0, found)
    runpy.run_module(next(iter(found.paths)), run_name="__main__", alter_sys=True)
