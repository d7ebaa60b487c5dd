"""Lets the tests of this folder test the modules in an archive instead of those of the checkout.

A plugin of pytest: `-p runtime.archived`, with the archive in MLGEN_ARCHIVE. As in a pod, there is
no other module of mlgen, so it also works with Python 3.9.
"""

import os
import runpy
import sys
import zipfile

PATH = os.environ["MLGEN_ARCHIVE"]
SOURCE = runpy.run_path(PATH)["Source"](zipfile.ZipFile(PATH).read("source").decode())
sys.meta_path.insert(0, SOURCE)

from runtime import rights  # noqa: E402 - it imports a module of the archive

rights.missing = lambda *_: set()
