"""A pytest plugin for `mutmut run`, which runs a few tests for each of thousands of mutants.

Only [tool.mutmut] in pyproject.toml loads it. A run is ten times as fast: mutmut forks from a
process that has imported everything, only the requested tests are collected, and goldens are read
as plain files. syrupy would read all of them at the start of every run.
"""

import importlib
import os
import pkgutil
import sys
from functools import cache
from pathlib import Path

import pytest
from syrupy.extensions.amber.serializer import AmberDataSerializer

import mlgen

MUTANT = os.environ.get("MUTANT_UNDER_TEST")
"""Set by mutmut: the name of the mutant, or empty in the process that it forks from."""


@cache
def texts_of(file):
    """Return the texts in a file of syrupy, by test."""
    return {each.name: each.data for each in AmberDataSerializer.read_file(str(file))}


class PlainSnapshot:
    """Compares a text with syrupy's file for the test, or with its part of a file for all tests."""

    def __init__(self, test, extension=None):
        self.test, self.extension, self.count = test, extension, 0

    def use_extension(self, extension):
        return PlainSnapshot(self.test, extension())

    def __eq__(self, text):
        name = self.test.name.replace("/", "_") + (f".{self.count}" if self.count else "")
        self.count += 1
        folder = self.test.path.parent / "__snapshots__" / self.test.path.stem
        if self.extension:
            file = folder / f"{name}.{self.extension.file_extension}"
            return file.read_text() == self.extension.serialize(text)
        return texts_of(folder.with_suffix(".ambr"))[name] == AmberDataSerializer.serialize(text)

    __hash__ = None


@pytest.fixture
def snapshot(request):
    return PlainSnapshot(request.node)


def pytest_pycollect_makeitem(collector, name):
    """Skip test functions that are not named in an argument."""
    words = [word.partition("::") for word in collector.config.args]
    names = {test.partition("[")[0] for _, _, test in words}
    return None if not all(names) or name in names else []


def pytest_configure(config):
    """Keep the tests of the packages on the command line of mutmut, and the goldens."""
    packages = {word.split(".")[1] for word in sys.argv if word.startswith("mlgen.")}
    folders = [word.split("/")[1] for word in config.args]
    config.args = [
        word
        for word, folder in zip(config.args, folders, strict=True)
        if not packages or folder in packages or folder.startswith("test_")
    ]
    if MUTANT == "":
        prepare()


def prepare():
    """Import everything and render once, so that forks do not have to. Then clear the caches."""
    for module in pkgutil.walk_packages(mlgen.__path__, "mlgen."):
        if module.name != "mlgen.__main__":
            importlib.import_module(module.name)
    for name in ("mpi-ssh", "resources/kubeflow-tfjob-v1"):
        mlgen.render(Path(__file__).parent.parent / f"fixtures/{name}.yaml")
    for name, module in sys.modules.items():
        if name.startswith("mlgen.") and not name.startswith("mlgen.objects."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
