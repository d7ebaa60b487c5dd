"""The archive with the supervisor's program, as a pod starts it, in a process of its own."""

import zipfile
from io import BytesIO

LOADER = """\
import pathlib, runpy, sys, zipfile
path = sys.argv.pop(1)
text = zipfile.ZipFile(path).read("source").decode()
source = runpy.run_path(path)["Source"](text)
sys.meta_path.insert(0, source)
"""
"""The start of a program that imports the modules of the archive which is its first argument."""

START = 'runpy.run_module(next(iter(source.paths)), run_name="__main__", alter_sys=True)\n'
"""The end of such a program: it starts the archive."""


def plan(features=()):
    """Return a plan in which of FEATURES only these are set."""
    from mlgen.objects.supervisor import FEATURES  # not in the program: see runtime/archived.py
    from mlgen.runtime.plan import Plan

    return Plan("a", ())._replace(**{name: name in features for name in FEATURES})


def source(content):
    """Return the texts of the modules in an archive by path."""
    from mlgen.runtime.__main__ import Source  # not in the program: see runtime/archived.py

    return Source(zipfile.ZipFile(BytesIO(content)).read("source").decode()).texts


def modules(content):
    """Return the names of the modules in an archive, in its order, without packages."""
    return {path.rpartition("/")[2].removesuffix(".py"): None for path in source(content)}.keys()
