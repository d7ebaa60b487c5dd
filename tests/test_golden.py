"""Each fixture renders exactly to its golden. Review changes in the diff of the goldens."""

import pytest
from support import NEWER

from mlgen.checks.verify import verify
from mlgen.documents.files import Text
from mlgen.kubernetes.versions import parse


def test_manifests(job_file, render, manifest):
    """A custom resource has no golden. It renders as its job file, which has one."""
    assert render(job_file) == manifest


def test_rendering_twice_gives_the_same_bytes(any_file, render):
    assert render(any_file) == render(any_file)


@pytest.mark.parametrize("file", NEWER, ids=lambda path: path.stem)
def test_manifests_for_a_newer_version(file, render, manifest):
    version = parse(file.parent.name.removeprefix("kubernetes-"))
    text = render(file, kube_version=version)

    assert text == manifest
    assert verify([Text("manifests", text)], version)
