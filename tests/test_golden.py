"""Each fixture renders to exactly these manifests: the diff of a golden is its review."""


def test_manifests(any_file, render, manifest):
    assert render(any_file) == manifest


def test_the_same_bytes_twice(any_file, render):
    assert render(any_file) == render(any_file)
