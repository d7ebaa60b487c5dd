"""Each fixture renders to exactly its golden; review a change by the diff of the goldens."""


def test_manifests(any_file, render, manifest):
    assert render(any_file) == manifest


def test_rendering_twice_gives_the_same_bytes(any_file, render):
    assert render(any_file) == render(any_file)
