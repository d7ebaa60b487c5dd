"""Where the project's files are, for tests that walk over them."""

from copy import deepcopy
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "fixtures").glob("*.yaml"))
"""Job files."""

RESOURCES = sorted((ROOT / "fixtures/resources").glob("*.yaml"))
"""Custom resources of the operators: `<dialect>-<kind>-<version>.yaml`, or `…-<what>.yaml`."""

VALUES = [None, {}, [], [None], "", "a\nb", 0, -1, True, 1.5, {"a": 1}, [[]], ["x"], {"": {}}]


def spoilt(objects, chance):
    """One value somewhere is gone, or is another."""
    inner, steps = objects, []
    while isinstance(inner, (dict, list)) and inner and (len(steps) < 1 or chance.random() < 0.9):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        steps.append((inner, chance.choice(keys)))
        inner = inner[steps[-1][1]]
    holder, key = steps[-1]
    if chance.random() < 0.3:
        del holder[key]
    else:
        holder[key] = deepcopy(chance.choice(VALUES))  # else one is put into itself some day
    return objects
