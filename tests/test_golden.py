"""Each fixture renders to exactly these manifests: the diff of a golden is its review."""


def test_manifests(job_file, render, manifest):
    assert render(job_file) == manifest


def test_the_same_bytes_twice(job_file, render):
    assert render(job_file) == render(job_file)
