"""The archive of the supervisor: its modules, and the same program in fewer bytes."""

import ast
from functools import cache
from itertools import combinations

import archives
import pytest
from support import ROOT

from mlgen.objects.supervisor import FEATURES, archive

RUNTIME = ROOT / "mlgen/runtime"
MODULES = sorted(path.stem for path in RUNTIME.glob("*.py") if path.stem != "__init__")
SETS = [used for count in range(4) for used in combinations(FEATURES, count)]


def tree(text):
    """The program in a text, without docstrings, and the line of each statement."""
    found = ast.parse(text)
    texts = (node for node in ast.walk(found) if isinstance(node, ast.Expr))
    for node in texts:
        if isinstance(node.value, ast.Constant):
            node.value = ast.Constant("")
    lines = [node.lineno for node in ast.walk(found) if isinstance(node, ast.stmt)]
    return ast.dump(found), lines


@cache
def contents():
    """The text of each module in the archives, by path: in all of them, it is the same."""
    texts = {}
    for used in SETS:
        for step in (False, True):
            found = archives.source(archive(archives.plan(used), step=step))
            assert found == found | {path: texts.get(path, found[path]) for path in found}
            texts |= found
    return texts


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"__main__"}))
def test_a_module_is_the_same_program_in_the_same_lines(module):
    text = contents()[f"mlgen/runtime/{module}.py"]

    assert tree((RUNTIME / f"{module}.py").read_text()) == tree(text)
    assert "  # " not in text


def test_features_and_the_step_add_their_modules():
    least = archives.modules(archive(archives.plan()))
    every = archives.modules(archive(archives.plan(FEATURES)))
    step = archives.modules(archive(archives.plan(), step=True))

    features = {"gate", "in_place", "last_log", "progress", "reports", "server", "stall"}
    assert features == every - least
    assert {"attempt", "step"} == step - least
    assert {"__main__", "attempt", "step"} == set(MODULES) - every


def test_the_archive_of_a_gang_restart_is_small():
    assert len(archive(archives.plan())) * 4 / 3 < 42_000
