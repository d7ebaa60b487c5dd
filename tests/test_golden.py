"""Each fixture renders exactly to its golden. Review changes in the diff of the goldens.

Goldens are abridged: goldens.py says how. The goldens of `test_the_reference` are complete.
"""

import re

import pytest
from goldens import LAUNCHER, PEERS, golden_text, reference, shortened
from support import NEWER, ROOT, each_file, rendered, rendered_once

from mlgen.checks.verify import verify
from mlgen.documents.files import Text
from mlgen.kubernetes.versions import parse


def test_manifests(job_file, manifest):
    """A custom resource has no golden. It renders as its job file, which has one."""
    assert rendered_once(job_file) == manifest


@pytest.mark.parametrize("job", [LAUNCHER, PEERS], ids=["launcher", "peers"])
def test_the_reference(job, full):
    """Other goldens omit what these two show."""
    assert reference(job) == full


@pytest.mark.parametrize(
    ("name", "objects"),
    [
        pytest.param("deepspeed-kubectl-exec", "", marks=pytest.mark.slow),
        ("pytorch-endpoint", "gpt-worker-[01]$"),
    ],
)
def test_a_change_of_any_line_changes_the_golden(name, objects, render):
    head, *documents = shortened(render(ROOT / f"fixtures/{name}.yaml")).split("---\n")[1:]
    shown = [item for item in documents if re.search(objects, item, re.MULTILINE)]
    text = "---\n".join(["", head, *shown])
    expected = golden_text(text)

    for letter in re.finditer(r"\w(?=\W*$)", text, re.MULTILINE):
        changed = f"{text[: letter.start()]}q{text[letter.end() :]}"
        assert golden_text(changed) != expected, changed[: letter.end()].splitlines()[-1]


@each_file()
def test_rendering_again_gives_the_same_bytes(file):
    assert rendered(file) == rendered_once(file)


@pytest.mark.parametrize("file", NEWER, ids=lambda path: path.stem)
def test_manifests_for_a_newer_version(file, render, manifest):
    version = parse(file.parent.name.removeprefix("kubernetes-"))
    text = render(file, kube_version=version)

    assert text == manifest
    assert verify([Text("manifests", text)], version).jobs
