"""Paths of the project's files, and helpers for tests that run for each file."""

import os
import re
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "fixtures").glob("*.yaml"))
"""Job files."""

RESOURCES = sorted((ROOT / "fixtures/resources").glob("*.yaml"))
"""Custom resources of the operators: `<dialect>-<kind>-<version>[-<detail>].yaml`."""

FILES = [*FIXTURES, *RESOURCES]

SAMPLE = {ROOT / "fixtures" / name for name in (ROOT / "tests/sample.txt").read_text().split()}
"""The files of the everyday tests. Together they run the lines that all files run: sample.py."""

NEWER = sorted((ROOT / "fixtures").glob("kubernetes-*/*.yaml"))
"""Job files that need a newer Kubernetes than the default. The folder's name has its version."""


def missing(reason):
    """Skip a test. In CI with ../shared, where nothing may be missing, the test fails."""
    is_complete = os.environ.get("CI") == "true" and (ROOT.parent / "shared").exists()
    (pytest.fail if is_complete else pytest.skip)(reason)


def stem(value):
    return value if isinstance(value, str) else value.stem


def cases(files):
    """Return a parameter for each file. Files outside of the sample belong to the slow tests."""
    slow = [pytest.mark.slow]
    marks = {file: () if file in SAMPLE else slow for file in files}
    return [pytest.param(file, id=file.stem, marks=marks[file]) for file in files]


every_file = pytest.mark.parametrize("file", cases(FILES))


def apply(document, path, value):
    """Return a copy of a document with one value set, as `--set` sets it."""
    from mlgen.documents.overrides import Draft

    draft = Draft(document)
    draft.set(path, value)
    return draft.document


@cache
def golden(file):
    """Return the golden of a job file; "" for a new file (test_golden reports it).

    Custom resources have no golden. Their manifests are rendered.
    """
    if file in RESOURCES:
        return abridged(rendered(file))
    path = ROOT / f"tests/__snapshots__/test_golden/test_manifests[{file.stem}].yaml"
    return path.read_text() if path.exists() else ""


def rendered(file, form="yaml", **options):
    """Return the output of `mlgen render` for a file, run in the project's folder."""
    from mlgen import Options, validate
    from mlgen.output.manifests import text

    name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
    folder = Path.cwd()
    os.chdir(ROOT)
    try:
        return text(validate(name, Options(**options)).parts, form)
    finally:
        os.chdir(folder)


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_all(text):
    """Return the documents of a YAML text. libyaml reads it ten times as fast as PyYAML."""
    return list(yaml.load_all(text, LOADER))


MODULES = "|".join(file.stem for file in (ROOT / "mlgen/runtime").glob("*.py"))
MODULE = re.compile(rf"^( +)((?:{MODULES})\.py): \|\n(?:\1 .*\n|\n)+", re.MULTILINE)
"""A module of the supervisor in a ConfigMap."""


def abridged(text):
    """Return manifests without the text of the supervisor's program, as in goldens."""
    return MODULE.sub(r"\1\2: mlgen/runtime/\2\n", text)


TOTALS = re.compile(r"^(?:[\d,]+|no jobs)\b.*(?:problem|warning|job|\))s?\)?\n\Z", re.MULTILINE)
"""The last line of stderr: `2 files, 3 jobs, 1 other object (Secret), 2 problems (1 warning)`."""


def without_totals(text):
    """Return the stderr of a command without the numbers of files, jobs and problems."""
    return TOTALS.sub("", text)


def files_with(*patterns, without="(?!)"):
    """Run a test for each fixture with manifests that match all patterns, but not `without`."""
    files = [
        file
        for file in FILES
        if all(re.search(pattern, golden(file), re.MULTILINE) for pattern in patterns)
        and not re.search(without, golden(file), re.MULTILINE)
    ]
    assert files, f"no fixture renders {patterns}"
    return pytest.mark.parametrize("file", files, ids=stem)


VALUES = [None, {}, [], [None], "", "a\nb", 0, -1, True, 1.5, {"a": 1}, [[]], ["x"], {"": {}}]


def spoilt(objects, chance):
    """Remove or replace one value at a random place, and return the objects."""
    inner, steps = objects, []
    while isinstance(inner, (dict, list)) and inner and (len(steps) < 1 or chance.random() < 0.9):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        steps.append((inner, chance.choice(keys)))
        inner = inner[steps[-1][1]]
    holder, key = steps[-1]
    if chance.random() < 0.3:
        del holder[key]
    else:
        holder[key] = deepcopy(chance.choice(VALUES))  # without a copy, it may contain itself
    return objects
