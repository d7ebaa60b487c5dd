"""Schemas, templates and scripts are found wherever mlgen is installed."""

import pytest

from mlgen.resources import folder, script


@pytest.mark.parametrize(
    ("name", "file"),
    [("schemas", "job.schema.json"), ("templates", "objects"), ("argo", "supervise.sh")],
)
def test_a_folder_contains_its_files(name, file):
    assert (folder(name) / file).exists()


@pytest.mark.parametrize("name", ["wait-for-peers.sh", "supervise.sh"])
def test_a_script_is_found_in_templates_or_argo(name):
    assert script(name).startswith("#!/bin/sh\n")


def test_a_missing_script_raises_file_not_found_error():
    with pytest.raises(FileNotFoundError):
        script("missing.sh")
