"""Schemas, templates and scripts are found wherever mlgen is installed."""

import json

import pytest

from mlgen.resources import folder, script


@pytest.mark.parametrize(
    ("name", "file"),
    [("schemas", "job.schema.json"), ("templates", "objects"), ("argo", "rbac.yaml")],
)
def test_a_folder_contains_its_files(name, file):
    assert (folder(name) / file).exists()


def test_a_script_is_found_in_templates():
    assert script("wait-for-peers.sh").startswith("#!/bin/sh\n")


def test_a_missing_script_raises_file_not_found_error():
    with pytest.raises(FileNotFoundError):
        script("missing.sh")


def test_no_table_has_two_rows_of_one_name():
    """JSON would keep only the last one."""
    twice = []

    def unique(pairs):
        names = [name for name, _ in pairs]
        twice.extend(f"{file.name}: {name}" for name in set(names) if names.count(name) > 1)
        return dict(pairs)

    for file in folder("schemas").rglob("*.json"):
        json.loads(file.read_text(), object_pairs_hook=unique)

    assert [] == twice
