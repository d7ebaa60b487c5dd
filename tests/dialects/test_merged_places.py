"""Each value of a merged TrainJob is reported at the place where it was written."""

import pytest

from mlgen.dialects.trainer.job import patched, written
from mlgen.documents.reader import read_document

BASE = """\
env:
- {name: A, value: base-0}
- {name: A, value: base-1}
- {name: B, value: base-2}
args: [base-3, base-4]
image: base-5
"""

PATCHES = {
    "another item": "env: [{name: C, value: patch-0}]",
    "an item of the base": "env: [{name: B, value: patch-0}]",
    "an item that the base has twice": "env: [{name: A, value: patch-0}]",
    "an item without its value": "env: [{name: A, valueFrom: patch-0}]",
    "the same item twice": "env:\n- {name: C, value: patch-0}\n- {name: C, value: patch-1}",
    "another list": "args:\n- patch-0",
    "another text": "image: patch-0\nname: patch-1",
    "nothing": "{}",
}


def leaves(value):
    """Yield the texts in a value that have a place, each with its place."""
    if isinstance(value.value, dict | list):
        steps = value.value if isinstance(value.value, dict) else range(len(value.value))
        for step in steps:
            yield from leaves(value.get(step))
    elif "-" in value.value:
        yield value.value, value.mark.place


@pytest.mark.parametrize("name", PATCHES)
def test_each_value_has_its_own_place(name):
    texts = {"base": BASE, "patch": PATCHES[name]}
    documents = (written(read_document(file, 0, text)) for file, text in texts.items())

    found = list(leaves(patched(*documents)))

    assert len(found) > 3
    for text, (file, line, column) in found:
        assert texts[file].splitlines()[line - 1][column - 1 :].startswith(text)
